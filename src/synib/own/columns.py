"""The common form of every file format: columns with one value per row, and vectors, of which there is one copy."""

import unicodedata
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from synib.checks import shown
from synib.own.budget import Budget

Array = np.ndarray[Any, Any]
Kind = Literal["vector", "number", "flag", "text", "other"]
Cell = str | bytes | float | bool | None  # the value in the file; None if missing
STEP = 1024  # rows that are examined at a time, to avoid a second copy of all rows
MOST, SWELL = 2**30, 100  # bytes, and expansion factor: a file that unpacks to more than both allow is refused
LONGEST = 256  # characters of the name of a class, group or split: an array of texts is as wide as its longest text


@dataclass(frozen=True)
class Column:
    """One value for each row.

    Args:
        values: Numbers, booleans or strings.
        present: Which rows have a value.
        names: Class names of the numbers 0, 1, …, if the file names them.
    """

    values: Array
    present: Array
    names: tuple[str, ...] = ()


class Source(ABC):
    """A user's file. Its columns are known from its header; those needed are read in one pass.

    Args:
        path: The file or the folder.
        kinds: Column → the kind of its values.
        descriptions: Column → its content in words, where the kind alone is not enough.
    """

    split: str | None = None  # the split column, if the format itself has splits
    rows = 0  # number of rows, if the header states it
    shared = False  # whether loaded arrays belong to the caller and must not be written to
    binary: Collection[str] = ()  # columns of bytes, such as image files
    cells_are_texts = False  # whether every column can be read as text, whatever its kind
    is_spreadsheet = True  # whether columns of one value may become modalities without being named
    notes: Sequence[str] = ()  # sentences on how columns were processed
    made_from: Mapping[str, Sequence[str]] = {}  # computed column → the columns of the file it was computed from

    def __init__(self, path: Path, kinds: Mapping[str, Kind], descriptions: Mapping[str, str] | None = None) -> None:
        self.path, self.kinds, self._descriptions = path, dict(kinds), dict(descriptions or {})
        for name in self.kinds:
            if not name.isprintable():
                raise ValueError(
                    f"{path}: the column name {shown(name)} has characters that cannot be printed: rename it."
                )

    def describe(self, name: str) -> str:
        """The content of a column, in words."""
        plain = {"vector": "vectors", "number": "one number per row", "flag": "true or false", "text": "texts"}
        return self._descriptions.get(name) or plain.get(self.kinds[name], "something else")

    def one_value(self, name: str) -> bool:
        """Whether a column can be read as one value per row."""
        return self.kinds[name] in ("number", "flag", "text")

    @abstractmethod
    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        """Read columns: those of one value by column name, vectors by the caller's names.

        Args:
            singles: Columns of one value per row.
            vectors: Name → one column of vectors, or the columns of numbers that form a vector.
            optional: Columns of one value that are skipped, without an error, if they hold long texts.

        Returns:
            The columns of one value, and the vectors ``(rows, width)``, NaN where a row has none.
        """

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        """Columns of one value (texts of any length, bytes) without conversion, at most ``rows`` rows at a time.

        Args:
            names: The columns.
            rows: Rows at a time.
        """
        raise ValueError(f"{self.path}: {', '.join(names)} cannot be read: texts, images, sounds and tables are read from "
                         ".csv, .parquet, a datasets folder, a folder with metadata.csv or a DataFrame.")  # fmt: skip


