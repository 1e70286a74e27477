"""Raw cells for display: an excerpt of a text, a small picture, the waveform of a sound, or the cells of a table."""

import base64
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from synib.data.media import BrokenFile
from synib.own.columns import printable
from synib.own.raw import images, sounds
from synib.own.raw.embed import Embedded
from synib.own.raw.files import MediaFiles
from synib.own.raw.spec import RawModality
from synib.own.raw.survey import READ, items_of

EXCERPT, SIDE, POINTS, HEIGHT = 240, 96, 120, 32  # characters; pixels; points and height of an outline


@dataclass(frozen=True)
class Shown:
    """The content of a modality in a row; texts are plain and must be escaped for display.

    Args:
        modality, kind: Name and kind of the modality.
        words: The excerpt, or the cells of a table, or a note that the content is missing or broken.
        picture: A data URI of a newly encoded JPEG, for images.
        outline: The ``d`` of an SVG path, 120 wide and 32 high, for sounds.
    """

    modality: str
    kind: str
    words: str = ""
    picture: str = ""
    outline: str = ""


def shown_rows(embedded: Embedded, rows: Sequence[int]) -> dict[int, list[Shown]]:
    """Row of the file → its content in each raw modality. The file is read up to the last of the rows.

    Args:
        embedded: The file.
        rows: Row numbers, from 0.
    """
    wanted = set(rows)
    shown: dict[int, list[Shown]] = {row: [] for row in rows}
    for name, modality in embedded.modalities.items():
        for row, item in items_at(embedded, modality, wanted).items():
            shown[row].append(_shown(name, modality, item, embedded.files))
    return shown


def items_at(embedded: Embedded, modality: RawModality, rows: Collection[int]) -> dict[int, Any]:
    """Row of the file → its cell of a modality. The file is read up to the last of the rows."""
    wanted, columns = set(rows), [c for c in modality.columns if c in embedded.base.kinds]
    items_by_row: dict[int, Any] = {}
    row = 0
    for block in embedded.base.cells(columns, READ[modality.kind]):
        count = len(next(iter(block.values())))
        if any(row <= wanted_row < row + count for wanted_row in wanted):
            items = items_of(embedded, modality, block, row)
            items_by_row |= {
                wanted_row: items[wanted_row - row] for wanted_row in wanted if row <= wanted_row < row + count
            }
        row += count
        if row > max(wanted, default=-1):
            break
    return items_by_row


def _shown(name: str, modality: RawModality, item: Any, files: MediaFiles) -> Shown:
    kind = modality.kind
    if item is None:
        return Shown(name, kind, "missing")
    if kind == "text":
        text = " ".join(printable(part) for part in str(item).split())
        return Shown(name, kind, text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…")
    if kind == "table":
        pairs = zip(modality.columns, item, strict=True)
        return Shown(name, kind, ", ".join(f"{column} {_cell(cell)}" for column, cell in pairs))
    words = printable(item) if isinstance(item, str) else ""
    try:
        content = files.content(item)
        if kind == "image":
            with images.bombs_are_errors():
                return Shown(name, kind, words, picture=thumbnail(images.decode(content, SIDE)))
        return Shown(name, kind, words, outline=outline(sounds.decode(content).samples))
    except BrokenFile as e:
        return Shown(name, kind, f"{words} {e}".strip())


def thumbnail(image: Any) -> str:
    """A data URI of a JPEG of at most 96 pixels per side, encoded again, so that it has no metadata of the file."""
    small = image.copy()
    small.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def outline(samples: np.ndarray[Any, Any]) -> str:
    """The envelope of a wave as an SVG path: lowest to highest sample at each of 120 points."""
    ends = np.linspace(0, len(samples), POINTS + 1).astype(np.int64)
    parts = [samples[a : max(b, a + 1)] for a, b in pairwise(ends)]
    largest = max(float(np.abs(samples).max()), 1e-6)
    middle = HEIGHT / 2
    spans = [(middle - p.max() / largest * middle, middle - p.min() / largest * middle) for p in parts if len(p)]
    return "".join(f"M{x} {high:.1f}V{max(low, high + 0.5):.1f}" for x, (high, low) in enumerate(spans))


def _cell(cell: object) -> str:
    return "–" if cell is None else printable(str(cell))[:60]
