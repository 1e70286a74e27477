"""Where the numbers of an array lie in a user's file, and how they come into memory: mapped, or read once and checked."""

import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.own.columns import Array, Kind

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, UnicodeDecodeError)


@dataclass(frozen=True)
class Stored:
    """The position of an array's data and its header; the file is known to be long enough.

    Args:
        path: The file.
        offset: Where they begin in it, or in the member of an archive.
        dtype, shape, fortran: What they are.
        member: The compressed member of an archive that they are in.
        bfloat: Whether two bytes are the upper half of a float32.
        checked: Of an archive's member without compression, its name, where it begins, its length and its CRC-32.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool = False
    member: zipfile.ZipInfo | None = None
    bfloat: bool = False
    checked: tuple[str, int, int, int] | None = None

    @property
    def size(self) -> int:
        """How many numbers or texts there are."""
        return math.prod(self.shape)

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
        self._check()
        shape = (self.shape[::-1] if self.fortran else self.shape) or (1,)
        out = np.empty(shape, dtype or self.dtype)
        if not out.size:
            return out.T if self.fortran else out  # a head may name countless rows of no numbers
        row = math.prod(shape[1:]) * self.dtype.itemsize
        step = max(1, 2**22 // max(row, 1))
        with self._opened() as stream:
            stream.seek(self.offset)
            for start in range(0, len(out), step):
                part = out[start : start + step]
                held = stream.read(len(part) * row)
                if len(held) != len(part) * row:
                    raise ValueError(
                        f"{self.path} is truncated or damaged: fewer numbers are in it than its head says."
                    )
                with np.errstate(over="ignore", invalid="ignore"):  # infinite and NaN are looked for in the end
                    part[...] = self._values(held).reshape(part.shape)
        return out.T if self.fortran else out.reshape(self.shape)

    def vectors(self) -> Array:
        """The array as float16, if it is that, or float32: mapped if it lies there so."""
        if self._mappable:
            self._check()
            return self.mapped()
        return self.read(self._wanted)

    @property
    def memory(self) -> int:
        """Bytes that :meth:`vectors` would take."""
        return 0 if self._mappable else math.prod(self.shape) * self._wanted.itemsize

    @property
    def _wanted(self) -> np.dtype[Any]:
        half = self.dtype.kind == "f" and self.dtype.itemsize == 2
        return np.dtype(np.float16 if half else np.float32)

    @property
    def _mappable(self) -> bool:
        return self.dtype == self._wanted and self.member is None and math.prod(self.shape) > 0

    def _check(self) -> None:
        """Raise ``ValueError`` if the bytes are others than those that were written."""
        if self.checked is None:
            return
        name, start, left, expected = self.checked
        found = 0
        with self.path.open("rb") as stream:
            stream.seek(start)
            while left and (chunk := stream.read(min(left, 2**22))):
                found, left = zlib.crc32(chunk, found), left - len(chunk)
        if left or found != expected:
            raise ValueError(f"{self.path} is damaged: {name} has another checksum than when it was written.")

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


@contextmanager
def zipped(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive, of which every kind of damage is one kind of error."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*DAMAGE, OSError) as mistake:
        raise ValueError(f"{path} is not an .npz file, or is truncated or damaged ({mistake}).") from mistake
