"""Standardisation: mean 0 and standard deviation 1 over the fitted rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.files.pages import release

Numbers = NDArray[np.float64]
CHUNK, COLUMNS = 1 << 14, 128  # rows and columns that are summed at a time
CONSTANT = 1e-6  # relative to a column's mean; a smaller standard deviation is a rounding error


class Scale(NamedTuple):
    """The scale of each column: ``(x - mean) * factor``.

    Args:
        mean: Mean of each column over the fitted rows.
        factor: Inverse standard deviation; 0 for a constant column, which becomes 0 everywhere.
    """

    mean: Numbers
    factor: Numbers

    def __call__(self, x: ArrayLike) -> Numbers:
        """Other rows on the same scale, in double precision."""
        scaled = np.asarray(np.asarray(x) - self.mean)
        scaled *= self.factor
        return scaled


def standardisation(x: ArrayLike, rows: NDArray[np.int64] | None = None, chunk: int = CHUNK) -> Scale:
    """The scale of each column over some rows, with a few rows in memory at a time.

    Args:
        x: ``(rows, columns)``, possibly memory-mapped.
        rows: The rows to fit on; all by default.
        chunk: Number of rows to process at a time.
    """
    table: NDArray[Any] = np.asanyarray(x)
    rows = np.arange(len(table)) if rows is None else rows
    if not len(rows):
        return Scale(np.zeros(table.shape[1]), np.zeros(table.shape[1]))
    mean = _summed(table, rows, chunk, lambda x, _: x) / len(rows)
    deviation = np.sqrt(_summed(table, rows, chunk, lambda x, at: np.square(x - mean[at])) / len(rows))
    varies = deviation > CONSTANT * np.abs(mean)
    return Scale(np.asarray(mean), np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies))


def _summed(
    table: NDArray[Any], rows: NDArray[np.int64], chunk: int, function: Callable[[NDArray[Any], slice], NDArray[Any]]
) -> Numbers:
    """The sum of a function of each number over some rows, for each column, in double precision."""
    width = table.shape[1]
    total = np.zeros(width)
    # The last block has several columns, since numpy sums a single column in another order, with other rounding errors.
    ends = [*range(COLUMNS, width - COLUMNS + 1, COLUMNS), width]
    for at in range(0, len(rows), chunk):
        for first, end in zip([0, *ends], ends, strict=False):
            columns = slice(first, end)
            total[columns] += function(table[rows[at : at + chunk], columns], columns).sum(0, dtype=np.float64)
        release(table)
    return total


def standardised(x: ArrayLike) -> Numbers:
    """Rows standardised by their own mean and standard deviation."""
    return standardisation(x)(x)
