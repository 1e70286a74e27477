"""Principal components of a modality, computed once without labels and shared by all detectors."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

FAR = 3.0  # standard deviations at which whitened outliers are clipped
MOST = 1024  # components, at most, to bound memory
LEADING = 32  # components in which distances are measured
BLOCK = 1024  # rows in double precision at a time


class Components(NamedTuple):
    """The principal components of a modality, by decreasing variance.

    Args:
        leading: The first ``LEADING`` components with their variances, ``(rows, components)``.
        white: All components with variance 1 and clipped outliers.
    """

    leading: Tensor
    white: Tensor


class Rows(Protocol):
    """A tensor, or an object that reads rows on demand."""

    @property
    def shape(self) -> torch.Size: ...

    def __getitem__(self, rows: Tensor, /) -> Tensor: ...


def components(x: Rows, present: Tensor) -> Components:
    """The principal components of standardised features; 0 for rows without the modality.

    Args:
        x: ``(rows, width)``; read in blocks of rows.
        present: Which rows have the modality.
    """
    rows = present.nonzero()[:, 0]
    n, (count, width) = len(rows), x.shape
    like = x[rows[:1]]
    if n < 3:
        return Components(like.new_zeros(count, 1), like.new_zeros(count, 1))
    blocks = rows.split(BLOCK)
    mean = torch.stack([x[b].double().sum(0) for b in blocks]).sum(0) / n
    deviation = (torch.stack([x[b].double().sub_(mean).square_().sum(0) for b in blocks]).sum(0) / n).sqrt()
    varies = deviation > 1e-6 * mean.abs()

    def standardised(block: Tensor) -> Tensor:
        z = x[block].double().sub_(mean).div_(torch.where(varies, deviation, 1.0))
        return z.masked_fill_(~varies, 0.0)

    if width <= n:
        moments = mean.new_zeros(width, width)
        for block in blocks:
            z = standardised(block)
            moments += z.mT @ z
        variances, axes = torch.linalg.eigh(moments / n)
    else:
        z = standardised(rows)
        variances, vectors = torch.linalg.eigh(z @ z.mT / n)
        axes = z.mT @ (vectors / (n * variances.clamp(min=1e-300)).sqrt())
    variances, axes = variances.flip(0).clamp(min=1e-300), axes.flip(1)
    kept = max(1, min(int((variances > 1e-6 * variances.max()).sum()), n // 2, MOST))
    deviations, axes = variances[:kept].sqrt(), axes[:, :kept]
    white, leading = like.new_zeros(count, kept), like.new_zeros(count, min(kept, LEADING))
    for block in blocks:
        scaled = standardised(block) @ axes
        leading[block] = scaled[:, :LEADING].to(like)
        white[block] = scaled.div_(deviations).clamp_(-FAR, FAR).to(like)
    return Components(leading, white)
