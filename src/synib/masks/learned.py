"""Learned masking: the smallest set of coordinates on which a modality's prediction relies, searched for each example."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from synib import keys
from synib.checks import check_choice, check_number, check_whole
from synib.masks.base import Mask, Over, Probe, mask_shape
from synib.masks.slope import value_and_slope
from synib.tokens import Modality, values

Norm = Literal["sum", "mean"]


class SearchingMask(Mask):
    """A mask that searches for the coordinates on which the unimodal prediction relies, and corrupts the others.

    Args:
        sparsity: Penalty on the number of selected coordinates.
        temperature: Temperature of the gates.
        threshold: Gates above the threshold mark a coordinate as relied on.
        over: The unit that is kept or corrupted, as in :class:`RandomMask`.
    """

    probes = True
    sparsity: Tensor

    def __init__(self, sparsity: float, temperature: float, threshold: float, over: Over) -> None:
        super().__init__()
        # A buffer, so that models trained at once may each have their own.
        price = torch.tensor(float(check_number("sparsity", sparsity, least=0)))
        self.register_buffer("sparsity", price, persistent=False)
        self.temperature = check_number("temperature", temperature, above=0)
        self.threshold = check_number("threshold", threshold, least=0, most=1)
        self.over = check_choice("over", over, Over)

    def unimodal_loss(self, probe: Probe, v: Tensor) -> Callable[[Tensor], Tensor]:
        """The unimodal loss of the search at values ``v``; raises ``ValueError`` if there is none."""
        if not v.is_floating_point():
            raise ValueError(
                f"{type(self).__name__} mixes noise into the values of {probe.modality!r}, which is not possible "
                f"for {v.dtype}: embed them first."
            )
        if probe.loss is None:
            raise ValueError(
                f"{type(self).__name__} needs a unimodal predictor of {probe.modality!r}, but the model has none: "
                "give the FusionModel unimodal heads, or pass unimodal={name: predictor} to the objective."
            )
        return probe.loss


class LearnedMask(SearchingMask):
    r"""Per-example masks, optimised in an inner loop against the unimodal predictor (Eq. mask-loss, App. "Synthetic").

    Starting from logits :math:`\ell`, Adam minimises, with new noise :math:`\epsilon` in every step,

    .. math:: -\mathrm{CE}\big(f_i((1 - m) \odot x_i + m \odot \epsilon),\, y\big) + \lambda_M \lVert m \rVert_1,
              \qquad m = \sigma(\ell / \tau),

    thresholds :math:`m`, and corrupts the complement: the coordinates on which the unimodal predictor relies are kept,
    the others are corrupted.

    Only the unimodal path runs in the inner loop, in evaluation mode; no parameter gradients are computed, and the
    model's gradients, buffers and modes do not change.

    Args:
        steps: Number of inner Adam steps.
        lr: Learning rate of the inner loop.
        sparsity: :math:`\lambda_M`.
        norm: Whether :math:`\lVert m \rVert_1` sums over coordinates, as in the paper's text, or averages.
        temperature: :math:`\tau`.
        init: Initial value of the logits.
        threshold: Gates above the threshold mark a coordinate as relied on.
        over: The unit that is kept or corrupted, as in :class:`RandomMask`.
        whole_share: Share of examples whose whole modality is corrupted instead; other examples in every step.
    """

    def __init__(
        self,
        steps: int = 20,
        lr: float = 0.1,
        sparsity: float = 1e-3,
        norm: Norm = "sum",
        temperature: float = 1.0,
        init: float = 0.0,
        threshold: float = 0.5,
        over: Over = "coordinates",
        whole_share: float = 0.0,
    ) -> None:
        super().__init__(sparsity, temperature, threshold, over)
        self.whole_share = check_number("whole_share", whole_share, least=0, most=1)
        self.steps, self.norm = check_whole("steps", steps), check_choice("norm", norm, Norm)
        self.lr = check_number("lr", lr, above=0)
        self.init = check_number("init", init)

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        v = values(x).detach()
        unimodal_loss = self.unimodal_loss(probe, v)

        def by_autograd(corrupted: Tensor) -> Tensor:
            return value_and_slope(lambda u: unimodal_loss(u).sum(), corrupted)[1]

        slope = by_autograd if probe.slope is None else probe.slope
        # Differentiated at the corrupted values; the rest of the chain rule is short enough to write out, and cheaper so.
        with torch.no_grad():
            shape = mask_shape(x, self.over)
            logits, first, second = (torch.full(shape, at, device=v.device) for at in (self.init, 0.0, 0.0))
            price = self.sparsity.to(v.device) / (1 if self.norm == "sum" else math.prod(logits.shape[1:]))
            for step, step_key in enumerate(keys.split(key, self.steps).unbind(), 1):
                gate = torch.sigmoid(logits if self.temperature == 1.0 else logits / self.temperature)
                toward = probe.fill(step_key) - v
                loss_gradient = slope(torch.addcmul(v, gate.to(v.dtype), toward))
                gradient = price - _sum_to(loss_gradient.mul(toward).to(gate.dtype), gate)
                gradient.mul_(gate).mul_(1.0 - gate)  # d gate / d logit = gate (1 - gate), up to the temperature
                if self.temperature != 1.0:
                    gradient.div_(self.temperature)
                if step == 1:  # under vmap the first gradient decides what is batched; from then on all change in place
                    nothing = 0.0 * gradient
                    first, second, logits = first + nothing, second + nothing, logits + nothing
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient.square(), alpha=0.001)
                scale = torch.sqrt(second).mul_((1 - 0.999**step) ** -0.5).add_(1e-8)
                logits.sub_(first.div(scale), alpha=self.lr / (1 - 0.9**step))
            relied_on = torch.sigmoid(logits / self.temperature) > self.threshold
            if self.whole_share:
                rows = mask_shape(x, "modality")
                relied_on = relied_on & ~keys.bernoulli(keys.fold(key, "whole_share"), self.whole_share, rows, v.device)
        return ~relied_on


def _sum_to(x: Tensor, like: Tensor) -> Tensor:
    """Sum over the dimensions in which ``like`` has size 1."""
    around = [d for d in range(x.ndim) if like.shape[d] == 1 and x.shape[d] != 1]
    return x.sum(around, keepdim=True) if around else x
