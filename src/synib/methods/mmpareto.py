"""MMPareto: combines the gradients of fusion and heads so that an encoder's step decreases both losses."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from synib.checks import check_choice, check_number
from synib.methods.hooks import WeighsGradients
from synib.objective import Batch, MultimodalModel, Objective, Parts


class MMPareto(Objective, WeighsGradients):
    r"""Gradient integration of the multimodal and the unimodal losses (Wei & Hu, ICML 2024).

    In each encoder, let :math:`g_m` be the gradient of the fusion's loss and :math:`g_u` that of its unimodal head:

    .. math:: h = w\,g_m + (1 - w)\,g_u, \quad w = \begin{cases} \tfrac12 & \langle g_m, g_u \rangle \ge 0 \\
              \arg\min_{w \in [0, 1]} \lVert h \rVert & \text{else} \end{cases}, \qquad
              \text{step} = \gamma\,\lVert g_m + g_u \rVert\,\frac{h}{\lVert h \rVert}

    so that agreeing gradients are summed, and conflicting ones are combined such that neither loss increases to first
    order. The norms are those of the whole encoder: rescaling each tensor separately, as in the authors' code, would
    change the direction of :math:`h`. Heads and fusion receive their plain gradients.

    ``form="three-way"`` follows our paper's appendix "Baselines": one min-norm problem over the gradients of all losses
    with respect to all parameters, with the minimum as the step, not rescaled.

    Args:
        form: ``"per-encoder"`` or ``"three-way"``.
        scale: :math:`\gamma` of the per-encoder form, 1.5 by default; not used by the three-way form.
        settings: ``family``, ``unimodal_weight``, ``check``, see :class:`Objective`. :math:`g_u` includes the weight.
    """

    with_heads = "weighs the losses of unimodal heads"

    def __init__(
        self,
        form: Literal["per-encoder", "three-way"] = "per-encoder",
        scale: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.form = check_choice("form", form, ("per-encoder", "three-way"))
        if form == "three-way" and scale is not None:
            raise ValueError(f"The three-way form does not rescale the min-norm point: leave out scale={scale}.")
        self.scale = 1.5 if scale is None else check_number("scale", scale, above=0)

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        losses, parts = self.losses(model, batch, key)
        return torch.stack(list(losses.values())).sum(), parts

    def losses(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
        self.require_heads(model, batch.modalities)
        if getattr(model, "detach_heads", False):
            raise ValueError(
                "MMPareto weighs the gradients of the heads in the encoders, but detach_heads=True blocks them; "
                "construct the model with detach_heads=False."
            )
        latents, prediction = self.intact(model, batch.modalities)
        own, _ = self.each_loss(model, latents, prediction, batch)
        parts = {name: loss.detach() for name, loss in own.items()}
        return {"fusion": own.pop("task")} | {name: self.unimodal_weight * loss for name, loss in own.items()}, parts

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        if self.form == "three-way":
            weights = min_norm(torch.stack([gramian(g) for g in gradients.values()]).sum(0))
            return {name: (weights.view(-1, *[1] * (g.ndim - 1)) * g).sum(0) for name, g in gradients.items()}
        steps = {name: g.sum(0) for name, g in gradients.items()}
        for loss in losses[1:]:
            encoder = f"model.encoders.{loss.removeprefix('unimodal/')}."
            names = [name for name in gradients if name.startswith(encoder)]
            # Of the unimodal losses only its own reaches an encoder, unless two modalities share one.
            pairs = [(gradients[name][0], gradients[name][1:].sum(0)) for name in names]
            steps |= dict(zip(names, self._integrated(pairs), strict=True))
        return steps

    def _integrated(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The step of one encoder from its (multimodal, unimodal) gradients, tensor by tensor."""
        if not pairs:  # an encoder without parameters, or a frozen one
            return []
        mm, uu, mu = (torch.stack([(p[i] * p[j]).sum() for p in pairs]).sum() for i, j in ((0, 0), (1, 1), (0, 1)))
        weight = torch.where(mu >= 0, 0.5, (uu - mu) / (mm + uu - 2 * mu))  # in conflict that lies inside (0, 1)
        h = [weight * m + (1 - weight) * u for m, u in pairs]
        plain_norm, norm = _norm([m + u for m, u in pairs]), _norm(h)
        # Exactly opposed gradients have no common direction: h is rounding noise then, and is not blown up to full size.
        noise = plain_norm * torch.finfo(norm.dtype).eps ** 0.5
        factor = self.scale * plain_norm / torch.maximum(norm, noise).clamp(min=torch.finfo(norm.dtype).tiny)
        return [factor * tensor for tensor in h]


def gramian(gradients: Tensor) -> Tensor:
    """Inner products of stacked gradients, without a matrix product, which autocast would round."""
    return torch.stack([(gradients * gradient).flatten(1).sum(1) for gradient in gradients.unbind()])


def min_norm(gramian: Tensor) -> Tensor:
    r"""The weights of the point of smallest norm in the convex hull of a few vectors.

    .. math:: \arg\min_{w \ge 0,\ \sum_i w_i = 1} w^\top G\, w

    The minimum lies inside one of the :math:`2^m - 1` faces of the simplex, where it solves a linear system. All faces
    are solved, solutions outside their face are projected onto it, and the smallest is taken: exact and without
    iteration.

    Args:
        gramian: Inner products of the vectors, ``(m, m)``.
    """
    m = len(gramian)
    number = torch.arange(1, 2**m, device=gramian.device)
    face = (number[:, None] >> torch.arange(m, device=gramian.device) & 1).to(gramian.dtype)
    # On a face, G w + μ = 0 and Σ w = 1; off it, w = 0.
    stationary = torch.cat(
        [face[:, :, None] * face[:, None] * gramian + torch.diag_embed(1 - face), face[:, :, None]], 2
    )
    system = torch.cat([stationary, F.pad(face, (0, 1))[:, None]], 1)
    right = F.pad(torch.zeros_like(face), (0, 1), value=1.0)[:, :, None]
    w = torch.linalg.solve_ex(system, right)[0][:, :m, 0].clamp(min=0)
    total = w.sum(1, keepdim=True)
    # Where a face's vectors depend on each other nothing finite comes out; a smaller face then holds its minimum too.
    w = torch.where(total.isfinite() & (total > 0), w / total, 1 / m)
    best = (w[:, :, None] * w[:, None] * gramian).sum((1, 2)).argmin()
    return w.gather(0, best.expand(1, m))[0]


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([t.square().sum() for t in tensors]).sum().sqrt()
