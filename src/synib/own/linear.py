"""Ridge regression on all features of a modality, in blocks of rows."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from synib.files.pages import release
from synib.measure.stats.scaling import standardisation

PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)  # for standardised features
BLOCK = 1024  # rows in double precision at a time

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def ridge_predictions(x: NDArray[np.generic], y: Numbers, fitted: Rows, tested: Rows) -> Numbers:
    """Predictions for some rows by a ridge regression fitted to other rows.

    The penalty minimises the squared leave-one-out error over the fitted rows. Leave-one-out errors follow from the
    leverages, which are computed from the eigenvectors of the matrix of second moments.

    Args:
        x: Features ``(rows, width)``, possibly memory-mapped.
        y: Targets ``(rows, columns)``.
        fitted, tested: Row numbers to fit to and to predict.

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
    else:  # fewer rows than features: the same eigenvectors from the Gram matrix
        z = scale(x[fitted])
        values, coefficients = np.linalg.eigh(z @ z.T)
        kept = values > 1e-9 * values.max()
        values, vectors = values[kept], z.T @ (coefficients[:, kept] / np.sqrt(values[kept]))
    slopes = sum(vectors.T @ (z.T @ target[at]) for at, z in blocks(fitted))
    shrunk = 1 / (np.maximum(values, 0)[:, None] + np.asarray(PENALTIES))  # (directions, penalties)
    weights = np.einsum("dp,dc->pdc", shrunk, slopes)
    errors = np.zeros(len(PENALTIES))
    for at, z in blocks(fitted):
        rotated = z @ vectors
        residual = target[at] - rotated @ weights
        leverage = np.minimum(np.square(rotated, out=rotated) @ shrunk + 1 / len(fitted), 0.999)  # and of the intercept
        errors += np.square(residual / (1 - leverage.T[..., None])).sum((1, 2))
    best = vectors @ weights[int(errors.argmin())]
    predicted = np.empty((len(tested), y.shape[1]))
    for at, z in blocks(tested):
        predicted[at] = z @ best + centre
    return predicted
