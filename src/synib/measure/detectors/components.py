"""Principal components of a modality, computed once, without labels, for all detectors."""

from typing import NamedTuple

import torch
from torch import Tensor

FAR = 3.0  # standard deviations at which whitened outliers are clipped
MOST = 1024  # components: more would need more rows than memory holds


class Components(NamedTuple):
    """A modality by its principal components, from the largest variance to the smallest.

    Args:
        scaled: Components with their variances, ``(rows, components)``.
        white: The same with variance 1, outliers clipped.
    """

    scaled: Tensor
    white: Tensor


def components(x: Tensor, present: Tensor) -> Components:
    """The principal components of standardised features; rows without the modality are 0.

    Args:
        x: ``(rows, width)``.
        present: Which rows have the modality.
    """
    rows = x[present].double()
    n, width = rows.shape
    if n < 3:
        return Components(x.new_zeros(len(x), 1).double(), x.new_zeros(len(x), 1))
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    varies = deviation > 1e-6 * mean.abs()
    rows = torch.where(varies, (rows - mean) / torch.where(varies, deviation, 1.0), 0.0)
    if width <= n:
        variances, axes = torch.linalg.eigh(rows.mT @ rows / n)
        scaled = rows @ axes.flip(1)
        variances = variances.flip(0)
    else:
        variances, vectors = torch.linalg.eigh(rows @ rows.mT / n)
        variances = variances.flip(0).clamp(min=0)
        scaled = vectors.flip(1) * (n * variances).sqrt()
    kept = max(1, min(int((variances > 1e-6 * variances.max().clamp(min=1e-300)).sum()), n // 2, MOST))
    scaled, variances = scaled[:, :kept], variances[:kept].clamp(min=1e-300)
    every = scaled.new_zeros(len(x), kept)
    every[present] = scaled
    return Components(every, (every / variances.sqrt()).clamp(-FAR, FAR).float())
