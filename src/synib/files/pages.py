"""Arrays that lie in a mapped file, read without keeping all of the file's pages in memory."""

import mmap
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 4096  # rows
AROUND = 1 << 16  # bytes that the system maps around a row that is read
MAPPED = 1 << 28  # bytes of an array that are mapped at a time, where its rows are read in random order


def release(x: NDArray[Any]) -> bool:
    """Hand the pages of a mapped array back to the system, which maps them again when they are read.

    Where something was written to a private mapping, its pages stay: what was written exists nowhere else. That is known on
    Linux; elsewhere, only arrays that cannot be written to are handed back.

    Returns:
        Whether pages were handed back.
    """
    pages, writable = x, False
    while isinstance(pages, np.ndarray):
        writable |= pages.flags.writeable
        pages = pages.base  # type: ignore[assignment]
    if not isinstance(pages, mmap.mmap) or not hasattr(pages, "madvise") or (writable and _written(pages)):
        return False
    pages.madvise(mmap.MADV_DONTNEED)
    return True


def _written(pages: mmap.mmap) -> bool:
    """Whether a mapping has pages of its own, which are no longer those of the file; also where that is not known."""
    first = np.frombuffer(pages, np.uint8).ctypes.data
    last, inside, found = first + len(pages), False, False
    try:
        with open("/proc/self/smaps", "rb") as stream:
            for line in stream:
                name = line.split(None, 1)[0]
                if not name.endswith(b":"):  # the addresses that the next lines are about
                    start, end = (int(part, 16) for part in name.split(b"-"))
                    inside = start < last and end > first
                    found |= inside
                elif inside and name in (b"Anonymous:", b"Swap:") and int(line.split()[1]):
                    return True
    except (OSError, ValueError):
        return True
    return not found


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
