"""Explain rows of a file by their content: words, image patches, sound blocks, table cells and vector columns."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from synib.checks import check_whole, is_whole
from synib.explanation.explain import Explanation, explain
from synib.explanation.raw import raw_parts
from synib.explanation.views import View
from synib.own.columns import Column
from synib.own.new_rows import encoded_rows
from synib.own.predictor import Predictor
from synib.own.raw.embed import RawOptions

BACKGROUND = 16  # complete rows, at least, for rows of the file to serve as background


class FileExplanation(NamedTuple):
    """An explanation of rows of a file.

    Args:
        explanation: The evidence of every row, and the parts of the shown rows.
        rows: The shown rows.
        notes: Notes on how the file was read.
    """

    explanation: Explanation
    rows: list[int]
    notes: list[str]

    def _repr_html_(self) -> str:
        from synib.explanation.html import explanation_html

        return explanation_html(self.explanation, self.rows)


def explain_file(
    model: Predictor,
    file: str | os.PathLike[str],
    rows: int | Sequence[int] = 10,
    *,
    columns: Mapping[str, str] | None = None,
    parts: bool = True,
    draws: int = 128,
    part_draws: int = 16,
    seed: int = 0,
    options: RawOptions | None = None,
) -> FileExplanation:
    """Explain rows of a file with a fitted model, in terms of words, patches, sound blocks and cells.

    Parts of raw modalities are words of a text (passages if there are more than 32), patches of an image, blocks of time and
    frequency of a sound, and columns of a table; parts of vectors are their columns. To remove a part, it is replaced by the
    corresponding part of another row of the file, and the mixture is encoded again.

    Args:
        model: A fitted model of :func:`synib.fit` or :func:`synib.load`.
        file: A file, as for :func:`synib.read`; it needs no target, and modalities may be missing.
        rows: The row numbers to show, from 0, or the number of most synergistic rows.
        columns: Modality → its column, if its name differs from that in training.
        parts: Whether to compute the contributions of parts; this needs 16 rows that have every modality.
        draws: Background rows that replace an absent modality.
        part_draws: Background rows and orders for the parts of a row.
        seed: Seed for all draws.
        options: Options for reading raw columns.
    """
    options = options or RawOptions()
    wanted = check_whole("rows", rows) if is_whole(rows) else [int(row) for row in cast(Sequence[int], rows)]
    read, embedded = encoded_rows(model, file, columns, options)
    notes = list(read.notes)
    values = {
        name: np.where(read.present[name][:, None], np.asarray(x, dtype=np.float64), np.nan)
        for name, x in read.modalities.items()
    }
    count = len(next(iter(values.values())))
    if isinstance(wanted, list) and (wrong := [row for row in wanted if not 0 <= row < count]):
        raise ValueError(f"{file} has rows 0 to {count - 1}; row {wrong[0]} was requested.")
    complete = np.logical_and.reduce([read.present.get(name, np.zeros(count, bool)) for name in model.widths])
    background = _sampled(np.flatnonzero(complete), draws, seed)
    settings: dict[str, Any] = {"draws": draws, "part_draws": part_draws, "seed": seed, "ids": _ids(read.beside, count)}
    if len(background) >= BACKGROUND:
        settings["background"] = {name: x[background] for name, x in values.items()}
    elif parts:
        notes.append(
            f"Parts are not explained: this needs {BACKGROUND} rows with every modality, but {Path(file).name} has "
            f"{int(complete.sum())}."
        )
        parts = False
    result = explain(model, values, **settings)
    shown = wanted if isinstance(wanted, list) else result.top(wanted)
    raw = {} if embedded is None else raw_parts(embedded, shown, background if parts else [], part_draws, options)
    views: dict[str, View] = dict(raw)
    row_parts: dict[str, Any] = {name: raw.get(name, "coordinates") for name in model.widths} if parts else {}
    return FileExplanation(
        explain(model, values, parts=row_parts or False, of=shown, views=views, **settings), shown, notes
    )


def _sampled(rows: NDArray[np.int64], count: int, seed: int) -> list[int]:
    """At most ``count`` of the rows, sampled at random, in order."""
    chosen = np.random.default_rng(seed).permutation(rows)[:count] if len(rows) > count else rows
    return [int(row) for row in np.sort(chosen)]


def _ids(beside: Mapping[str, Column], count: int) -> list[str]:
    """The number of each row, with the value of an identifying column of the file, if there is one."""
    distinct = (name for name, column in beside.items() if len(set(map(str, column.values))) == count)
    name = next(distinct, None)
    if name is None:
        return [str(row) for row in range(count)]
    values = beside[name].values
    return [f"{row} ({name} {values[row]})" for row in range(count)]
