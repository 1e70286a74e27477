"""Arrays that lie in a mapped file, read without keeping all of the file's pages in memory."""

import ctypes
import mmap
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 4096  # rows
AROUND = 1 << 16  # bytes that the system maps around a row that is read
KEPT = 1 << 27  # bytes of a mapping whose pages stay: to map them again takes longer than they are worth
ENTRIES = 1 << 16  # of the system's table of pages that are looked at together
MAPPED = 1 << 28  # bytes of an array that are mapped at a time, where its rows are read in random order


def release(x: NDArray[Any]) -> bool:
    """Hand the pages of a large mapped array back to the system, which maps them again when they are read.

    Where something was written to a private mapping, its pages stay: what was written exists nowhere else. That is known on
    Linux; elsewhere, only arrays that cannot be written to are handed back.

    Returns:
        Whether pages were handed back.
    """
    pages, writable = x, False
    while isinstance(pages, np.ndarray):
        writable |= pages.flags.writeable
        pages = pages.base  # type: ignore[assignment]
    if not isinstance(pages, mmap.mmap) or not hasattr(pages, "madvise") or len(pages) <= KEPT:
        return False
    if writable and _written(pages):
        return False
    pages.madvise(mmap.MADV_DONTNEED)
    return True


def return_freed() -> None:
    """Hand freed memory back to the system, where the C library keeps it for itself (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


def _written(pages: mmap.mmap) -> bool:
    """Whether a mapping has pages of its own, which are no longer those of the file; also where that is not known."""
    first = np.frombuffer(pages, np.uint8).ctypes.data // mmap.PAGESIZE
    count, size = -(-len(pages) // mmap.PAGESIZE), np.dtype(np.uint64).itemsize
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as stream:
            for at in range(0, count, ENTRIES):
                few = min(ENTRIES, count - at)
                stream.seek((first + at) * size)
                state = np.frombuffer(stream.read(few * size), np.uint64) >> np.uint64(61)
                # 4: in memory, 2: swapped out, 1: of a file.
                if len(state) < few or ((state >= 2) & (state % 2 == 0)).any():
                    return True
    except (OSError, ValueError):
        return True
    return False


def blocks(x: NDArray[Any], rows: int = BLOCK) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Consecutive rows of an array, some at a time; pages of a file are handed back on the way."""
    mapped = 0
    for at in range(0, len(x), rows):
        block = np.asarray(x[at : at + rows])
        yield slice(at, at + rows), block
        mapped += block.nbytes
        if mapped >= MAPPED:
            release(x)
            mapped = 0
    release(x)


class RowReader:
    """Reads rows of an array by their numbers, in any order, with a bounded part of a mapped file in memory.

    Args:
        x: ``(rows, width)``.
    """

    def __init__(self, x: NDArray[Any]) -> None:
        self._array = x
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # nothing is written to it here
            self._tensor = torch.from_numpy(x)
        self.width = int(x.shape[1])
        self._at_once = max(1, MAPPED // max(AROUND, self.width * x.itemsize))  # rows
        self._mapped = 0  # rows since pages were last handed back

    def __call__(self, rows: Tensor) -> Tensor:
        """A copy of these rows in single precision."""
        if len(rows) <= self._at_once:
            return self._read(rows)
        found = torch.empty(len(rows), self.width)
        for at in range(0, len(rows), self._at_once):
            found[at : at + self._at_once] = self._read(rows[at : at + self._at_once])
        return found

    def _read(self, rows: Tensor) -> Tensor:
        found = self._tensor.index_select(0, rows).float()
        self._mapped += len(rows)
        if self._mapped >= self._at_once:
            release(self._array)
            self._mapped = 0
        return found


class RowsOnDemand:
    """Some rows of an array, which are read on access and not kept.

    Args:
        x: ``(rows, width)``.
        rows: Numbers of the rows.
        device: Where they are needed.
        dtype: In which precision.
    """

    def __init__(
        self,
        x: NDArray[Any],
        rows: NDArray[np.int64],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._reader, self._rows = RowReader(np.asarray(x)), torch.from_numpy(rows)
        self._device, self._dtype = device, dtype
        self.shape = torch.Size((len(rows), x.shape[1]))

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self._reader(self._rows[rows.cpu()]).to(self._device, self._dtype)
