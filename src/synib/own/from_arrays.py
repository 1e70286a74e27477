"""A user's arrays: .npz, .safetensors, or a folder of .npy. Headers are parsed here, data are memory-mapped, not unpickled."""

import json
import math
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.checks import shown
from synib.data.files import inside
from synib.own.budget import Budget
from synib.own.columns import LONGEST, STEP, Array, Cell, Column, Source, check_unpacked, short_columns, texts
from synib.own.stored import Stored, zipped

HEAD = 2**20  # bytes of the header of an .npy, at most
TENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1"} | {
    f"{kind.upper()}{8 * size}": f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)
}


class Arrays(Source):
    """Arrays by name, with one row per example."""

    is_spreadsheet = False

    def __init__(self, path: Path, stored: Mapping[str, Stored]) -> None:
        descriptions = {name: f"an array of {s.dtype} {s.shape}" for name, s in stored.items()}
        super().__init__(path, {name: s.kind for name, s in stored.items()}, descriptions)
        self._stored = stored

    def one_value(self, name: str) -> bool:
        return super().one_value(name) or self._stored[name].shape[1:] == (1,)

    def arrays(self, names: Sequence[str]) -> dict[str, Array]:
        """Arrays in memory, without conversion."""
        missing = [name for name in names if name not in self._stored]
        if missing:
            known = ", ".join(sorted(self._stored)) or "none"
            raise ValueError(f"{self.path} has no array {', '.join(missing)}; it has {known}.")
        return {name: self._stored[name].read() for name in names}

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        budget = Budget(self.path)
        budget.take(sum(self._size(name) for name in singles))
        for columns in vectors.values():
            of_numbers = len(self._stored[columns[0]].shape) == 1
            budget.take(sum((4 * self._stored[c].size if of_numbers else self._stored[c].memory) for c in columns))
        optional = [name for name in optional if self._size(name) < budget.limit - budget.taken]
        return {name: self._single(name) for name in singles} | short_columns(self._single, optional), {
            name: self._vectors(columns) for name, columns in vectors.items()
        }

    def cells(self, names: Sequence[str], rows: int = STEP) -> Iterator[dict[str, list[Cell]]]:
        arrays = self.arrays(names)
        for start in range(0, max((len(x) for x in arrays.values()), default=0), rows):
            yield {name: [_cell(v) for v in x[start : start + rows].reshape(-1).tolist()] for name, x in arrays.items()}

    def _size(self, name: str) -> int:
        """Bytes of a column of one value per row, including Python's strings."""
        stored = self._stored[name]
        return stored.size * (stored.dtype.itemsize + (64 if stored.kind == "text" else 0))

    def _vectors(self, columns: Sequence[str]) -> Array:
        first = self._stored[columns[0]]
        if len(first.shape) == 2:
            return first.vectors()
        lengths = {self._stored[name].shape[0] for name in columns}
        if len(lengths) > 1:
            raise ValueError(
                f"{self.path}: {columns[0]} and the columns numbered after it must have equally many rows."
            )
        matrix = np.empty((first.shape[0], len(columns)), np.float32)
        for column, name in enumerate(columns):
            matrix[:, column] = self._stored[name].read(np.dtype(np.float32))
        return matrix

    def _single(self, name: str) -> Column:
        stored = self._stored[name]
        if stored.kind == "text" and stored.dtype.itemsize > 4 * LONGEST:
            raise ValueError(
                f"{self.path}: {name} holds texts of more than {LONGEST} characters, which are too long for names."
            )
        values = (stored.read(np.dtype(np.float32)) if stored.bfloat else stored.read()).reshape(-1)
        values = values.astype(values.dtype.newbyteorder("="))
        if stored.kind == "text":
            try:
                decoded = [x.decode() if isinstance(x, bytes) else x for x in values.tolist()]
            except (ValueError, SystemError) as error:
                raise ValueError(f"{self.path} is damaged: {name} holds text that cannot be decoded.") from error
            values = texts(self.path, name, decoded)
            return Column(values, values != "")
        return Column(values, np.ones(len(values), np.bool_))


def _cell(value: Any) -> Cell:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return None if value == "" or value != value else value


def npz(path: Path) -> Arrays:
    """A file written by ``np.savez`` or ``np.savez_compressed``."""
    size, stored = path.stat().st_size, {}
    with zipped(path) as archive:
        check_unpacked(path, size, sum(info.file_size for info in archive.infolist()))
        unpacked = 0  # bytes after conversion of vectors to float32
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if ".." in re.split(r"[/\\]", info.filename) or info.filename.startswith(("/", "\\")):
                raise ValueError(
                    f"{path} holds {shown(info.filename)}, which points outside of it: an array needs a name, not a path."
                )
            if name in stored:
                raise ValueError(f"{path} has two arrays called {name!r}.")
            if name == info.filename:
                continue
            with archive.open(info) as stream:
                head = npy_head(path, name, cast(BinaryIO, stream), info.file_size)
            if info.compress_type == zipfile.ZIP_STORED:
                start = _start(path, info)
                if start + info.file_size > size:
                    raise ValueError(f"{path} is truncated or damaged: {name} extends beyond the end of the file.")
                checked = (name, start, info.file_size, info.CRC)
                at = start + head.offset
                stored[name] = Stored(path, at, head.dtype, head.shape, head.fortran, checked=checked)
            else:
                unpacked += head.memory if head.kind == "vector" else info.file_size
                check_unpacked(path, size, unpacked)
                stored[name] = Stored(path, head.offset, head.dtype, head.shape, head.fortran, info)
    if not stored:
        raise ValueError(f"{path} contains no arrays.")
    return Arrays(path, stored)


