"""A user's .parquet, or a folder saved by Hugging Face's ``datasets``: read in batches, without executing any content."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from synib.checks import shown
from synib.data.files import inside
from synib.own.arrow_child import arrow_batches, arrow_head
from synib.own.budget import Budget
from synib.own.columns import (
    STEP,
    Array,
    Cell,
    Column,
    Kind,
    Source,
    Vectors,
    check_length,
    check_unpacked,
    first_repeated,
    printable,
    ragged,
    short_columns,
    texts,
)

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # end-of-stream marker; reveals a file that was cut between two batches


class Batches(Source):
    """Data in batches of rows with typed columns; null is a missing value."""

    def __init__(self, path: Path, schema: Any) -> None:
        twice = first_repeated(schema.names)
        if twice is not None:
            raise ValueError(f"{path} has two columns called {twice!r}: rename one.")
        super().__init__(
            path, {field.name: _kind(field.type) for field in schema}, {f.name: f"{f.type} per row" for f in schema}
        )
        self._class_names = _class_names(schema)
        self.binary = {field.name for field in schema if _is_binary(field.type)}

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int = STEP) -> Iterator[Mapping[str, Any]]:
        """Batches of these columns, at most ``rows`` rows each."""

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        with damage(self.path):
            for batch in self.batches(names, rows):
                for array in batch.values():
                    array.validate(full=True)
                yield {name: [_cell(value) for value in batch[name].to_pylist()] for name in names}

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        parts: dict[str, list[Column]] = {name: [] for name in (*singles, *optional)}
        budget = Budget(self.path)
        collected = {name: Vectors(self.path, name, budget, self.rows) for name in vectors}
        names = list(dict.fromkeys([*parts, *(column for columns in vectors.values() for column in columns)]))
        with damage(self.path):
            for batch in self.batches(names):
                for array in batch.values():
                    array.validate(full=True)
                for name in singles:
                    parts[name].append(_single(self.path, name, batch[name]))
                    budget.take(parts[name][-1].values.nbytes)
                for name in set(optional) & parts.keys():
                    short = short_columns(partial(_from_batch, self.path, batch), [name])
                    parts[name].append(short[name]) if short else parts.pop(name)
                for name, columns in vectors.items():
                    if self.kinds[columns[0]] == "vector":
                        _add_lists(collected[name], batch[columns[0]])
                    else:
                        _add_numbers(collected[name], [batch[column] for column in columns])
            columns_read = {name: self._joined(name, pieces) for name, pieces in parts.items()}
        return columns_read, {name: v.done() for name, v in collected.items()}

    def _joined(self, name: str, parts: Sequence[Column]) -> Column:
        if not parts:
            raise ValueError(f"{self.path} has no rows.")
        values = np.concatenate([part.values for part in parts])
        has_value = np.concatenate([part.present for part in parts])
        names = self._class_names.get(name, ())
        if names and values.dtype.kind in "iu":
            has_value &= values >= 0  # datasets writes an unknown label as -1
            return Column(values, has_value, names)
        return Column(values, has_value)


class Parquet(Batches):
    """A .parquet file, decoded in a worker process."""

    def __init__(self, path: Path) -> None:
        pyarrow(path)
        with damage(path):
            schema, self.rows, self._values = arrow_head(path)
            super().__init__(path, schema)

    def batches(self, names: Sequence[str], rows: int = STEP) -> Iterator[Mapping[str, Any]]:
        # Texts are not counted: a repeated text is sent only once.
        numbers = sum(self._values[name] for name in names if self.kinds[name] != "text")
        check_unpacked(self.path, self.path.stat().st_size, 4 * numbers)
        for batch in arrow_batches(self.path, names, rows):
            yield {name: batch.column(name) for name in names}


class HuggingFace(Batches):
    """A folder written by ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk``."""

    def __init__(self, path: Path) -> None:
        pa = pyarrow(path)
        self._pa = pa
        self._parts = _parts(path)
        with damage(path):
            schema = self._columns(self._parts[0][1])
            for _, file in self._parts[1:]:
                if not self._columns(file).equals(schema):
                    raise ValueError(
                        f"{path}: the columns of {file.name} differ from those of {self._parts[0][1].name}."
                    )
            super().__init__(path, schema)
        if self._parts[0][0] and "split" not in self.kinds:
            self.split = "split"
            self.kinds["split"] = "text"

    def batches(self, names: Sequence[str], rows: int = STEP) -> Iterator[Mapping[str, Any]]:
        for part, file in self._parts:
            for batch in arrow_batches(file, [name for name in names if name != self.split], rows):
                columns = {name: batch.column(name) for name in names if name != self.split}
                if self.split is not None and self.split in names:
                    columns[self.split] = self._pa.repeat(part, batch.num_rows)
                yield columns

    def _columns(self, file: Path) -> Any:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - len(END)))
            if stream.read() != END:
                raise ValueError(
                    f"{file} is not an Arrow stream, or is truncated or damaged: its end marker is missing."
                )
        return arrow_head(file)[0]


def pyarrow(path: Path) -> ModuleType:
    """The module ``pyarrow``; ``ValueError`` with the command to install it if it is missing."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError as e:
        raise ValueError(f'{path} is read with pyarrow: pip install "synib[audit]".') from e
    return pa


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Convert pyarrow's errors on a damaged file to ``ValueError``."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, OverflowError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read, or is truncated or damaged ({message[:120]}).") from error


