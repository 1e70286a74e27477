"""Recognise the content of a column from its first rows: texts, images, sounds, categories, numbers or identifiers."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from synib.checks import check_modality, shown
from synib.own.columns import Cell, Source, list_names
from synib.own.raw import images, sounds
from synib.own.raw.encoders.onehot import as_number
from synib.own.raw.spec import RawModality
from synib.own.roles import check_number

LOOKED_AT = 2048  # first rows that are examined
WORDS = 3.0  # average words of a text, at least
CATEGORIES = 64  # distinct values of a column of categories, at most, or
SHARE = 0.05  # this share of its rows
FILE_NAMES = ("file_name", "filename", "file", "path")  # names that do not describe the content
TABLE = "table"  # name of the modality of all numbers and categories

IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|uuid|index))|.*[a-z]I[dD]|__index_level_\d+__|\(column \d+\)")

Content = Literal["text", "image", "audio", "category", "number", "name", "index", "empty"]


@dataclass(frozen=True)
class Recognised:
    """Modalities recognised in a file.

    Args:
        modalities: Name → its columns and kind.
        notes: Notes on the decisions.
    """

    modalities: dict[str, RawModality]
    notes: list[str]


def recognise(source: Source, taken: Collection[str], used: Collection[str] = ()) -> Recognised:
    """Find modalities among the columns without another role: each text, image or sound is one, all others form a table.

    Args:
        source: The file.
        taken: Columns that are target, split, group, weight or nuisance.
        used: Names of existing modalities.
    """
    taken, names_in_use = {name for name in taken if isinstance(name, str)}, set(used)
    free = [name for name in source.kinds if name not in taken and (source.one_value(name) or name in source.binary)]
    cells = first_cells(source, free)
    modalities: dict[str, RawModality] = {}
    table: list[str] = []
    left_out: list[str] = []
    for name in free:
        content = content_of(source, name, cells[name])
        if content in ("number", "category", "text") and IDENTIFIER.fullmatch(name):
            content = "name"
        if content in ("text", "image", "audio"):
            of_files = content if name.lower() in FILE_NAMES else name
            modality = _name(source, of_files, names_in_use)
            modalities[modality] = RawModality(content, (name,))  # type: ignore[arg-type]
            names_in_use.add(modality)
            check_number(source.path, names_in_use)
        elif content in ("number", "category"):
            table.append(name)
        elif content in ("name", "index"):
            left_out.append(name)
    if table:
        named = table[0] if len(table) == 1 else TABLE
        modalities[_name(source, named, names_in_use)] = RawModality("table", tuple(table))
    notes = [
        f"{name} is treated as {_words(m)}; change this with --modality {name}={_option(m)}."
        for name, m in modalities.items()
    ]
    if left_out:
        notes.append(f"Treated as identifiers: {list_names(left_out)}.")
    return Recognised(modalities, notes)


def first_cells(source: Source, names: Sequence[str]) -> dict[str, list[Cell]]:
    """The cells of the first rows that are not missing, for each column."""
    cells_of: dict[str, list[Cell]] = {name: [] for name in names}
    rows = 0
    if not names:
        return cells_of
    for block in source.cells(names, 64 if set(names) & set(source.binary) else 256):
        for name, cells in block.items():
            # The first bytes identify the file type.
            cells_of[name].extend(c[:16] if isinstance(c, bytes) else c for c in cells if c is not None and c != "")
        rows += len(next(iter(block.values())))
        if rows >= LOOKED_AT:
            break
    return cells_of


def content_of(source: Source, name: str, cells: Sequence[Cell]) -> Content:
    """The content of these cells; ``ValueError`` if they are of different kinds."""
    if not cells:
        return "empty"
    kinds = {_type(cell) for cell in cells}
    if len(kinds) > 1:
        different = next(cell for cell in cells if _type(cell) != _type(cells[0]))
        raise ValueError(
            f"{source.path}: {name} has mixed kinds: {_type(cells[0])} such as {shown(cells[0])}, and {_type(different)} "
            f"such as {shown(different)}. Use one kind, or leave the column out by naming the modalities."
        )
    if kinds == {"bytes"}:
        content = [cell for cell in cells if isinstance(cell, bytes)]
        are_images = sum(map(images.looks_like_image, content))
        are_sounds = sum(map(sounds.looks_like_sound, content))
        if max(are_images, are_sounds) < len(content) / 2:
            raise ValueError(f"{source.path}: {name} holds bytes that are neither images nor sounds.")
        return "image" if are_images >= are_sounds else "audio"
    if kinds == {"numbers"}:
        return "index" if _counts_rows([float(cell) for cell in cells]) else "number"  # type: ignore[arg-type]
    return _of_texts([str(cell) for cell in cells])


def _of_texts(cells: Sequence[str]) -> Content:
    for content, suffixes in (("image", images.SUFFIXES), ("audio", sounds.SUFFIXES)):
        if sum(cell.lower().partition("?")[0].endswith(suffixes) for cell in cells) > len(cells) / 2:
            return content  # type: ignore[return-value]
    numbers = [as_number(cell) for cell in cells]
    if sum(number == number for number in numbers) > len(cells) / 2:
        return "index" if _counts_rows(numbers) else "number"
    different = len(set(cells))
    if different <= max(CATEGORIES, SHARE * len(cells)) and different < 0.8 * len(cells):
        return "category"
    return "text" if sum(len(cell.split()) for cell in cells) / len(cells) >= WORDS else "name"


def _counts_rows(numbers: Sequence[float]) -> bool:
    """Whether these are consecutive integers, such as row numbers."""
    return len(numbers) > 1 and all(after - before == 1 for before, after in pairwise(numbers))


def _type(cell: Cell) -> str:
    if isinstance(cell, bytes):
        return "bytes"
    return "texts" if isinstance(cell, str) else "numbers"


def _option(modality: RawModality) -> str:
    """The columns and the kind as an option; only the first and the last of many columns."""
    columns = modality.columns
    return modality.column if len(columns) <= 12 else f"{columns[0]},…,{columns[-1]}:{modality.kind}"


def _words(modality: RawModality) -> str:
    columns = list_names(list(modality.columns))
    return {
        "text": f"text ({columns})",
        "image": f"images ({columns})",
        "audio": f"sounds ({columns})",
        "table": f"a table of {len(modality.columns)} column{'s' * (len(modality.columns) > 1)} ({columns})",
    }[modality.kind]


def _name(source: Source, column: str, used: Collection[str]) -> str:
    """A name for a modality from that of a column, without dots and spaces, which networks do not allow."""
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in column).strip("_") or "modality"
    plain = f"{plain}_2" if plain in used else plain
    if plain in used:
        raise ValueError(
            f"{source.path}: two columns would both be the modality {plain}: name the modalities explicitly."
        )
    return check_modality(plain, module=True)
