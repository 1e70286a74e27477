"""Standardisation: mean 0 and standard deviation 1 over the fitted rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
CHUNK = 1 << 14  # rows
CONSTANT = 1e-6  # of a column's mean: a smaller standard deviation is rounding


class Scale(NamedTuple):
    """Column by column, ``(x - mean) * factor``.

    Args:
        mean: Mean of each column over the fitted rows.
        factor: Inverse standard deviation; 0 for a constant column, which becomes 0 everywhere.
    """

    mean: Numbers
    factor: Numbers

    def __call__(self, x: ArrayLike) -> Numbers:
        """Other rows on the same scale, in double precision."""
        return np.asarray((np.asarray(x) - self.mean) * self.factor)


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
    pieces = [rows[at : at + chunk] for at in range(0, len(rows), chunk)]
    mean = sum(table[p].sum(0, dtype=np.float64) for p in pieces) / len(rows)
    deviation = np.sqrt(sum(np.square(table[p] - mean).sum(0) for p in pieces) / len(rows))
    varies = deviation > CONSTANT * np.abs(mean)
    return Scale(np.asarray(mean), np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies))


def standardised(x: ArrayLike) -> Numbers:
    """Rows on their own scale."""
    return standardisation(x)(x)
