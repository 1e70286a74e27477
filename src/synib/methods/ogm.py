"""OGM-GE: slows down the training of encoders that are ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from synib import keys
from synib.checks import check_flag, check_number, check_whole
from synib.methods.hooks import TrainsInStages, WeighsGradients
from synib.objective import Batch, MultimodalModel, Objective, Parts

ENCODERS = "model.encoders."


class OGM(Objective, WeighsGradients, TrainsInStages):
    r"""On-the-fly gradient modulation with generalisation enhancement (Peng et al., CVPR 2022).

    In each batch, with :math:`s_i` the sum over examples of :math:`q(y \mid x_i)`, the gradient of encoder *i* becomes

    .. math:: k_i\,g_i + \varepsilon_i, \quad k_i = \begin{cases} 1 - \tanh(\alpha\,\rho_i) & \rho_i > 1 \\
              1 & \text{else} \end{cases}, \quad \rho_i = \frac{s_i}{\mathrm{mean}_{j \ne i}\,s_j}, \quad
              \varepsilon_i \sim \mathcal N\big(0, \mathrm{std}(g_i)^2\big)

    where the noise is added to weights only (tensors with at least two dimensions), with the standard deviation of
    their gradient before modulation. The paper computes :math:`q(y \mid x_i)` from a linear fusion head; our fusion
    need not be linear, so the unimodal heads predict it. All gradients of an encoder are modulated, including that of
    its head's loss; heads and fusion receive their plain gradients. With ``detach_heads=True`` the heads do not
    influence the encoders, which is closest to the paper.

    Args:
        alpha: How strongly an encoder that is ahead is slowed down; 0 for no modulation.
        noise: Whether to add the noise (GE).
        start, stop: Modulate in epochs ``start`` to ``stop - 1``; by default in all.
        settings: ``family`` (a discrete one), ``unimodal_weight`` (positive), ``check``, see :class:`Objective`.
    """

    with_classes = "compares probabilities of the true class"
    with_heads = "compares the unimodal predictions of the heads"

    def __init__(
        self, alpha: float = 0.3, noise: bool = True, start: int = 0, stop: int | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.alpha, self.noise = check_number("alpha", alpha, least=0), check_flag("noise", noise)
        self.start = check_whole("start", start, least=0)
        self.stop = None if stop is None else check_whole("stop", stop, least=start + 1)
        if self.unimodal_weight == 0:
            raise ValueError(
                "OGM compares the predictions of the heads, so the heads must be trained: set unimodal_weight above 0."
            )
        self.modulates = start == 0  # in this epoch

    def begin(self, epoch: int) -> None:
        self.modulates = self.start <= epoch and (self.stop is None or epoch < self.stop)

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, alone = self.supervised(model, latents, prediction, batch)
        self.require_heads(model, batch.modalities)
        if self.modulates:
            parts |= {f"coefficient/{name}": k for name, k in self.coefficients(alone, batch.target).items()}
        return total, parts

    def losses(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
        total, parts = self.loss(model, batch, key)
        return {"total": total}, parts

    def coefficients(self, alone: Mapping[str, Tensor], target: Tensor) -> dict[str, Tensor]:
        """The factor of each encoder's gradient, from the unimodal predictions."""
        family, counts = self.family.unweighted(), None
        if family.weighs_examples:  # examples without a target
            counts = family.counts(target)
        right = [torch.exp(-family.nll(own.detach(), target)) for own in alone.values()]
        scores = torch.stack([(q if counts is None else q * counts).sum() for q in right])
        others = (scores.sum() - scores) / (len(scores) - 1)
        ratio = scores / others.clamp(min=1e-12)
        return dict(zip(alone, torch.where(ratio > 1, 1 - torch.tanh(self.alpha * ratio), 1.0).unbind(), strict=True))

    def direction(
        self, gradients: Mapping[str, Tensor], losses: Sequence[str], parts: Parts, key: Tensor
    ) -> dict[str, Tensor]:
        steps = {name: g[0] for name, g in gradients.items()}
        if not self.modulates:
            return steps
        for name in [n for n in steps if n.startswith(ENCODERS)]:
            g = steps[name]
            steps[name] = g * parts[f"coefficient/{name.split('.')[2]}"]
            if self.noise and g.ndim >= 2:
                drawn = keys.normal(keys.fold(key, name), g.shape, g.device).to(g.dtype)
                steps[name] = steps[name] + g.std(correction=0) * drawn
        return steps
