"""The predictive distribution: its negative log-likelihood, and its KL to a reference in closed form."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from synib.checks import check_whole


class Family:
    """Base of all families. Parameters are one tensor, ``(batch, ...)``; all zeros is the neutral distribution.

    Half-precision parameters are evaluated in float32, whatever autocast says: a KL of small logits needs the digits.
    """

    discrete: bool = True

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood of each example's target, ``(batch,)``."""
        raise NotImplementedError

    def kl(self, parameters: Tensor, reference: Tensor) -> Tensor:
        """KL(q ‖ r) for each example, ``(batch,)``; ``reference`` are r's parameters, one row or one for each example."""
        raise NotImplementedError

    def average(self, parameters: Tensor) -> Tensor:
        """Parameters of the average of several predictions, ``(draws, batch, ...)`` → ``(batch, ...)``."""
        raise NotImplementedError

    def from_targets(self, target: Tensor) -> Tensor:
        """Parameters of the distribution of the targets themselves, one row: the prior."""
        raise NotImplementedError

    def predict(self, parameters: Tensor) -> Tensor:
        """The most probable target."""
        raise NotImplementedError

    def check_parameters(self, parameters: Tensor) -> None:
        """Raise ``ValueError`` where the parameters have another shape than the family's."""
        raise NotImplementedError

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        """Raise ``ValueError`` where something does not fit; without ``values`` only shapes and types are looked at."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Bernoulli(Family):
    r"""Binary targets; the parameter is one logit, ``(batch,)`` or ``(batch, 1)`` (App. "Variational Families", K = 2).

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \pi \log\frac{\pi}{\rho} + (1 - \pi) \log\frac{1 - \pi}{1 - \rho}
    """

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        logit = _one_logit(parameters)
        return F.binary_cross_entropy_with_logits(logit, target.reshape(logit.shape).to(logit.dtype), reduction="none")

    def kl(self, parameters: Tensor, reference: Tensor) -> Tensor:
        logit, ref = _one_logit(parameters), _one_logit(reference)
        # Cross-entropy minus entropy, the entropy through |l| so that nothing overflows or cancels at large logits.
        size = logit.abs()
        entropy = size * torch.sigmoid(-size) + F.softplus(-size)
        return F.softplus(ref) - ref * torch.sigmoid(logit) - entropy

    def average(self, parameters: Tensor) -> Tensor:
        p = _full(parameters)
        return torch.logsumexp(F.logsigmoid(p), 0) - torch.logsumexp(F.logsigmoid(-p), 0)

    def from_targets(self, target: Tensor) -> Tensor:
        _check_bits(target)
        return torch.logit(target.float().mean()).reshape(1)

    def predict(self, parameters: Tensor) -> Tensor:
        return (_one_logit(parameters) > 0).long()

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim > 2 or (parameters.ndim == 2 and parameters.shape[1] != 1):
            raise ValueError(
                f"Bernoulli expects one logit for each example, (batch,) or (batch, 1); got {tuple(parameters.shape)}. "
                "For two logits use Categorical()."
            )

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        if target.numel() != parameters.shape[0]:
            raise ValueError(
                f"Bernoulli expects one target for each of {parameters.shape[0]} examples; got {tuple(target.shape)}."
            )
        if values:
            _check_bits(target)


class Categorical(Family):
    r"""Class targets; the parameters are K logits, ``(batch, K)`` (App. "Categorical Variational Family").

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \sum_k \pi_k \log\frac{\pi_k}{\rho_k}
    """

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(_full(parameters), target.long(), reduction="none")

    def kl(self, parameters: Tensor, reference: Tensor) -> Tensor:
        log_q, log_r = _full(parameters).log_softmax(-1), _full(reference).log_softmax(-1)
        return (log_q.exp() * (log_q - log_r)).sum(-1)

    def average(self, parameters: Tensor) -> Tensor:
        return torch.logsumexp(_full(parameters).log_softmax(-1), 0) - math.log(parameters.shape[0])

    def from_targets(self, target: Tensor) -> Tensor:
        if target.ndim != 1 or target.is_floating_point() or (target < 0).any():
            low = f", the least {target.min().item()}" if target.numel() else ""
            raise ValueError(
                f"A prior of classes needs whole class numbers from 0 on, (examples,); got shape {tuple(target.shape)} of "
                f"{target.dtype}{low}."
            )
        counts = torch.bincount(target.long())
        if (counts == 0).any():
            empty = int((counts == 0).nonzero()[0].item())
            raise ValueError(f"A prior needs every class at least once; class {empty} of {len(counts)} never occurs.")
        return (counts / counts.sum()).log()[None]

    def predict(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1)

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim != 2 or parameters.shape[1] < 2:
            raise ValueError(
                f"Categorical expects logits (batch, classes) with at least 2 classes; got {tuple(parameters.shape)}. "
                "For a single logit use Bernoulli()."
            )

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        if target.shape != parameters.shape[:1] or target.is_floating_point():
            raise ValueError(
                f"Categorical expects {parameters.shape[0]} whole class numbers; got shape {tuple(target.shape)} of "
                f"{target.dtype}."
            )
        if values and not ((target >= 0) & (target < parameters.shape[1])).all():
            bad = target[(target < 0) | (target >= parameters.shape[1])][0].item()
            raise ValueError(f"Categorical targets are classes 0 to {parameters.shape[1] - 1}; got {bad}.")


class Gaussian(Family):
    r"""Real targets of ``dim`` coordinates (App. "Gaussian Variational Family").

    Diagonal covariance: parameters ``(batch, 2·dim)``, mean then log-variance. Full covariance: mean, then the rows of
    the lower Cholesky factor :math:`L` of :math:`\Sigma = L L^\top`, its diagonal as logarithms: ``dim + dim(dim+1)/2``
    in all. Zeros mean :math:`\mathcal N(0, I)` in both, the reference of the paper, for which

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \tfrac12 \big(\lVert\mu\rVert^2 + \mathrm{tr}\,\Sigma - \log\det\Sigma - d\big).

    The average of several predictions is the Gaussian with the mixture's mean and covariance.

    Args:
        dim: Number of target coordinates.
        covariance: ``"diagonal"`` or ``"full"``.
    """

    discrete = False

    def __init__(self, dim: int = 1, covariance: Literal["diagonal", "full"] = "diagonal") -> None:
        check_whole("dim", dim)
        if covariance not in ("diagonal", "full"):
            raise ValueError(f"covariance is 'diagonal' or 'full'; got {covariance!r}.")
        self.dim, self.covariance = dim, covariance

    @property
    def width(self) -> int:
        """How many numbers a prediction has."""
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

    def kl(self, parameters: Tensor, reference: Tensor) -> Tensor:
        mean, factor = self._unpack(parameters)
        ref_mean, ref_factor = self._unpack(reference)
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
            raise ValueError("A full-covariance prior needs target coordinates that are not multiples of each other.")
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
            raise ValueError(f"Gaussian targets are finite; {int((~target.isfinite()).sum())} are not.")

    def _unpack(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        p = _full(parameters)
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

    def __repr__(self) -> str:
        return f"Gaussian(dim={self.dim}, covariance={self.covariance!r})"


def _check_bits(target: Tensor) -> None:
    if not ((target == 0) | (target == 1)).all():
        bad = target[(target != 0) & (target != 1)].flatten()[0].item()
        raise ValueError(f"Bernoulli targets are 0 or 1; got {bad}.")


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _one_logit(x: Tensor) -> Tensor:
    x = _full(x)
    return x.squeeze(-1) if x.ndim > 1 else x
