"""The data of an array in a user's file: memory-mapped, or read once and verified."""

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
    """The position, type and shape of an array in a file, which is known to be long enough.

    Args:
        path: The file.
        offset: Start of the data in the file, or in the member of an archive.
        dtype, shape, fortran: Type, shape and order of the array.
        member: The compressed member of an archive that holds the data.
        bfloat: Whether the data are bfloat16, the upper two bytes of a float32.
        checked: For an uncompressed member of an archive, its name, start, length and CRC-32.
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
        """The number of values."""
        return math.prod(self.shape)

    @property
    def kind(self) -> Kind:
        """The kind of column that this array is."""
        is_numeric, vector = self.dtype.kind in "iuf", len(self.shape) == 2
        if vector and (is_numeric or self.dtype.kind == "b"):
            return "vector"
        is_single = len(self.shape) == 1
        kinds: dict[str, Kind] = {"b": "flag", "U": "text", "S": "text"}
        return ("number" if is_numeric else kinds.get(self.dtype.kind, "other")) if is_single else "other"

    def mapped(self) -> Array:
        """The memory-mapped array; writes stay in memory and never reach the file."""
        before = self.offset % mmap.ALLOCATIONGRANULARITY
        length = before + math.prod(self.shape) * self.dtype.itemsize
        with self.path.open("rb") as stream:
            pages = mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_COPY, offset=self.offset - before)
        return np.ndarray(self.shape, self.dtype, pages, before, order="F" if self.fortran else "C")

    def read(self, dtype: np.dtype[Any] | None = None) -> Array:
        """The array in memory, converted to ``dtype``."""
        self._check()
        shape = (self.shape[::-1] if self.fortran else self.shape) or (1,)
        out = np.empty(shape, dtype or self.dtype)
        if not out.size:
            return out.T if self.fortran else out  # a header may state any number of rows of width 0
        row = math.prod(shape[1:]) * self.dtype.itemsize
        step = max(1, 2**22 // max(row, 1))
        with self._opened() as stream:
            stream.seek(self.offset)
            for start in range(0, len(out), step):
                part = out[start : start + step]
                chunk = stream.read(len(part) * row)
                if len(chunk) != len(part) * row:
                    raise ValueError(
                        f"{self.path} is truncated or damaged: it holds fewer values than its header states."
                    )
                with np.errstate(over="ignore", invalid="ignore"):  # infinite and NaN are looked for in the end
                    part[...] = self._values(chunk).reshape(part.shape)
        return out.T if self.fortran else out.reshape(self.shape)

    def vectors(self) -> Array:
        """The array as float16, if it is float16, or as float32; memory-mapped if no conversion is needed."""
        if self._mappable:
            self._check()
            return self.mapped()
        return self.read(self._memory_dtype)

    @property
    def memory(self) -> int:
        """Bytes of memory that :meth:`vectors` takes."""
        return 0 if self._mappable else math.prod(self.shape) * self._memory_dtype.itemsize

    @property
    def _memory_dtype(self) -> np.dtype[Any]:
        half = self.dtype.kind == "f" and self.dtype.itemsize == 2
        return np.dtype(np.float16 if half else np.float32)

    @property
    def _mappable(self) -> bool:
        return self.dtype == self._memory_dtype and self.member is None and math.prod(self.shape) > 0

    def _check(self) -> None:
        """Raise ``ValueError`` if the checksum is wrong."""
        if self.checked is None:
            return
        name, start, remaining, expected = self.checked
        checksum = 0
        with self.path.open("rb") as stream:
            stream.seek(start)
            while remaining and (chunk := stream.read(min(remaining, 2**22))):
                checksum, remaining = zlib.crc32(chunk, checksum), remaining - len(chunk)
        if remaining or checksum != expected:
            raise ValueError(f"{self.path} is damaged: {name} has a wrong checksum.")

    def _values(self, chunk: bytes) -> Array:
        if self.bfloat:
            return (np.frombuffer(chunk, "<u2").astype(np.uint32) << 16).view(np.float32)
        return np.frombuffer(chunk, self.dtype)

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
    """Open an archive; any damage raises ``ValueError``."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*DAMAGE, OSError) as error:
        raise ValueError(f"{path} is not an .npz file, or is truncated or damaged ({error}).") from error
