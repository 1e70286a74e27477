"""The first pass over raw columns: counts rows and missing values, computes a checksum, and fits encoders."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synib.checks import shown
from synib.own.columns import Cell, Source
from synib.own.raw.encoders.base import Fitter, RawKind
from synib.own.raw.files import MediaFiles
from synib.own.raw.spec import RawModality
from synib.own.values import SPLITS

LONGEST = 100_000  # characters of a text that are read, at most
MEDIA = ("image", "audio")
READ = {"text": 1024, "table": 1024, "image": 64, "audio": 64}  # rows read at a time


@dataclass
class Content:
    """The result of the first pass over a modality's columns.

    Args:
        rows: Number of rows.
        present: Number of rows with a value.
        checksum: Checksum of all cells; for files, of their size and modification time.
    """

    rows: int = 0
    present: int = 0
    checksum: Any = field(default_factory=hashlib.sha256)


def survey(
    source: Source,
    modalities: Mapping[str, RawModality],
    fitters: Mapping[str, Sequence[Fitter]],
    files: MediaFiles,
    split: str | None = None,
) -> dict[str, Content]:
    """Read every cell once; unusable content raises ``ValueError`` before anything is encoded.

    Args:
        source: The file.
        modalities: Name → its columns; one with encoders, which a model was fitted with, may be missing in every row.
        fitters: Name → the fitters of its encoders; they do not get test rows.
        files: Reader of images and sounds.
        split: The split column.
    """
    columns = [c for modality in modalities.values() for c in modality.columns if c in source.kinds]
    read_columns = list(dict.fromkeys([*columns, *([split] if split is not None and any(fitters.values()) else [])]))
    contents = {name: Content() for name in modalities}
    row = 0
    for block in source.cells(read_columns, min(READ[m.kind] for m in modalities.values())):
        count = len(next(iter(block.values())))
        is_test = [_is_test(cell) for cell in block[split]] if split in block else [False] * count
        for name, modality in modalities.items():
            items = items_of(source, modality, block, row)
            content = contents[name]
            content.rows += count
            content.present += sum(item is not None for item in items)
            content.checksum.update(_digest(modality.kind, items, files, source, row))
            shown_items = [i for i, test in zip(items, is_test, strict=True) if i is not None and not test]
            for fitter in fitters.get(name, ()) if shown_items else ():
                fitter.add(shown_items)
        row += count
    if not row:
        raise ValueError(f"{source.path} has no rows.")
    for name, content in contents.items():
        if not content.present and not modalities[name].encoders:  # a fitted model does without it
            raise ValueError(
                f"{source.path}: {name} ({modalities[name].column}) is missing in every row: leave it out."
            )
    return contents


def items_of(source: Source, modality: RawModality, block: Mapping[str, list[Cell]], row: int) -> list[Any]:
    """The items to encode for each row of a block: a text, a path or bytes, or the cells of a table; ``None`` if missing.

    Args:
        source, modality: The file and the modality.
        block: Column → its cells.
        row: Number of the block's first row, for error messages.
    """
    count = len(next(iter(block.values())))
    cells = [[_value(c) for c in block[name]] if name in block else [None] * count for name in modality.columns]
    if modality.kind == "table":
        return [None if all(c is None for c in line) else line for line in zip(*cells, strict=True)]
    allowed = (str, bytes) if modality.kind in MEDIA else (str,)
    for place, cell in enumerate(cells[0]):
        if cell is not None and not isinstance(cell, allowed):
            words = "a path or the bytes of a file" if modality.kind in MEDIA else "a text"
            hint = "" if isinstance(cell, bytes) else f"; numbers are a table: {modality.columns[0]}:table"
            raise ValueError(
                f"{source.path}: {modality.columns[0]} must hold {words} in every row; row {row + place} (from 0) is "
                f"{shown(cell)}{hint}."
            )
    return [cell[:LONGEST] if modality.kind == "text" and isinstance(cell, str) else cell for cell in cells[0]]


def _value(cell: Cell) -> Cell:
    """A cell, or ``None`` if it is empty, blank or NaN."""
    if cell is None or cell == b"" or cell != cell or (isinstance(cell, str) and not cell.strip()):
        return None
    return cell


def _is_test(cell: Cell) -> bool:
    return SPLITS.get(str(cell).strip().lower()) == "test"


def _digest(kind: RawKind, items: Sequence[Any], files: MediaFiles, source: Source, row: int) -> bytes:
    digest = hashlib.sha256()
    for place, item in enumerate(items):
        try:
            if item is None:
                content = b""
            elif kind in MEDIA:
                content = files.stamp(item)
            else:
                content = (item if isinstance(item, str) else repr(item)).encode("utf-8", "surrogatepass")
        except ValueError as e:
            raise ValueError(f"{source.path}: row {row + place} (from 0): {e}") from e
        digest.update(len(content).to_bytes(8, "little") + bytes([item is not None]) + content)
    return digest.digest()
