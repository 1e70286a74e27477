"""A user's .csv. Vectors are numbered columns, or cells such as ``"[0.1, 0.2]"``."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from synib.checks import shown
from synib.own.budget import Budget
from synib.own.columns import LONGEST, STEP, Array, Cell, Column, Kind, Source, Vectors, first_repeated, ragged, texts

CELL = 16 * 2**20  # characters of a cell; Python's default allows a vector of only about 6,000 numbers
LINES = 256  # lines parsed at a time
CELL_SIZE = 64  # bytes of a short string in Python
FLAGS = {"true": True, "false": False}


class CSV(Source):
    """A UTF-8 file with commas and a header line; an empty cell is a missing value."""

    cells_are_texts = True

    def __init__(self, path: Path) -> None:
        with _lines(path) as (header, lines):
            kinds: dict[str, Kind] = {}
            empty = True
            for line in lines:
                empty = False
                for name, cell in zip(header, map(str.strip, line), strict=True):
                    if cell and name not in kinds:
                        kinds[name] = _kind(cell)
                if len(kinds) == len(header):
                    break
        if empty:
            raise ValueError(f"{path} has no rows.")
        self._header = header
        super().__init__(path, {name: kinds.get(name, "other") for name in header}, _empty_columns(header, kinds))

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        at = {name: place for place, name in enumerate(self._header)}
        cells: dict[str, list[str]] = {name: [] for name in (*singles, *optional)}
        budget = Budget(self.path)
        collected = {name: Vectors(self.path, name, budget) for name in vectors}
        with _lines(self.path) as (_, lines):
            while block := list(islice(lines, LINES)):
                budget.take(CELL_SIZE * len(block) * len(cells))
                for name in list(cells):
                    cells[name].extend(line[at[name]].strip() for line in block)
                    if name not in singles and any(len(cell) > LONGEST for cell in cells[name][-len(block) :]):
                        del cells[name]
                for name, columns in vectors.items():
                    if self.kinds[columns[0]] == "vector":
                        _add_lists(collected[name], [line[at[columns[0]]].strip() for line in block])
                    else:
                        _add_numbers(
                            collected[name], columns, [[line[at[column]] for column in columns] for line in block]
                        )
        return {name: _typed(self.path, name, column_cells) for name, column_cells in cells.items()}, {
            name: v.done() for name, v in collected.items()
        }

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        requested = set(names)
        at = {name: place for place, name in enumerate(self._header) if name in requested}
        with _lines(self.path) as (_, lines):
            while block := list(islice(lines, rows)):
                yield {name: [line[place].strip() or None for line in block] for name, place in at.items()}


@contextmanager
def _lines(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The column names, and the lines after the header, checked to have as many cells."""
    limit = csv.field_size_limit()
    csv.field_size_limit(max(limit, CELL))
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = _names(path, next(reader, []))
            yield header, _checked_lines(path, reader, len(header))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start:,}): save it as CSV UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"{path} is not a .csv file, or is truncated or damaged ({error}).") from error
    finally:
        csv.field_size_limit(limit)


def _names(path: Path, cells: list[str]) -> list[str]:
    # pandas writes its index as a column without a name.
    names = [cell.strip() or f"(column {place})" for place, cell in enumerate(cells)]
    if len(names) < 2:
        raise ValueError(
            f"{path}: the first line should be column names separated by commas; it is {shown(','.join(cells))}."
        )
    twice = first_repeated(names)
    if twice is not None:
        raise ValueError(f"{path} has two columns called {twice!r}: rename one.")
    return names


def _checked_lines(path: Path, reader: Iterator[list[str]], width: int) -> Iterator[list[str]]:
    for row, line in enumerate(line for line in reader if line):
        if len(line) != width:
            cells = "1 cell" if len(line) == 1 else f"{len(line)} cells"
            raise ValueError(
                f"{path}: row {row} (from 0) has {cells}, but the header has {width} columns. Separate cells with "
                "commas, and put a text that contains a comma into double quotes."
            )
        yield line


def _kind(cell: str) -> Kind:
    if cell.startswith("["):
        return "vector"
    if cell.lower() in FLAGS:
        return "flag"
    return "text" if _number(cell) is None else "number"


def _empty_columns(header: Sequence[str], kinds: Mapping[str, Kind]) -> dict[str, str]:
    return {name: "no value in any row" for name in header if name not in kinds}


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _add_lists(vectors: Vectors, cells: list[str]) -> None:
    has_value = np.array([bool(cell) for cell in cells])
    rows: list[list[float]] = []
    for place, cell in enumerate(cells):
        if not cell:
            continue
        try:
            if cell[0] != "[" or cell[-1] != "]":
                raise ValueError
            row = [float(part) for part in cell[1:-1].replace(",", " ").split()]
        except ValueError:
            raise ValueError(
                f"{vectors.path}: {vectors.name} should be a list of numbers such as [0.1, 0.2]; row {vectors.rows + place} "
                f"(from 0) is {shown(cell)}."
            ) from None
        expected = vectors.width or (len(rows[0]) if rows else len(row))
        if len(row) != expected or not row:
            raise ragged(vectors.path, vectors.name, vectors.rows + place, len(row), expected)
        rows.append(row)
    vectors.add(np.array(rows, np.float64), has_value)


def _add_numbers(vectors: Vectors, columns: Sequence[str], lines: list[list[str]]) -> None:
    try:
        values = np.array([list(map(float, line)) for line in lines])
    except ValueError:
        values = np.array([[_cell(vectors, columns[k], row, cell) for k, cell in enumerate(line)]
                           for row, line in enumerate(lines)])  # fmt: skip
    vectors.add(values, np.ones(len(lines), np.bool_))


def _cell(vectors: Vectors, column: str, row: int, cell: str) -> float:
    number = _number(cell) if cell.strip() else np.nan
    if number is None:
        raise ValueError(
            f"{vectors.path}: {column} should be a number in every row; row {vectors.rows + row} (from 0) is {shown(cell)}."
        )
    return number


def _typed(path: Path, name: str, cells: list[str]) -> Column:
    """Booleans, integers, numbers or strings: the first type that fits all cells; "007" is a string."""
    has_value = np.array([bool(cell) for cell in cells], np.bool_)
    filled = [cell for cell in cells if cell]
    if filled and all(cell.lower() in FLAGS for cell in filled):
        return Column(np.array([FLAGS.get(cell.lower(), False) for cell in cells]), has_value)
    if all(len(cell) < 19 and cell.removeprefix("-").isdecimal() and str(int(cell)) == cell for cell in filled):
        return Column(np.array([int(cell or 0) for cell in cells], np.int64), has_value)
    numbers = [_number(cell) if cell else 0.0 for cell in cells]
    if None not in numbers and not any(cell.isdecimal() and len(cell) > 1 and cell[0] == "0" for cell in filled):
        return Column(np.array(numbers, np.float64), has_value)
    return Column(texts(path, name, cells), has_value)
