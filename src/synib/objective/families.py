"""Predictive distributions, with their negative log-likelihood and their closed-form KL divergence to a reference."""

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from synib.checks import check_number, check_whole, settings_repr, shown

LOWEST = -1e30  # of a logarithm of a probability: 0 times it is 0, and 0 times minus infinity is not


class Family:
    """Base class of all families. The parameters are one tensor, ``(batch, ...)``; all zeros is the neutral distribution.

    Half-precision parameters are evaluated in float32, also under autocast, because the KL of small logits needs the
    precision.

    Attributes:
        discrete: Whether each example has exactly one class.
        weighs_examples: Whether an example's weight depends on its target, see :meth:`counts`.
    """

    discrete: bool = True
    weighs_examples: bool = False

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood of each example's target, ``(batch,)``."""
        raise NotImplementedError

    def mean_nll(self, parameters: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The task loss: the mean of :meth:`nll` over the batch, weighted if there are weights.

        Args:
            parameters, target: As for :meth:`nll`.
            sample_weight: Weight of each example, ``(batch,)``.
        """
        nll = self.nll(parameters, target)
        if sample_weight is None and not self.weighs_examples:
            return nll.mean()
        counts = self.counts(target)
        weight = torch.ones_like(nll) if sample_weight is None else sample_weight.to(nll.dtype)
        total = (weight if counts is None else weight * counts.to(nll.dtype)).sum()
        # A batch in which nothing counts has the loss 0, and no gradient.
        return (weight * nll).sum() / torch.where(total > 0, total, 1.0)

    def unweighted(self) -> "Family":
        """The family without class weights and label smoothing, so that :meth:`nll` evaluates the prediction alone."""
        return self

    def counts(self, target: Tensor) -> Tensor | None:
        """The weight of each example that follows from its target (class weights, ignored classes), or ``None`` if
        all are 1.
        """
        return None

    def kl(self, parameters: Tensor, reference: Tensor | None = None) -> Tensor:
        """KL(q ‖ r) for each example, ``(batch,)``.

        Args:
            parameters: The parameters of q.
            reference: The parameters of r, one row or one for each example; by default the neutral distribution.
        """
        raise NotImplementedError

    def average(self, parameters: Tensor) -> Tensor:
        """Parameters of the average of several predictions, ``(draws, batch, ...)`` → ``(batch, ...)``."""
        raise NotImplementedError

    def from_targets(self, target: Tensor) -> Tensor:
        """The parameters of the marginal distribution of the targets, one row: the prior."""
        raise NotImplementedError

    def predict(self, parameters: Tensor) -> Tensor:
        """The most probable target."""
        raise NotImplementedError

    def check_parameters(self, parameters: Tensor) -> None:
        """Raise ``ValueError`` if the parameters do not have the family's shape."""
        raise NotImplementedError

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        """Raise ``ValueError`` if the target does not match the parameters; without ``values`` only shapes and
        dtypes are checked.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({settings_repr(self)})"


class Bernoulli(Family):
    r"""Binary targets; the parameter is one logit, ``(batch,)`` or ``(batch, 1)`` (App. "Variational Families", K = 2).

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \pi \log\frac{\pi}{\rho} + (1 - \pi) \log\frac{1 - \pi}{1 - \rho}

    Targets are 0 or 1, or soft: probabilities of 1.

    Args:
        pos_weight: Weight of positive examples, as in ``nn.BCEWithLogitsLoss``.
        label_smoothing: How far the targets are moved from 0 and 1 towards 0.5.
    """

    def __init__(self, pos_weight: float | None = None, label_smoothing: float = 0.0) -> None:
        self.pos_weight = None if pos_weight is None else check_number("pos_weight", pos_weight, above=0)
        self.label_smoothing = check_number("label_smoothing", label_smoothing, least=0, below=1)

    def unweighted(self) -> "Bernoulli":
        plain = copy.copy(self)
        plain.pos_weight, plain.label_smoothing = None, 0.0
        return plain

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        logit = _one_logit(parameters)
        return self._cross_entropy(logit, target.reshape(logit.shape).to(logit.dtype))

    def _cross_entropy(self, logit: Tensor, target: Tensor) -> Tensor:
        if self.label_smoothing:
            target = target * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        weight = None if self.pos_weight is None else logit.new_tensor(self.pos_weight)
        return F.binary_cross_entropy_with_logits(logit, target, reduction="none", pos_weight=weight)

    def kl(self, parameters: Tensor, reference: Tensor | None = None) -> Tensor:
        logit = _one_logit(parameters)
        ref = torch.zeros_like(logit[:1]) if reference is None else _one_logit(reference)
        # Cross-entropy minus entropy, the entropy through |l| so that nothing overflows or cancels at large logits.
        size = logit.abs().clamp(max=-LOWEST)
        entropy = size * torch.sigmoid(-size) + F.softplus(-size)
        return F.softplus(ref) - ref * torch.sigmoid(logit) - entropy

    def average(self, parameters: Tensor) -> Tensor:
        p = full_precision(parameters)
        return torch.logsumexp(F.logsigmoid(p), 0) - torch.logsumexp(F.logsigmoid(-p), 0)

    def from_targets(self, target: Tensor) -> Tensor:
        _check_probabilities(target)
        return torch.logit(target.float().mean()).reshape(1)

    def predict(self, parameters: Tensor) -> Tensor:
        return (_one_logit(parameters) > 0).long()

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim > 2 or (parameters.ndim == 2 and parameters.shape[1] != 1):
            raise ValueError(
                "Bernoulli expects one logit for each example, (batch,) or (batch, 1); got "
                f"{tuple(parameters.shape)}. For one logit per class use Categorical(), for several labels "
                "MultiLabel()."
            )

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        if target.numel() != parameters.shape[0]:
            raise ValueError(
                f"Bernoulli expects one target for each of {parameters.shape[0]} examples; got {tuple(target.shape)}."
            )
        if values:
            _check_probabilities(target)


class MultiLabel(Bernoulli):
    """Several binary labels, independent given the input; parameters and targets are ``(batch, labels)``.

    Likelihoods and divergences are sums over labels.

    Args:
        pos_weight, label_smoothing: See :class:`Bernoulli`.
    """

    discrete = False

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        logits = full_precision(parameters)
        return self._cross_entropy(logits, target.to(logits.dtype)).sum(-1)

    def kl(self, parameters: Tensor, reference: Tensor | None = None) -> Tensor:
        reference = torch.zeros_like(parameters[:1]) if reference is None else reference
        return super().kl(parameters.unsqueeze(-1), reference.unsqueeze(-1)).sum(-1)

    def from_targets(self, target: Tensor) -> Tensor:
        _check_probabilities(target)
        return torch.logit(target.float().mean(0, keepdim=True))

    def predict(self, parameters: Tensor) -> Tensor:
        return (parameters > 0).long()

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim != 2:
            raise ValueError(f"MultiLabel expects logits (batch, labels); got {tuple(parameters.shape)}.")

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        if target.shape != parameters.shape:
            raise ValueError(f"MultiLabel expects targets {tuple(parameters.shape)}; got {tuple(target.shape)}.")
        if values:
            _check_probabilities(target)


class Categorical(Family):
    r"""Class targets; the parameters are K logits, ``(batch, K)`` (App. "Categorical Variational Family").

    .. math:: D_\mathrm{KL}(q \,\|\, r) = \sum_k \pi_k \log\frac{\pi_k}{\rho_k}

    Targets are class indices ``(batch,)`` or soft targets, probabilities ``(batch, K)``. The options and the mean over
    a batch match ``nn.CrossEntropyLoss``.

    Args:
        weight: Weight of each class, K numbers.
        label_smoothing: The fraction of each target that is spread uniformly over all classes.
        ignore_index: Target value that is ignored.
    """

    def __init__(
        self,
        weight: Sequence[float] | Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
    ) -> None:
        self.weight = None if weight is None else torch.as_tensor(weight, dtype=torch.float32)
        if self.weight is not None and not (self.weight.ndim == 1 and (self.weight >= 0).all()):
            raise ValueError(f"weight must be one non-negative number for each class; got {shown(weight)}.")
        self.label_smoothing = check_number("label_smoothing", label_smoothing, least=0, below=1)
        self.ignore_index = None if ignore_index is None else check_whole("ignore_index", ignore_index, None)
        self.weighs_examples = self.weight is not None or self.ignore_index is not None

    def unweighted(self) -> "Categorical":
        plain = copy.copy(self)
        plain.weight, plain.label_smoothing, plain.weighs_examples = None, 0.0, self.ignore_index is not None
        return plain

    def nll(self, parameters: Tensor, target: Tensor) -> Tensor:
        logits = full_precision(parameters)
        target = target.to(logits.dtype) if target.is_floating_point() else target.long()
        weight = None if self.weight is None else self.weight.to(logits)
        ignored = -100 if self.ignore_index is None or target.is_floating_point() else self.ignore_index
        return F.cross_entropy(logits, target, weight, None, ignored, None, "none", self.label_smoothing)

    def counts(self, target: Tensor) -> Tensor | None:
        if target.is_floating_point() or (self.weight is None and self.ignore_index is None):
            return None
        here = torch.ones_like(target, dtype=torch.bool) if self.ignore_index is None else target != self.ignore_index
        if self.weight is None:
            return here.float()
        return torch.where(here, self.weight.to(target.device)[torch.where(here, target, 0).long()], 0.0)

    def kl(self, parameters: Tensor, reference: Tensor | None = None) -> Tensor:
        logits = full_precision(parameters)
        log_q = logits.log_softmax(-1)
        log_r = (torch.zeros_like(logits[:1]) if reference is None else full_precision(reference)).log_softmax(-1)
        return (log_q.exp() * (log_q.clamp(min=LOWEST) - log_r)).sum(-1)

    def average(self, parameters: Tensor) -> Tensor:
        return torch.logsumexp(full_precision(parameters).log_softmax(-1).clamp(min=LOWEST), 0) - math.log(
            parameters.shape[0]
        )

    def from_targets(self, target: Tensor) -> Tensor:
        if target.ndim == 2 and target.is_floating_point():
            return target.float().mean(0, keepdim=True).log()
        if self.ignore_index is not None:
            target = target[target != self.ignore_index]
        if target.ndim != 1 or target.is_floating_point() or (target < 0).any():
            low = f", minimum {target.min().item()}" if target.numel() else ""
            raise ValueError(
                "A class prior needs class indices starting at 0, shape (examples,); got shape "
                f"{tuple(target.shape)} of {target.dtype}{low}."
            )
        counts = torch.bincount(target.long())
        if (counts == 0).any():
            empty = int((counts == 0).nonzero()[0].item())
            raise ValueError(
                f"A class prior needs at least one example of every class; class {empty} of {len(counts)} has none."
            )
        return (counts / counts.sum()).log()[None]

    def predict(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1)

    def check_parameters(self, parameters: Tensor) -> None:
        if parameters.ndim != 2 or parameters.shape[1] < 2:
            raise ValueError(
                "Categorical expects logits (batch, classes) with at least 2 classes; got "
                f"{tuple(parameters.shape)}. For a single logit, use Bernoulli()."
            )

    def check_target(self, parameters: Tensor, target: Tensor, values: bool = True) -> None:
        self.check_parameters(parameters)
        rows, classes = parameters.shape
        if self.weight is not None and len(self.weight) != classes:
            raise ValueError(f"weight has {len(self.weight)} entries, but the prediction has {classes} classes.")
        soft = target.is_floating_point() and target.shape == parameters.shape
        if not soft and (target.shape != (rows,) or target.is_floating_point()):
            raise ValueError(
                f"Categorical expects {rows} integer class indices or probabilities of shape ({rows}, {classes}); "
                f"got shape {tuple(target.shape)} of {target.dtype}."
            )
        if not values:
            return
        if soft:
            _check_probabilities(target)
            return
        right = (target >= 0) & (target < classes)
        if self.ignore_index is not None:
            right = right | (target == self.ignore_index)
        if not right.all():
            raise ValueError(f"Categorical targets must be classes 0 to {classes - 1}; got {target[~right][0].item()}.")


def _check_probabilities(target: Tensor) -> None:
    if not ((target >= 0) & (target <= 1)).all():
        bad = target[~((target >= 0) & (target <= 1))].flatten()[0].item()
        raise ValueError(f"Targets must be 0 or 1, or probabilities between them; got {bad}.")


def full_precision(x: Tensor) -> Tensor:
    """Half-precision tensors as float32, others unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _one_logit(x: Tensor) -> Tensor:
    x = full_precision(x)
    return x.squeeze(-1) if x.ndim > 1 else x
