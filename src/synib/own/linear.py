"""Ridge regression on all features of a modality, a block of rows at a time."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from synib.files.pages import release
from synib.measure.stats.scaling import standardisation

PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)  # against standardised features
BLOCK = 1024  # rows in double precision at a time

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def ridge_predictions(x: NDArray[np.generic], y: Numbers, fitted: Rows, tested: Rows) -> Numbers:
    """Predictions of some rows by a ridge regression that was fitted to others.

    The penalty with the least squared leave-one-out error over the fitted rows is used. Leave-one-out errors follow from the
    leverages, which the eigenvectors of the matrix of second moments give.

    Args:
        x: Features ``(rows, width)``, possibly the pages of a file.
        y: What is predicted ``(rows, columns)``.
        fitted, tested: Row numbers.

    Returns:
        ``(tested rows, columns)``.
    """
    scale, centre = standardisation(x, fitted), y[fitted].mean(0)

    def blocks(rows: Rows) -> Iterator[tuple[slice, Numbers]]:
        for at in range(0, len(rows), BLOCK):
            yield slice(at, at + BLOCK), scale(x[rows[at : at + BLOCK]])
            release(x)

    target = y[fitted] - centre
    if x.shape[1] <= len(fitted):
        moments = np.zeros((x.shape[1], x.shape[1]))
        for _, z in blocks(fitted):
            moments += z.T @ z
        values, vectors = np.linalg.eigh(moments)
    else:  # fewer rows than features: the same directions from the rows' inner products
        z = scale(x[fitted])
        values, coefficients = np.linalg.eigh(z @ z.T)
        kept = values > 1e-9 * values.max()
        values, vectors = values[kept], z.T @ (coefficients[:, kept] / np.sqrt(values[kept]))
    slopes = sum(vectors.T @ (z.T @ target[at]) for at, z in blocks(fitted))
    shrunk = 1 / (np.maximum(values, 0)[:, None] + np.asarray(PENALTIES))  # (directions, penalties)
    weights = np.einsum("dp,dc->pdc", shrunk, slopes)
    errors = np.zeros(len(PENALTIES))
    for at, z in blocks(fitted):
        turned = z @ vectors
        residual = target[at] - turned @ weights
        leverage = np.minimum(np.square(turned, out=turned) @ shrunk + 1 / len(fitted), 0.999)  # and of the intercept
        errors += np.square(residual / (1 - leverage.T[..., None])).sum((1, 2))
    best = vectors @ weights[int(errors.argmin())]
    predicted = np.empty((len(tested), y.shape[1]))
    for at, z in blocks(tested):
        predicted[at] = z @ best + centre
    return predicted
