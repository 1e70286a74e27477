"""Data in memory: arrays, a pandas DataFrame, or a Hugging Face dataset."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synib.checks import shown
from synib.own.budget import Budget
from synib.own.columns import STEP, Array, Cell, Column, Kind, Source, Vectors, ragged, short_columns, texts
from synib.own.from_arrow import Batches, pyarrow

KINDS: dict[str, Kind] = {"b": "flag", "i": "number", "u": "number", "f": "number", "U": "text", "S": "text"}


class Memory(Source):
    """Arrays by name, ``(rows,)`` or ``(rows, width)``. They are never modified.

    Args:
        name: The name of the source in messages.
        arrays: Column → its values.
        class_names: Column → the class names of the numbers 0, 1, ….
    """

    shared = True

    def __init__(self, name: str, arrays: Mapping[str, Any], class_names: Mapping[str, Sequence[str]] | None = None):
        self._arrays = {column: as_array(column, values) for column, values in arrays.items()}
        self._class_names = class_names or {}
        kinds = {column: _kind(values) for column, values in self._arrays.items()}
        self.binary = {column for column, values in self._arrays.items() if _holds_bytes(values)}
        super().__init__(
            Path(name), kinds, {c: f"an array of {x.dtype} {x.shape}" for c, x in self._arrays.items() if x.ndim != 1}
        )

    def one_value(self, name: str) -> bool:
        return super().one_value(name) or self._arrays[name].shape[1:] == (1,)

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        columns = {name: self._single(name) for name in singles}
        return columns | short_columns(self._single, optional), {
            name: self._vectors(name, column_names) for name, column_names in vectors.items()
        }

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        for start in range(0, max((len(self._arrays[name]) for name in names), default=0), rows):
            blocks = {name: self._arrays[name][start : start + rows].tolist() for name in names}
            yield {name: [as_cell(value) for value in block] for name, block in blocks.items()}

    def _single(self, name: str) -> Column:
        values = self._arrays[name]
        return as_column(self.path, name, values.reshape(-1), tuple(map(str, self._class_names.get(name, ()))))

    def _vectors(self, name: str, columns: Sequence[str]) -> Array:
        first = self._arrays[columns[0]]
        if self.kinds[columns[0]] == "vector" and first.ndim == 1:
            return _stacked(self.path, name, first)
        if first.ndim == 2:
            if first.dtype in (np.float32, np.float16):
                return first
            Budget(self.path).take(4 * first.size)
            with np.errstate(over="ignore", invalid="ignore"):  # infinite and NaN are looked for in the end
                return first.astype(np.float32)
        matrix = np.empty((len(first), len(columns)), np.float32)
        for place, column in enumerate(columns):
            single = self._single(column)
            if len(single.values) != len(first):
                raise ValueError(
                    f"{self.path}: {columns[0]} and the columns numbered after it must have equally many rows."
                )
            with np.errstate(over="ignore", invalid="ignore"):
                matrix[:, place] = np.where(single.present, single.values, np.nan)
        return matrix


class HuggingFaceObject(Batches):
    """A ``datasets.Dataset``, or a ``DatasetDict`` whose keys become the split; read through its Arrow tables."""

    def __init__(self, data: Any) -> None:
        path = Path("dataset")
        self._pa = pyarrow(path)
        parts = dict(data) if isinstance(data, Mapping) else {"": data}
        for part in parts.values():
            if not all(hasattr(part, needed) for needed in ("with_format", "features", "__len__", "__getitem__")):
                raise ValueError(
                    f"A dataset must be a datasets.Dataset or DatasetDict, not streamed; got {type(part).__name__}."
                )
        if not parts or not any(len(part) for part in parts.values()):
            raise ValueError("The dataset has no rows.")
        self._parts = {name: part.with_format("arrow") for name, part in parts.items()}
        schemas = [part.features.arrow_schema for part in parts.values()]
        if any(schema.names != schemas[0].names for schema in schemas):
            raise ValueError("All splits of the dataset must have the same columns.")
        super().__init__(path, schemas[0])
        if "" not in self._parts and "split" not in self.kinds:
            self.split = "split"
            self.kinds["split"] = "text"

    def batches(self, names: Sequence[str], rows: int = STEP) -> Iterator[Mapping[str, Any]]:
        for part, dataset in self._parts.items():
            for start in range(0, len(dataset), rows):
                batch = dataset[start : start + rows]
                arrays = {name: batch.column(name).combine_chunks() for name in names if name != self.split}
                columns = {name: x.combine_chunks() if hasattr(x, "chunks") else x for name, x in arrays.items()}
                if self.split is not None and self.split in names:
                    columns[self.split] = self._pa.repeat(part, batch.num_rows)
                yield columns


def frame(data: Any) -> Memory:
    """The columns of a pandas DataFrame: numbers, texts, or a list or array in each cell."""
    if not hasattr(data, "columns") or not hasattr(data, "iloc"):
        raise ValueError(f"from_dataframe takes a pandas DataFrame; got {type(data).__name__} (try its .to_pandas()).")
    names = [str(name) for name in data.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The DataFrame has two columns called {twice!r}: rename one.")
    return Memory("DataFrame", {name: data.iloc[:, place].to_numpy() for place, name in enumerate(names)})


def as_array(name: str, values: Any) -> Array:
    """Convert lists, PyTorch tensors or pandas columns to a NumPy array."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
        values = values.float().numpy() if "bfloat16" in str(values.dtype) else values.numpy()
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):
        raise ValueError(f"{name} is a sparse matrix; expected an array: call .toarray() first.")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        array = np.empty(len(values), object)  # lists of different lengths
        array[:] = list(values)
    if not array.ndim:
        raise ValueError(f"{name} must be an array with a value or a vector for each row; got {shown(values)}.")
    return array


