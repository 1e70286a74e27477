"""Gradient-Blending: weighs the losses of heads and fusion by how well each generalises relative to its overfitting."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from synib.checks import check_whole
from synib.methods.hooks import AddsModules, RevisesWeights
from synib.objective import Batch, MultimodalModel, Objective, Parts

SMALLEST = 1e-3  # in nats: a smaller change of the overfitting is noise, and would weigh without bound


class GradientBlending(Objective, AddsModules, RevisesWeights):
    r"""A weighted sum of the losses of the fusion and of the unimodal heads (Wang et al., CVPR 2020; the online form).

    .. math:: \sum_k w_k\, \mathcal L_k, \qquad w_k \propto \frac{\max(\Delta G_k, 0)}{\Delta O_k^2}, \qquad
              \Delta G_k = -\Delta \mathcal L_k^\mathrm{val}, \qquad
              \Delta O_k = \Delta\big(\mathcal L_k^\mathrm{val} - \mathcal L_k^\mathrm{train}\big)

    where k is the fusion or one of the heads. Every ``every`` epochs the weights are set from the changes of all
    training and validation losses since the previous time (initially since the start of training). The paper estimates
    them by training each part alone for as many epochs; here the changes are those of the joint training, which costs
    no further training. Weights sum to the number of losses, so equal weights are plain fusion; if no validation loss
    fell, the weights do not change. A change in overfitting below 0.001 is treated as 0.001.

    It needs a model whose heads train the encoders (``detach_heads=False``): otherwise the weights have no effect.

    Args:
        every: Epochs between two estimates.
        settings: ``family``, ``check``, see :class:`Objective`; ``unimodal_weight`` scales the heads' losses as well.
    """

    with_heads = "weighs the losses of unimodal heads"
    blend: Tensor
    before: Tensor
    measured: Tensor

    def __init__(self, every: int = 5, **settings: Any) -> None:
        super().__init__(**settings)
        self.every = check_whole("every", every)
        self.names: tuple[str, ...] = ()

    def attach(self, model: Any) -> None:
        self.names = tuple(getattr(model, "names", None) or ())
        self.require_heads(model, self.names)
        like = next(model.parameters())
        losses = 1 + len(self.names)
        self.register_buffer("blend", torch.ones(losses).to(like))
        self.register_buffer("before", torch.zeros(2, losses).to(like))  # on training, and on validation data
        self.register_buffer("measured", torch.zeros((), dtype=torch.bool, device=like.device))

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        self.require_heads(model, batch.modalities)
        if not self.names:
            raise ValueError(
                "GradientBlending does not know the heads yet: call attach(model) before creating the optimiser."
            )
        if getattr(model, "detach_heads", False):
            raise ValueError(
                "GradientBlending weighs the gradients of the heads in the encoders, but detach_heads=True blocks "
                "them; construct the model with detach_heads=False."
            )
        latents, prediction = self.intact(model, batch.modalities)
        losses, _ = self.each_loss(model, latents, prediction, batch)
        total = self.blend[0] * losses["task"]
        for weight, name in zip(self.blend[1:].unbind(), self.names, strict=True):
            total = total + self.unimodal_weight * weight * losses[f"unimodal/{name}"]
        parts = {name: loss.detach() for name, loss in losses.items()}
        weights = zip(("task", *self.names), self.blend.unbind(), strict=True)
        return total, parts | {f"blend/{name}": weight.detach() for name, weight in weights}

    def revises(self, epoch: int) -> bool:
        return (epoch + 1) % self.every == 0

    def revise(
        self, model: Any, train: Batch, validation: Batch, initial: Mapping[str, Tensor], key: Tensor
    ) -> dict[str, Tensor]:
        now = torch.stack([self._losses(model, split) for split in (train, validation)])
        started = {f"model.{name}": p for name, p in initial.items()}
        begin = torch.stack([functional_call(_Losses(model), started, (self._losses, s)) for s in (train, validation)])
        self.blend = blended(torch.where(self.measured, self.before, begin), now, self.blend)
        self.before, self.measured = now, torch.ones_like(self.measured)
        return {}

    def _losses(self, model: Any, split: Batch) -> Tensor:
        """Mean loss of the fusion and of each head."""
        latents, prediction = self.intact(model, split.modalities)
        heads = [model.head(name, latents[name]) for name in self.names]
        return torch.stack([self.family.mean_nll(own, split.target) for own in (prediction, *heads)])


class _Losses(nn.Module):
    """A model into which ``functional_call`` can put its initial parameters while a function is evaluated."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, losses: Callable[[Any, Batch], Tensor], split: Batch) -> Tensor:
        return losses(self.model, split)


def blended(before: Tensor, now: Tensor, weights: Tensor) -> Tensor:
    """The weights of several losses, from their earlier and current values on training data (first row) and validation data.

    Args:
        before, now: ``(2, losses)``.
        weights: The current weights, kept if no validation loss fell.
    """
    generalised = (before[1] - now[1]).clamp(min=0)
    overfitted = ((now[1] - now[0]) - (before[1] - before[0])).abs().clamp(min=SMALLEST)
    ratio = generalised / overfitted.square()
    total = ratio.sum()
    return torch.where(total > 0, len(weights) * ratio / torch.where(total > 0, total, 1.0), weights)
