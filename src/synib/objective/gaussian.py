"""Gaussian predictions of real-valued targets, with diagonal or full covariance."""

import math
from typing import Literal

import torch
from torch import Tensor

from synib.checks import check_choice, check_whole
from synib.objective.families import Family, full_precision


class Gaussian(Family):
    r"""Real targets of ``dim`` coordinates (App. "Gaussian Variational Family").

    Diagonal covariance: parameters ``(batch, 2·dim)``, mean then log-variance. Full covariance: mean, then the rows of
    the lower Cholesky factor :math:`L` of :math:`\Sigma = L L^\top`, with the logarithms of its diagonal: ``dim +
    dim(dim+1)/2`` in total. All zeros is :math:`\mathcal N(0, I)` in both, the paper's reference, for which

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \tfrac12 \big(\lVert\mu\rVert^2 + \mathrm{tr}\,\Sigma - \log\det\Sigma - d\big).

    The average of several predictions is the Gaussian with the mixture's mean and covariance.

    Args:
        dim: Number of target coordinates.
        covariance: ``"diagonal"`` or ``"full"``.
    """

    discrete = False

    def __init__(self, dim: int = 1, covariance: Literal["diagonal", "full"] = "diagonal") -> None:
        self.dim = check_whole("dim", dim)
        self.covariance = check_choice("covariance", covariance, ("diagonal", "full"))

    @property
    def width(self) -> int:
        """The number of parameters of a prediction."""
        return 2 * self.dim if self.covariance == "diagonal" else self.dim + self.dim * (self.dim + 1) // 2

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        mean, factor = self._unpack(parameters)
        difference = target.reshape(mean.shape).to(mean.dtype) - mean
        if self.covariance == "diagonal":
            scaled, log_det = difference * torch.exp(-factor / 2), factor.sum(-1)
        else:
            scaled = torch.linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).squeeze(-1)
            log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * (scaled.square().sum(-1) + log_det + self.dim * math.log(2 * math.pi))

    def kl(self, parameters: Tensor, reference: Tensor | None = None) -> Tensor:
        mean, factor = self._unpack(parameters)
        ref_mean, ref_factor = self._unpack(torch.zeros_like(parameters[:1]) if reference is None else reference)
        difference = mean - ref_mean
        if self.covariance == "diagonal":
            ratio = factor - ref_factor
            terms = ratio.exp() + difference.square() * torch.exp(-ref_factor) - ratio
            return 0.5 * (terms.sum(-1) - self.dim)
        ref_factor = ref_factor.expand_as(factor)
        whitened = torch.linalg.solve_triangular(ref_factor, factor, upper=False)
        shift = torch.linalg.solve_triangular(ref_factor, difference.unsqueeze(-1), upper=False)
        log_det = 2 * (ref_factor.diagonal(dim1=-2, dim2=-1).log() - factor.diagonal(dim1=-2, dim2=-1).log()).sum(-1)
        return 0.5 * (whitened.square().sum((-2, -1)) + shift.square().sum((-2, -1)) + log_det - self.dim)

    def average(self, parameters: Tensor) -> Tensor:
        mean, factor = self._unpack(parameters)
        centre = mean.mean(0)
        spread = mean - centre
        if self.covariance == "diagonal":
            return torch.cat([centre, (factor.exp() + spread.square()).mean(0).log()], -1)
        covariance = (factor @ factor.mT + spread.unsqueeze(-1) * spread.unsqueeze(-2)).mean(0)
        return self._pack(centre, torch.linalg.cholesky(covariance))

    def from_targets(self, target: Tensor) -> Tensor:
        if not target.ndim or target.numel() != len(target) * self.dim:
            raise ValueError(f"{self!r} expects targets (examples, {self.dim}); got {tuple(target.shape)}.")
        y = target.reshape(len(target), self.dim).float()
        mean = y.mean(0, keepdim=True)
        if self.covariance == "diagonal":
            return torch.cat([mean, y.var(0, correction=0, keepdim=True).log()], -1)
        factor, failed = torch.linalg.cholesky_ex((y - mean).mT @ (y - mean) / len(y))
        if failed:
            raise ValueError("A full-covariance prior needs linearly independent target coordinates.")
        return self._pack(mean, factor[None])

    def predict(self, parameters: Tensor) -> Tensor:
        return parameters[..., : self.dim]

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim != 2 or parameters.shape[1] != self.width:
            raise ValueError(
                f"{self!r} expects predictions (batch, {self.width}); got {tuple(parameters.shape)}: mean, then "
                f"{'log-variance' if self.covariance == 'diagonal' else 'Cholesky factor'}."
            )

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        if target.numel() != parameters.shape[0] * self.dim:
            raise ValueError(
                f"{self!r} expects targets ({parameters.shape[0]}, {self.dim}); got {tuple(target.shape)}."
            )
        if values and not target.isfinite().all():
            raise ValueError(f"Gaussian targets must be finite; {int((~target.isfinite()).sum())} are not.")

    def _unpack(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        p = full_precision(parameters)
        mean, rest = p[..., : self.dim], p[..., self.dim :]
        if self.covariance == "diagonal":
            return mean, rest
        rows, columns = torch.tril_indices(self.dim, self.dim, device=p.device)
        entries = torch.where(rows == columns, rest.exp(), rest)
        factor = p.new_zeros((*p.shape[:-1], self.dim * self.dim))
        index = (rows * self.dim + columns).expand_as(entries)
        return mean, factor.scatter(-1, index, entries).unflatten(-1, (self.dim, self.dim))

    def _pack(self, mean: Tensor, factor: Tensor) -> Tensor:
        rows, columns = torch.tril_indices(self.dim, self.dim, device=mean.device)
        entries = factor[..., rows, columns]
        diagonal = rows == columns
        return torch.cat([mean, torch.where(diagonal, entries.clamp(min=1e-30).log(), entries)], -1)