def as_column(path: Path, name: str, values: Array, names: tuple[str, ...] = ()) -> Column:
    """A column of one value per row, from an array of numbers, texts or objects; None, NaN and pandas' NA are missing."""
    if values.dtype.kind == "S":
        values = np.array([x.decode("utf-8", "replace") for x in values.tolist()])
    if values.dtype.kind == "U":
        column = texts(path, name, values.tolist())
        return Column(column, column != "", names)
    if values.dtype.kind != "O":
        return Column(values, np.ones(len(values), np.bool_), names)
    cells = values.tolist()
    present = np.array([not is_missing(cell) for cell in cells], np.bool_)
    known = [cell for cell, has in zip(cells, present, strict=True) if has]
    if all(isinstance(cell, str) for cell in known):
        return Column(texts(path, name, ["" if is_missing(cell) else cell for cell in cells]), present, names)
    if all(isinstance(cell, bool | np.bool_) for cell in known):
        return Column(
            np.array([bool(cell) if has else False for cell, has in zip(cells, present, strict=True)]), present
        )
    if all(isinstance(cell, int | np.integer) for cell in known) and max(map(abs, known)) < 2**63:
        integers = [int(cell) if has else 0 for cell, has in zip(cells, present, strict=True)]
        return Column(np.array(integers, np.int64), present, names)
    try:
        numbers = np.array([float(cell) if has else 0.0 for cell, has in zip(cells, present, strict=True)])
    except (TypeError, ValueError):
        wrong = next(cell for cell in known if not isinstance(cell, str))
        raise ValueError(f"{path}: {name} must hold either texts or numbers; it also has {shown(wrong)}.") from None
    return Column(numbers, present, names)


def is_missing(cell: object) -> bool:
    """Whether a cell is a missing value: None, NaN, or pandas' NA and NaT."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def as_cell(value: object) -> Cell:
    """Convert a value of an array of objects to a cell of a file."""
    if is_missing(value):
        return None
    if isinstance(value, dict):  # an image or a sound of datasets
        inner = value.get("bytes")
        value = inner if isinstance(inner, bytes) else value.get("path")
    return value if isinstance(value, str | bytes | int | float | bool | None) else str(value)


def _holds_bytes(values: Array) -> bool:
    if values.ndim != 1 or values.dtype.kind != "O":
        return False
    first = next((cell for cell in values if not is_missing(cell)), None)
    return isinstance(first, bytes) or (isinstance(first, dict) and "bytes" in first)


def _kind(values: Array) -> Kind:
    if values.ndim == 2:
        return "vector" if values.dtype.kind in "biuf" else "other"
    if values.ndim != 1:
        return "other"
    if values.dtype.kind != "O":
        return KINDS.get(values.dtype.kind, "other")
    first = next((cell for cell in values if not is_missing(cell)), None)
    if isinstance(first, str):
        return "text"
    if isinstance(first, bool | np.bool_):
        return "flag"
    if isinstance(first, list | tuple | np.ndarray) and np.ndim(first) == 1:
        return "vector" if np.asarray(first).dtype.kind in "biuf" else "other"
    return "number" if isinstance(first, int | float | np.number) else "other"


def _stacked(path: Path, name: str, cells: Array) -> Array:
    """Stack cells with one list or array each to ``(rows, width)``."""
    vectors = Vectors(path, name)
    for start in range(0, len(cells), STEP):
        block = cells[start : start + STEP].tolist()
        has = np.array([not is_missing(cell) for cell in block], np.bool_)
        rows: list[Array] = []
        for place in np.flatnonzero(has):
            try:
                row = np.asarray(block[place], np.float64)
            except (TypeError, ValueError):
                row = np.empty((0, 0))
            if row.ndim != 1:
                raise ValueError(f"{path}: {name} should be a list of numbers in every row; row {start + place} (from 0) is "
                                 f"{shown(block[place])}.")  # fmt: skip
            expected = vectors.width or (len(rows[0]) if rows else len(row))
            if len(row) != expected or not len(row):
                raise ragged(path, name, start + int(place), len(row), expected)
            rows.append(row)
        vectors.add(np.array(rows, np.float64), has)
    return vectors.done()
