"""A user's arrays: .npz, .safetensors, a folder of .npy. Heads are parsed here, numbers are mapped, nothing is unpickled."""

import json
import math
import mmap
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.checks import shown
from synib.data.files import inside
from synib.own.columns import LONGEST, Array, Column, Kind, Source, check_unpacked, short_columns, texts

HEAD = 2**20  # bytes of an .npy's head at most
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, UnicodeDecodeError)
TENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1"} | {
    f"{kind.upper()}{8 * size}": f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)
}


@dataclass(frozen=True)
class Stored:
    """Where the numbers of an array lie, and what its head says of them; the file is known to be long enough.

    Args:
        path: The file.
        offset: Where they begin in it, or in the member of an archive.
        dtype, shape, fortran: What they are.
        member: The compressed member of an archive that they are in.
        bfloat: Whether two bytes are the upper half of a float32.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool = False
    member: zipfile.ZipInfo | None = None
    bfloat: bool = False

    @property
    def kind(self) -> Kind:
        """What a column of it would hold."""
        whole, vector = self.dtype.kind in "iuf", len(self.shape) == 2
        if vector and (whole or self.dtype.kind == "b"):
            return "vector"
        is_single = len(self.shape) == 1
        kinds: dict[str, Kind] = {"b": "flag", "U": "text", "S": "text"}
        return ("number" if whole else kinds.get(self.dtype.kind, "other")) if is_single else "other"

    def mapped(self) -> Array:
        """The array in the file's own pages; what is written to it goes to memory, never to the file."""
        before = self.offset % mmap.ALLOCATIONGRANULARITY
        length = before + math.prod(self.shape) * self.dtype.itemsize
        with self.path.open("rb") as stream:
            pages = mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_COPY, offset=self.offset - before)
        return np.ndarray(self.shape, self.dtype, pages, before, order="F" if self.fortran else "C")

    def read(self, dtype: np.dtype[Any] | None = None) -> Array:
        """The array in memory, once, as ``dtype``."""
        shape = (self.shape[::-1] if self.fortran else self.shape) or (1,)
        out = np.empty(shape, dtype or self.dtype)
        row = math.prod(shape[1:]) * self.dtype.itemsize
        step = max(1, 2**22 // max(row, 1))
        with self._opened() as stream:
            stream.seek(self.offset)
            for start in range(0, len(out), step):
                part = out[start : start + step]
                held = stream.read(len(part) * row)
                if len(held) != len(part) * row:
                    raise ValueError(f"{self.path} is cut or damaged: fewer numbers are in it than its head says.")
                with np.errstate(over="ignore", invalid="ignore"):  # infinite and NaN are looked for in the end
                    part[...] = self._values(held).reshape(part.shape)
        return out.T if self.fortran else out.reshape(self.shape)

    def vectors(self) -> Array:
        """The array as float16, if it is that, or float32: mapped if it lies there so."""
        half = self.dtype.kind == "f" and self.dtype.itemsize == 2
        wanted = np.dtype(np.float16 if half else np.float32)
        mappable = self.dtype == wanted and self.member is None and math.prod(self.shape) > 0
        return self.mapped() if mappable else self.read(wanted)

    def _values(self, held: bytes) -> Array:
        if self.bfloat:
            return (np.frombuffer(held, "<u2").astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(held, self.dtype)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.member is None:
            with self.path.open("rb") as stream:
                yield stream
        else:
            with zipped(self.path) as archive, archive.open(self.member) as member:
                yield cast(BinaryIO, member)


class Arrays(Source):
    """Arrays by name, a row of each for each example."""

    def __init__(self, path: Path, stored: Mapping[str, Stored]) -> None:
        descriptions = {name: f"an array of {s.dtype} {s.shape}" for name, s in stored.items()}
        super().__init__(path, {name: s.kind for name, s in stored.items()}, descriptions)
        self._stored = stored

    def one_value(self, name: str) -> bool:
        return super().one_value(name) or self._stored[name].shape[1:] == (1,)

    def arrays(self, names: Sequence[str]) -> dict[str, Array]:
        """Arrays as they are, in memory."""
        missing = [name for name in names if name not in self._stored]
        if missing:
            known = ", ".join(sorted(self._stored)) or "none"
            raise ValueError(f"{self.path} has no array {', '.join(missing)}; it has {known}.")
        return {name: self._stored[name].read() for name in names}

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        return {name: self._single(name) for name in singles} | short_columns(self._single, optional), {
            name: self._vectors(columns) for name, columns in vectors.items()
        }

    def _vectors(self, columns: Sequence[str]) -> Array:
        first = self._stored[columns[0]]
        if len(first.shape) == 2:
            return first.vectors()
        lengths = {self._stored[name].shape[0] for name in columns}
        if len(lengths) > 1:
            raise ValueError(f"{self.path}: {columns[0]} and those numbered after it should have as many rows each.")
        together = np.empty((first.shape[0], len(columns)), np.float32)
        for place, name in enumerate(columns):
            together[:, place] = self._stored[name].read(np.dtype(np.float32))
        return together

    def _single(self, name: str) -> Column:
        stored = self._stored[name]
        if stored.kind == "text" and stored.dtype.itemsize > 4 * LONGEST:
            raise ValueError(f"{self.path}: {name} holds texts of more than {LONGEST} characters, too long for names.")
        values = (stored.read(np.dtype(np.float32)) if stored.bfloat else stored.read()).reshape(-1)
        values = values.astype(values.dtype.newbyteorder("="))
        if stored.kind == "text":
            try:
                decoded = [x.decode() if isinstance(x, bytes) else x for x in values.tolist()]
                "".join(decoded).encode()
            except (ValueError, SystemError) as mistake:
                raise ValueError(f"{self.path} is damaged: {name} holds texts that are none.") from mistake
            values = texts(self.path, name, decoded)
            return Column(values, values != "")
        return Column(values, np.ones(len(values), np.bool_))


def npz(path: Path) -> Arrays:
    """What ``np.savez`` or ``np.savez_compressed`` wrote."""
    size, stored = path.stat().st_size, {}
    with zipped(path) as archive:
        check_unpacked(path, size, sum(info.file_size for info in archive.infolist()))
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if ".." in re.split(r"[/\\]", info.filename) or info.filename.startswith(("/", "\\")):
                raise ValueError(
                    f"{path} holds {shown(info.filename)}, which leads out of it: an array has a name, no path."
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
                    raise ValueError(f"{path} is cut or damaged: {name} ends after the file.")
                stored[name] = Stored(path, start + head.offset, head.dtype, head.shape, head.fortran)
            else:
                stored[name] = Stored(path, head.offset, head.dtype, head.shape, head.fortran, info)
    if not stored:
        raise ValueError(f"{path} holds no arrays.")
    return Arrays(path, stored)


def safetensors(path: Path) -> Arrays:
    """What ``safetensors.numpy.save_file`` (or torch's) wrote; labels are a tensor of whole numbers."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError(f"{path} is no .safetensors, or is cut or damaged: its head is longer than the file.")
        try:
            head = json.loads(stream.read(length), object_pairs_hook=_once)
            tensors = {name: _tensor(path, 8 + length, entry) for name, entry in head.items() if name != "__metadata__"}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as mistake:
            raise ValueError(f"{path} is no .safetensors, or is cut or damaged ({mistake}).") from mistake
    end = max((s.offset + math.prod(s.shape) * s.dtype.itemsize for s in tensors.values()), default=0)
    if end != size:
        raise ValueError(f"{path} is cut or damaged: its tensors should end at byte {end:,}, the file has {size:,}.")
    return Arrays(path, tensors)


def npy_folder(path: Path, files: Iterable[Path]) -> Arrays:
    """A folder of .npy files, each a column."""
    stored = {}
    for file in files:
        inside(path, file.name)
        with file.open("rb") as stream:
            stored[file.stem] = npy_head(file, file.stem, stream, file.stat().st_size)
    return Arrays(path, stored)


@contextmanager
def zipped(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive, of which every kind of damage is one kind of error."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*DAMAGE, OSError) as mistake:
        raise ValueError(f"{path} is no .npz, or is cut or damaged ({mistake}).") from mistake


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored member's bytes begin: after its own head, whose length the archive's list does not know."""
    with path.open("rb") as stream:
        stream.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", stream.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


def npy_head(path: Path, name: str, stream: BinaryIO, size: int) -> Stored:
    """What an .npy of ``size`` bytes says of itself, if the bytes are there. numpy would evaluate its head; this does not."""
    magic = stream.read(8)
    wide = magic[6:7] in (b"\x02", b"\x03")
    length = int.from_bytes(stream.read(4 if wide else 2), "little")
    if magic[:6] != b"\x93NUMPY" or length > HEAD:
        raise ValueError(f"{path} is cut or damaged: {name} is no .npy array.")
    head = stream.read(length).decode("latin1")
    descr = re.search(r"'descr': *'([<>|=][a-zA-Z]\d*)'", head)
    order = re.search(r"'fortran_order': *(True|False)", head)
    shape = re.search(r"'shape': *\(([\d, ]*)\)", head)
    if descr is not None and descr[1][1] == "O":
        raise ValueError(
            f"{path} holds objects as {name}, which are pickles, and pickles are not read here: save it as numbers, or "
            "as texts with dtype=str."
        )
    try:
        if descr is None or order is None or shape is None:
            raise ValueError
        dtype = np.dtype(descr[1])
        sides = tuple(int(side) for side in shape[1].split(",") if side.strip())
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{path}: {name} is no plain array of numbers or texts, or is damaged.") from None
    offset = len(magic) + (4 if wide else 2) + length
    if offset + math.prod(sides) * dtype.itemsize != size:
        raise ValueError(f"{path} is cut or damaged: {name} has other than {sides} numbers in it.")
    return Stored(path, offset, dtype, sides, order[1] == "True" and len(sides) > 1)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("it has two tensors of one name")
    return dict(pairs)


def _tensor(path: Path, start: int, entry: Mapping[str, Any]) -> Stored:
    dtype, shape = np.dtype(TENSORS.get(entry["dtype"], "|V1")), tuple(entry["shape"])
    first, last = entry["data_offsets"]
    sizes = (*shape, first, last)
    if not all(type(side) is int and 0 <= side < 2**62 for side in sizes):
        raise ValueError("a shape is no shape")
    if entry["dtype"] in TENSORS and last - first != math.prod(shape) * dtype.itemsize:
        raise ValueError("a tensor has other numbers than its shape")
    if entry["dtype"] not in TENSORS:
        return Stored(path, start + first, dtype, (last - first,))
    return Stored(path, start + first, dtype, shape, bfloat=entry["dtype"] == "BF16")


def read_npz(path: str | Path, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of these names, of numbers or texts; anything else or any damage is one ``ValueError``.

    Args:
        path: A file that ``np.savez`` or ``np.savez_compressed`` wrote.
        names: The arrays to read.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"An .npz is a file; {path} is {'none' if path.exists() else 'not there'}.")
    return npz(path).arrays(list(names))
