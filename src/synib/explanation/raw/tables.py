"""The columns of a table, exchanged with another row's cells."""

from typing import Any

from synib.explanation.parts import PartScores
from synib.explanation.raw.base import Mask, RawParts
from synib.explanation.views import bars_of
from synib.own.columns import printable

CELL = 60  # characters of a cell that are shown


class TableColumns(RawParts):
    """The cells of a row, drawn as bars."""

    def count(self, row: int) -> int:
        return len(self.columns)

    def mixed(self, row: Any, fill: Any, own: Mask) -> list[Any]:
        return [tuple(a if is_own else b for a, b, is_own in zip(row, fill, mask, strict=True)) for mask in own]

    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        cells = zip(self.columns, self.content.row(row), strict=True)
        return bars_of([f"{column}: {_shown(cell)}" for column, cell in cells], parts, at)


def _shown(cell: Any) -> str:
    return "–" if cell is None else printable(str(cell))[:CELL]