def _parts(path: Path) -> list[tuple[str, Path]]:
    """Every Arrow file with its split, which is ``""`` for a dataset without splits."""
    if (path / "dataset_dict.json").is_file():
        splits = _json_list(path / "dataset_dict.json", "splits")
        folders = [(str(split), inside(path, str(split))) for split in splits]
    else:
        folders = [("", path)]
    files_of_parts = []
    for split, folder in folders:
        if not (folder / "state.json").is_file():
            raise ValueError(f"{path}: the folder {folder.name} has no state.json, which save_to_disk writes.")
        files = [entry.get("filename") if isinstance(entry, dict) else entry
                 for entry in _json_list(folder / "state.json", "_data_files")]  # fmt: skip
        files_of_parts += [(split, inside(folder, str(file))) for file in files]
    twice = first_repeated([str(file) for _, file in files_of_parts])
    if twice is not None:
        raise ValueError(f"{path} lists the data file {Path(twice).name} twice.")
    for _, file in files_of_parts:
        if not file.is_file():
            raise ValueError(f"{path}: the data file {file.name} is missing.")
    if not files_of_parts:
        raise ValueError(f"{path} is a datasets folder without data files.")
    return files_of_parts


def _json_list(file: Path, key: str) -> list[Any]:
    try:
        content = json.loads(file.read_bytes())
        if content.get("_indices_data_files") or content.get("_indices_files"):
            raise ValueError("it is a selection of rows: call flatten_indices() before save_to_disk()")
        if not isinstance(content[key], list):
            raise ValueError(f"{key} is {shown(content[key])}")
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} is not a valid file of save_to_disk with a list of {key} ({error}).") from error
    return list(content[key])


def _class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """Column → its class names, from the metadata that ``datasets`` writes."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: tuple(map(printable, map(str, feature["names"])))
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _kind(type_: Any) -> Kind:
    from pyarrow import types

    def number(t: Any) -> bool:
        return bool(types.is_integer(t) or types.is_floating(t))

    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return "vector" if number(type_.value_type) or types.is_boolean(type_.value_type) else "other"
    if types.is_boolean(type_):
        return "flag"
    plain = type_.value_type if types.is_dictionary(type_) else type_
    if number(plain):
        return "number"
    return "text" if types.is_string(plain) or types.is_large_string(plain) else "other"


def _is_binary(type_: Any) -> bool:
    """Whether a column holds bytes, or the struct of bytes and path in which ``datasets`` stores images and sounds."""
    from pyarrow import types

    if types.is_struct(type_):
        return "bytes" in {type_.field(k).name for k in range(type_.num_fields)}
    return bool(types.is_binary(type_) or types.is_large_binary(type_))


def _cell(value: Any) -> Cell:
    if isinstance(value, dict):
        inner = value.get("bytes")
        value = inner if isinstance(inner, bytes) else value.get("path")
    return value if isinstance(value, str | bytes | int | float | bool | None) else str(value)


def _from_batch(path: Path, batch: Mapping[str, Any], name: str) -> Column:
    return _single(path, name, batch[name])


def _single(path: Path, name: str, array: Any) -> Column:
    from pyarrow import types

    values = array.dictionary if types.is_dictionary(array.type) else array
    if types.is_string(values.type) or types.is_large_string(values.type):
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        check_length(
            path, name, pc.max(pc.utf8_length(values)).as_py() or 0
        )  # before a long text is copied for every row
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    has_value = array.is_valid().to_numpy(zero_copy_only=False)
    if types.is_string(array.type) or types.is_large_string(array.type):
        return Column(texts(path, name, [text or "" for text in array.to_pylist()]), has_value)
    filled = array.fill_null(False if types.is_boolean(array.type) else 0) if array.null_count else array
    return Column(
        np.array(filled.to_numpy(zero_copy_only=False)), has_value
    )  # a view would keep the whole batch in memory


def _add_lists(vectors: Vectors, array: Any) -> None:
    import pyarrow.compute as pc

    has_value = array.is_valid().to_numpy(zero_copy_only=False)
    widths = pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False)
    if len(widths):
        expected = vectors.width or int(widths[0])
        wrong = np.flatnonzero((widths != expected) | (widths == 0))
        if len(wrong):
            row = vectors.rows + int(np.flatnonzero(has_value)[wrong[0]])
            raise ragged(vectors.path, vectors.name, row, int(widths[wrong[0]]), expected)
        values = array.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, expected)
    else:
        values = np.empty((0, 0), np.float32)
    vectors.add(values, has_value)


def _add_numbers(vectors: Vectors, arrays: Sequence[Any]) -> None:
    values = np.empty((len(arrays[0]), len(arrays)), np.float32)
    for place, array in enumerate(arrays):
        column = _single(vectors.path, vectors.name, array)
        with np.errstate(over="ignore", invalid="ignore"):
            values[:, place] = np.where(column.present, column.values, np.nan)
    vectors.add(values, np.ones(len(values), np.bool_))
