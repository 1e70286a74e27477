"""Rows of a file, explained with what they hold: texts, images, sounds, tables and vectors."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.explanation.explain import Explanation, explain
from synib.explanation.raw import KINDS, RawContent, RawParts
from synib.explanation.raw.images import SIDE
from synib.explanation.views import View
from synib.own.columns import Column
from synib.own.new_rows import encoded_rows
from synib.own.predictor import Predictor
from synib.own.raw import catalogue, images, sounds
from synib.own.raw.embed import Embedded, RawOptions
from synib.own.raw.files import MediaFiles
from synib.own.raw.show import items_at, shown_rows
from synib.own.raw.spec import RawModality

BACKGROUND = 16  # rows that a file needs for its own rows to stand for what is absent


class FileExplanation(NamedTuple):
    """Rows of a file, explained.

    Args:
        explanation: The numbers of every row, and the parts of those shown.
        rows: The rows that are shown.
        notes: How the file was read, in sentences.
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
    """Explain rows of a file with a fitted model, from the words, patches, sounds and cells that the rows hold.

    A raw part that is not the row's own is the corresponding part of another row of the file, and the mixture is encoded as
    the rows were: words of a text (more than 32: passages), patches of an image, blocks of time and pitch of a sound,
    columns of a table. Vectors have their columns as parts.

    Args:
        model: What :func:`synib.fit` or :func:`synib.load` return.
        file: A file, as for :func:`synib.read`; it needs no target, and modalities may be missing.
        rows: The rows to show, from 0, or how many of those that rest most on synergy.
        columns: Modality → its column, where it is called otherwise than in training.
        parts: Whether to find which parts carry the interaction; this needs 16 rows that have every modality.
        draws: Rows that stand for an absent modality.
        part_draws: Rows and orders that the parts of a row are averaged over.
        seed: Seed for all draws.
        options: How raw columns are read.
    """
    options = options or RawOptions()
    read, embedded = encoded_rows(model, file, columns, options)
    notes = list(read.notes)
    values = {
        name: np.where(read.present[name][:, None], np.asarray(x, dtype=np.float64), np.nan)
        for name, x in read.modalities.items()
    }
    count = len(next(iter(values.values())))
    if not isinstance(rows, int) and (wrong := [row for row in rows if not 0 <= row < count]):
        raise ValueError(f"{file} has rows 0 to {count - 1}; row {wrong[0]} was asked for.")
    whole = np.logical_and.reduce([read.present.get(name, np.zeros(count, bool)) for name in model.widths])
    background = _some(np.flatnonzero(whole), draws, seed)
    settings: dict[str, Any] = {"draws": draws, "part_draws": part_draws, "seed": seed, "ids": _ids(read.beside, count)}
    if len(background) >= BACKGROUND:
        settings["background"] = {name: x[background] for name, x in values.items()}
    elif parts:
        notes.append(
            f"Parts are not explained: that needs {BACKGROUND} rows with every modality, and {Path(file).name} has "
            f"{int(whole.sum())}."
        )
        parts = False
    result = explain(model, values, **settings)
    shown = result.top(rows) if isinstance(rows, int) else list(rows)
    raw = {} if embedded is None else _raw_parts(embedded, shown, background if parts else [], part_draws, options)
    views: dict[str, View] = dict(raw)
    of: dict[str, Any] = {name: raw.get(name, "coordinates") for name in model.widths} if parts else {}
    return FileExplanation(explain(model, values, parts=of or False, of=shown, views=views, **settings), shown, notes)


def _raw_parts(
    embedded: Embedded, rows: Sequence[int], background: Sequence[int], draws: int, options: RawOptions
) -> dict[str, RawParts]:
    """Modality → its raw rows; without a background they can only be shown."""
    held = shown_rows(embedded, rows)
    result = {}
    for name, modality in embedded.modalities.items():
        kind = KINDS[modality.kind]
        items = items_at(embedded, modality, {*rows, *background}) if len(background) else {}
        content = RawContent(items, partial(_decoded, kind, modality, embedded.files), background)
        encoders = [
            catalogue.restore(modality, state, options.allow_download, options.device) for state in modality.encoders
        ]
        shown = {row: next(s for s in of if s.modality == name) for row, of in held.items()}
        result[name] = kind(
            name, modality.columns, content, encoders, shown, options.on_progress, max(1, draws * len(rows))
        )
    return result


def _decoded(kind: type[RawParts], modality: RawModality, files: MediaFiles, item: Any) -> Any:
    if modality.kind == "image":
        with images.bombs_are_errors():
            return kind.decoded(images.decode(files.content(item), SIDE))
    if modality.kind == "audio":
        return kind.decoded(sounds.decode(files.content(item)))
    return kind.decoded(item)


def _some(rows: NDArray[np.int64], count: int, seed: int) -> list[int]:
    """So many of the rows, in order."""
    chosen = np.random.default_rng(seed).permutation(rows)[:count] if len(rows) > count else rows
    return [int(row) for row in np.sort(chosen)]


def _ids(beside: Mapping[str, Column], count: int) -> list[str]:
    """The number of each row, with what identifies it in the file."""
    distinct = (name for name, column in beside.items() if len(set(map(str, column.values))) == count)
    name = next(distinct, None)
    if name is None:
        return [str(row) for row in range(count)]
    values = beside[name].values
    return [f"{row} ({name} {values[row]})" for row in range(count)]
