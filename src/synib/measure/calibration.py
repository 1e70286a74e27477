"""Calibration: whether the accuracy of predictions matches their confidence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole
from synib.measure.arrays import Array, class_probabilities
from synib.measure.stats import Estimate, proportion
from synib.objective import Family

BINS = 15


@dataclass(frozen=True)
class Calibration:
    """The result of :func:`calibration` for each bin, for a calibration plot (accuracy over confidence).

    Attributes:
        edges: ``(bins + 1,)``; a bin contains confidences from its left edge up to, but not including, its right edge.
        confidence: Mean probability of the predicted class, ``(bins,)``; NaN in an empty bin.
        accuracy: Fraction of correct predictions in each bin.
        count: Number of predictions in each bin.
    """

    edges: Array
    confidence: Array
    accuracy: tuple[Estimate, ...]
    count: Array

    @property
    def error(self) -> float:
        """The expected calibration error."""
        gaps = np.abs(np.array([a.value for a in self.accuracy]) - self.confidence)
        return float(np.nansum(gaps * self.count) / self.count.sum())

    def __str__(self) -> str:
        rows = zip(self.edges, self.edges[1:], self.count, self.confidence, self.accuracy, strict=False)
        lines = [f"{a:.2f}-{b:.2f}  {n:7d}  {c:.3f}       {correct}" for a, b, n, c, correct in rows if n]
        return "\n".join(["bin        examples  confidence  accuracy", *lines])


def calibration(
    prediction: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    bins: int = BINS,
    family: Family | None = None,
) -> Calibration:
    """Confidence, accuracy and count in confidence bins of equal width, for a calibration plot.

    Args:
        prediction, target, family: See :func:`scores`.
        bins: Number of bins of [0, 1].
    """
    check_whole("bins", bins)
    p, y = class_probabilities(prediction, target, family)
    return calibrate(p[:, None], y, bins)


def calibrate(p: Array, y: Array, bins: int) -> Calibration:
    """Calibration of predictions ``(n, draws, classes)``; intervals are over examples with all their draws."""
    edges = np.linspace(0, 1, bins + 1)
    top, hits = p.max(2), p.argmax(2) == y[:, None]
    bin_of = np.clip(np.searchsorted(edges, top, side="right") - 1, 0, bins - 1)
    confidence, accuracy, count = np.full(bins, np.nan), [], np.zeros(bins, dtype=np.int64)
    for b in range(bins):
        inside = bin_of == b
        count[b] = inside.sum()
        if count[b]:
            confidence[b] = top[inside].mean()
        accuracy.append(proportion(hits, inside))
    return Calibration(edges, confidence, tuple(accuracy), count)
