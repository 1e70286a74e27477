"""What every format of a user's file comes down to: columns of one value for each row, and vectors that are held once."""

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
Cell = str | bytes | float | bool | None  # as a file has it; None where it is missing
STEP = 1024  # rows that are looked at together, so that looking costs no second copy
MOST, SWELL = 2**30, 100  # bytes, and times its own size: a file that unpacks to more than both is refused
LONGEST = 256  # characters of a class, a group, a split: arrays of texts are as wide as their longest


@dataclass(frozen=True)
class Column:
    """One value for each row.

    Args:
        values: Numbers, booleans or strings.
        present: Which rows have one.
        names: The classes that whole numbers from 0 on stand for, where the file names them.
    """

    values: Array
    present: Array
    names: tuple[str, ...] = ()


class Source(ABC):
    """A user's file: its columns are known from its head, and those needed are read in one pass.

    Args:
        path: The file or the folder.
        kinds: Column → what it holds.
        descriptions: Column → what it holds, in words, where the kind alone says too little.
    """

    split: str | None = None  # the column of the parts of the data, where the format itself has parts
    rows = 0  # how many there are, where the head says so
    shared = False  # whether the arrays that it loads belong to somebody else, and must not be written to
    binary: Collection[str] = ()  # columns of bytes, such as whole image files
    cells_are_texts = False  # whether every column can be read as texts, whatever its kind
    is_spreadsheet = True  # whether its columns of one value may be modalities without being named
    notes: Sequence[str] = ()  # what was done to the columns, in sentences
    made_from: Mapping[str, Sequence[str]] = {}  # columns that were computed here → the columns of the file behind them

    def __init__(self, path: Path, kinds: Mapping[str, Kind], descriptions: Mapping[str, str] | None = None) -> None:
        self.path, self.kinds, self._descriptions = path, dict(kinds), dict(descriptions or {})
        for name in self.kinds:
            if not name.isprintable():
                raise ValueError(f"{path}: a column is called {shown(name)}, which cannot be printed: rename it.")

    def describe(self, name: str) -> str:
        """What a column holds, in words."""
        plain = {"vector": "vectors", "number": "one number each row", "flag": "true or false", "text": "texts"}
        return self._descriptions.get(name) or plain.get(self.kinds[name], "something else")

    def one_value(self, name: str) -> bool:
        """Whether a column can be read as one value for each row."""
        return self.kinds[name] in ("number", "flag", "text")

    @abstractmethod
    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        """Columns of one value by name, and vectors by a name of the caller's: (rows, width), NaN where a row has none.

        Args:
            singles: Columns of one value for each row.
            vectors: Name → one column of vectors, or columns of numbers that make a vector together.
            optional: Columns of one value that are left out, without an error, where they hold long texts.
        """

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        """Columns of one value (texts of any length, bytes) as the file has them, so many rows at a time.

        Args:
            names: The columns.
            rows: How many at a time.
        """
        raise ValueError(f"{self.path}: texts, images, sounds and tables are read from .csv, .parquet, a datasets folder, a "
                         f"folder with metadata.csv or a DataFrame; {', '.join(names)} cannot be read.")  # fmt: skip