class Vectors:
    """Collects the vectors of one modality from blocks of rows.

    Args:
        path, name: For error messages.
        budget: The memory shared by all modalities of a file.
        expected: Total number of rows, if the file states it; their memory is then allocated at once.
    """

    def __init__(self, path: Path, name: str, budget: Budget | None = None, expected: int = 0) -> None:
        self.path, self.name, self.rows, self.width = path, name, 0, 0
        self._budget, self._expected = budget or Budget(path), expected
        self._buffer = array("f")  # grows in place; concatenating a list of blocks would need twice the memory
        self._array = np.empty((0, 0), np.float32)

    def add(self, values: Array, present: Array) -> None:
        """Add rows.

        Args:
            values: (rows that have a vector, width).
            present: Which rows have a vector.
        """
        if len(values) and not self.width:
            self.width = values.shape[1]
            self._begin()
        if len(values) and values.shape[1] != self.width:
            raise ragged(self.path, self.name, self.rows + int(np.argmax(present)), values.shape[1], self.width)
        if self._expected and self.rows + len(present) > self._expected:
            raise ValueError(
                f"{self.path} is damaged: {self.name} has more than the {self._expected:,} rows that its header states."
            )
        if not self._expected:
            self._budget.take(4 * len(present) * self.width)
        block = np.full((len(present), self.width), np.nan, np.float32)
        if len(values):
            with np.errstate(over="ignore", invalid="ignore"):  # infinite values and NaN are checked later
                block[present] = values
        if self._expected and self.width:
            self._array[self.rows : self.rows + len(present)] = block
        elif not self._expected:
            self._buffer.frombytes(block.tobytes())
        self.rows += len(present)

    def done(self) -> Array:
        """All rows."""
        if not self.width:
            raise ValueError(f"{self.path}: {self.name} is missing in every row: leave it out, or give it vectors.")
        if self._expected:
            return self._array[: self.rows]
        return np.frombuffer(self._buffer, np.float32).reshape(-1, self.width)

    def _begin(self) -> None:
        """Allocate the memory of all rows, if their number is known, or of the rows before the first vector."""
        if self._expected:
            self._budget.take(4 * self._expected * self.width)
            self._array = np.empty((self._expected, self.width), np.float32)
            self._array[: self.rows] = np.nan
        else:
            self._budget.take(4 * self.rows * self.width)
            self._buffer.frombytes(np.full(self.rows * self.width, np.nan, np.float32).tobytes())


def ragged(path: Path, name: str, row: int, width: int, expected: int) -> ValueError:
    """The error for a vector whose width differs from those before it."""
    if not width:
        return ValueError(
            f"{path}: {name} is an empty list in row {row} (from 0): leave the cell empty (null) instead."
        )
    return ValueError(
        f"{path}: all vectors of {name} must have the same width; row {row} (from 0) has {width} numbers, "
        f"the rows before it {expected}."
    )


def list_rows(rows: Array) -> str:
    """Row numbers for a message, counted from 0: "row 3", or "rows 3, 8, 9 and 20 more"."""
    first = ", ".join(str(row) for row in rows[:3])
    rest = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{rest} (from 0)"


def list_names(names: Sequence[str]) -> str:
    """Names for a message: the first twelve, and the number of the others."""
    rest = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) or "none") + rest


def short_columns(load: Callable[[str], Column], names: Sequence[str]) -> dict[str, Column]:
    """The columns that ``load`` can read, without those whose texts are too long to be names."""
    columns = {}
    for name in names:
        try:
            columns[name] = load(name)
        except ValueError:
            continue
    return columns


def printable(name: str) -> str:
    """A name that is safe to print: control characters and lone surrogates are escaped."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else repr(c)[1:-1] for c in name)


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def check_unpacked(path: Path, size: int, unpacked: int) -> None:
    """Raise ``ValueError`` if a compressed file expands implausibly: a few bytes could otherwise fill the memory."""
    if unpacked > max(MOST, SWELL * size):
        raise ValueError(
            f"{path} has {size:,} bytes and would unpack to {unpacked:,}: files that expand this much are refused. "
            "If the file is genuine, save it without compression, as a folder of .npy files."
        )


def texts(path: Path, name: str, values: Sequence[str]) -> Array:
    """An array of texts; ``ValueError`` if one is too long to be a name."""
    check_length(path, name, max(map(len, values), default=0))
    return np.array(values, dtype=np.str_)


def check_length(path: Path, name: str, longest: int) -> None:
    """Raise ``ValueError`` if the longest text of a column is too long for a name."""
    if longest > LONGEST:
        raise ValueError(
            f"{path}: {name} holds a text of {longest:,} characters; the name of a class, group or split may have at "
            f"most {LONGEST}."
        )