def safetensors(path: Path) -> Arrays:
    """A file written by ``safetensors``; labels are a tensor of integers."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError(
                f"{path} is not a .safetensors file, or is truncated or damaged: its header is longer than the file."
            )
        try:
            head = json.loads(stream.read(length), object_pairs_hook=_without_duplicates)
            tensors = {name: _tensor(path, 8 + length, entry) for name, entry in head.items() if name != "__metadata__"}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise ValueError(f"{path} is not a .safetensors file, or is truncated or damaged ({error}).") from error
    _check_disjoint(path, tensors, 8 + length)
    end = max((s.offset + math.prod(s.shape) * s.dtype.itemsize for s in tensors.values()), default=0)
    if end != size:
        raise ValueError(
            f"{path} is truncated or damaged: its tensors should end at byte {end:,}, but the file has {size:,} bytes."
        )
    return Arrays(path, tensors)


def npy_folder(path: Path, files: Iterable[Path]) -> Arrays:
    """A folder of .npy files, each of which is a column."""
    stored = {}
    for file in files:
        inside(path, file.name)
        if not file.is_file():
            raise ValueError(f"{file} is a device or a pipe; expected a file: copy its content into a file first.")
        with file.open("rb") as stream:
            stored[file.stem] = npy_head(file, file.stem, stream, file.stat().st_size)
    return Arrays(path, stored)


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the data of a stored member begin: after its local header, whose length is not in the central directory."""
    with path.open("rb") as stream:
        stream.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", stream.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


def npy_head(path: Path, name: str, stream: BinaryIO, size: int) -> Stored:
    """Parse the header of an .npy of ``size`` bytes, without evaluating it as numpy would."""
    magic = stream.read(8)
    wide = magic[6:7] in (b"\x02", b"\x03")
    length = int.from_bytes(stream.read(4 if wide else 2), "little")
    if magic[:6] != b"\x93NUMPY" or length > HEAD:
        raise ValueError(f"{path} is truncated or damaged: {name} is not an .npy array.")
    head = stream.read(length).decode("latin1")
    descr = re.search(r"'descr': *'([<>|=][a-zA-Z]\d*)'", head)
    order = re.search(r"'fortran_order': *(True|False)", head)
    shape = re.search(r"'shape': *\(([\d, ]*)\)", head)
    if descr is not None and descr[1][1] == "O":
        raise ValueError(
            f"{path}: {name} is an array of objects, which would have to be unpickled: save it as numbers, or as texts with "
            "dtype=str."
        )
    try:
        if descr is None or order is None or shape is None:
            raise ValueError
        dtype = np.dtype(descr[1])
        if not dtype.itemsize:
            raise ValueError
        sides = tuple(int(side) for side in shape[1].split(",") if side.strip())
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{path}: {name} is not a plain array of numbers or strings, or is damaged.") from None
    offset = len(magic) + (4 if wide else 2) + length
    if offset + math.prod(sides) * dtype.itemsize != size:
        raise ValueError(f"{path} is truncated or damaged: {name} does not hold {sides} values as its header states.")
    return Stored(path, offset, dtype, sides, order[1] == "True" and len(sides) > 1)


def _check_disjoint(path: Path, tensors: Mapping[str, Stored], start: int) -> None:
    """Raise ``ValueError`` if tensors overlap, so that a small file would expand to a large one, or leave gaps."""
    for name, stored in sorted(tensors.items(), key=lambda item: (item[1].offset, item[1].size)):
        if stored.offset < start:
            raise ValueError(f"{path} is damaged: {name} begins at byte {stored.offset:,}, inside another tensor.")
        if stored.offset > start:
            raise ValueError(
                f"{path} is truncated or damaged: bytes {start:,} to {stored.offset:,} belong to no tensor."
            )
        start = stored.offset + stored.size * stored.dtype.itemsize


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("two tensors have the same name")
    return dict(pairs)


def _tensor(path: Path, start: int, entry: Mapping[str, Any]) -> Stored:
    dtype, shape = np.dtype(TENSORS.get(entry["dtype"], "|V1")), tuple(entry["shape"])
    first, last = entry["data_offsets"]
    sizes = (*shape, first, last)
    if not all(type(side) is int and 0 <= side < 2**62 for side in sizes):
        raise ValueError("a shape is invalid")
    if entry["dtype"] in TENSORS and last - first != math.prod(shape) * dtype.itemsize:
        raise ValueError("the size of a tensor does not match its shape")
    if entry["dtype"] not in TENSORS:
        return Stored(path, start + first, dtype, (last - first,))
    return Stored(path, start + first, dtype, shape, bfloat=entry["dtype"] == "BF16")


def read_npz(path: str | Path, names: Iterable[str]) -> dict[str, Array]:
    """Read arrays of numbers or texts by name.

    Args:
        path: A file written by ``np.savez`` or ``np.savez_compressed``.
        names: The arrays to read.

    Raises:
        ValueError: If an array is missing or of another type, or the file is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"An .npz must be a file; {path} {'is not a file' if path.exists() else 'does not exist'}.")
    return npz(path).arrays(list(names))
