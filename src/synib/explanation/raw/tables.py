"""The columns of a table, exchanged with another row's cells."""

from typing import Any

from synib.explanation import pictures
from synib.explanation.parts import Numbers, PartScores
from synib.explanation.raw.base import Mask, RawParts
from synib.explanation.views import bars_of, largest
from synib.own.columns import printable

CELL = 60  # characters of a cell that are shown


class TableColumns(RawParts):
    """The cells of a row, drawn as bars."""

    part_name = "cells"

    def count(self, row: int) -> int:
        return len(self.columns)

    def mixed(self, row: Any, fill: Any, own: Mask) -> list[Any]:
        return [tuple(a if is_own else b for a, b, is_own in zip(row, fill, mask, strict=True)) for mask in own]

    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        return bars_of(self._names(row), parts, at)

    def highlighted(self, row: int, scores: Numbers) -> str:
        names, shown = self._names(row), largest(scores)
        return pictures.bars([names[i] for i in shown], scores[shown])

    def _names(self, row: int) -> list[str]:
        return [f"{column}: {_shown(cell)}" for column, cell in zip(self.columns, self.content.row(row), strict=True)]


def _shown(cell: Any) -> str:
    return "–" if cell is None else printable(str(cell))[:CELL]