class Vectors:
    """Vectors of one modality that come in blocks of rows.

    Args:
        path, name: For sentences.
        budget: The memory that all modalities of a file share.
        expected: How many rows there will be, where the file says so: their place is then there from the beginning.
    """

    def __init__(self, path: Path, name: str, budget: Budget | None = None, expected: int = 0) -> None:
        self.path, self.name, self.rows, self.width = path, name, 0, 0
        self._budget, self._expected = budget or Budget(path), expected
        self._held = array("f")  # grows in place: a list of blocks would be there twice when it is joined
        self._place = np.empty((0, 0), np.float32)

    def add(self, values: Array, present: Array) -> None:
        """Add rows.

        Args:
            values: (rows that have one, width).
            present: Which rows have one.
        """
        if len(values) and not self.width:
            self.width = values.shape[1]
            self._begin()
        if len(values) and values.shape[1] != self.width:
            raise ragged(self.path, self.name, self.rows + int(np.argmax(present)), values.shape[1], self.width)
        if self._expected and self.rows + len(present) > self._expected:
            raise ValueError(
                f"{self.path} is damaged: {self.name} has more than the {self._expected:,} rows of its head."
            )
        if not self._expected:
            self._budget.take(4 * len(present) * self.width)
        block = np.full((len(present), self.width), np.nan, np.float32)
        if len(values):
            with np.errstate(over="ignore", invalid="ignore"):  # infinite and NaN are looked for in the end
                block[present] = values
        if self._expected and self.width:
            self._place[self.rows : self.rows + len(present)] = block
        elif not self._expected:
            self._held.frombytes(block.tobytes())
        self.rows += len(present)

    def done(self) -> Array:
        """All rows."""
        if not self.width:
            raise ValueError(f"{self.path}: {self.name} is missing in every row: leave it out, or give it vectors.")
        if self._expected:
            return self._place[: self.rows]
        return np.frombuffer(self._held, np.float32).reshape(-1, self.width)

    def _begin(self) -> None:
        """Take the memory of all rows, if their number is known, and of those before the first that has a vector."""
        if self._expected:
            self._budget.take(4 * self._expected * self.width)
            self._place = np.empty((self._expected, self.width), np.float32)
            self._place[: self.rows] = np.nan
        else:
            self._budget.take(4 * self.rows * self.width)
            self._held.frombytes(np.full(self.rows * self.width, np.nan, np.float32).tobytes())


def ragged(path: Path, name: str, row: int, width: int, expected: int) -> ValueError:
    """The sentence on a vector of another width than those before it."""
    if not width:
        return ValueError(
            f"{path}: {name} is an empty list in row {row} (from 0): leave the cell empty (null) instead."
        )
    return ValueError(
        f"{path}: all vectors of {name} should be of one width; row {row} (from 0) has {width} numbers, "
        f"those before it {expected}."
    )


def list_rows(rows: Array) -> str:
    """Rows as a sentence names them: "row 3", or "rows 3, 8, 9 and 20 more", counted from 0."""
    first = ", ".join(str(row) for row in rows[:3])
    more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more} (from 0)"


def list_names(names: Sequence[str]) -> str:
    """Columns as a sentence lists them, the first dozen by name."""
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) or "none") + more


def short_columns(load: Callable[[str], Column], names: Sequence[str]) -> dict[str, Column]:
    """Those columns that ``load`` can read, and not those of texts too long to be names."""
    columns = {}
    for name in names:
        try:
            columns[name] = load(name)
        except ValueError:
            continue
    return columns


def printable(name: str) -> str:
    """A name as it may reach a terminal or a table: control characters and lone surrogates are written as escapes."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else repr(c)[1:-1] for c in name)


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def check_unpacked(path: Path, size: int, unpacked: int) -> None:
    """Raise ``ValueError`` if a compressed file swells as data do not: a few bytes can ask for all the memory there is."""
    if unpacked > max(MOST, SWELL * size):
        raise ValueError(
            f"{path} has {size:,} bytes and would unpack to {unpacked:,}: files that expand this much are not read. "
            "If it is right, save it without compression, as a folder of .npy files."
        )


def texts(path: Path, name: str, values: Sequence[str]) -> Array:
    """An array of texts, if none is so long that it must be something else than a name."""
    check_length(path, name, max(map(len, values), default=0))
    return np.array(values, dtype=np.str_)


def check_length(path: Path, name: str, longest: int) -> None:
    """Raise ``ValueError`` if the longest text of a column is too long for a name."""
    if longest > LONGEST:
        raise ValueError(
            f"{path}: {name} holds a text of {longest:,} characters; a class, a group or a split has a name of at "
            f"most {LONGEST}."
        )
