"""Debiasing by ensembling: the fusion learns what unimodal models cannot explain."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib.checks import check_flag, check_number, check_whole, shown
from synib.masks.base import undisturbed
from synib.methods.ensemble import Ensemble
from synib.methods.hooks import AddsModules, TrainsInStages
from synib.methods.unimodal import own_prediction
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import values


class Debiased(Objective, AddsModules, TrainsInStages):
    r"""Plain fusion trained in a product with unimodal models, and used without them (Clark et al., EMNLP 2019).

    .. math:: \mathrm{CE}\Big(\mathrm{softmax}\big(\ell(x_1..x_n) + \textstyle\sum_i g_i\,\ell_i(x_i)\big)\Big)
              + \eta\, H\Big(\mathrm{softmax}\big(\textstyle\sum_i g_i\,\ell_i(x_i)\big)\Big)

    with the fusion's logits :math:`\ell` and the unimodal models' :math:`\ell_i`. With :math:`g_i = 1` and without the
    second term this is the product of experts ("bias product"). In the learned mixin :math:`g_i =
    \mathrm{softplus}(w_i^\top z + c_i)` is a function of all latents z, and the entropy H keeps it from ignoring the
    unimodal models; the loss contains :math:`H - \log K`, which has the same gradient.

    The unimodal models are copies of the model's encoders and heads with separate parameters. They are trained alone
    for the first ``ahead`` epochs, as an ensemble, and are frozen afterwards, when the training of the model starts:
    both share the epochs of one training run. The heads of the model are trained with its fusion, as in plain fusion.

    Args:
        ahead: Number of epochs that train the unimodal models.
        mixin: Whether :math:`g` is learned.
        entropy: :math:`\eta` of the learned mixin.
        settings: ``family`` (a discrete one), ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    with_classes = "adds class log-odds"
    with_heads = "trains copies of the unimodal heads"

    def __init__(self, ahead: int = 5, mixin: bool = False, entropy: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.ahead, self.mixin = check_whole("ahead", ahead), check_flag("mixin", mixin)
        self.entropy = check_number("entropy", entropy, least=0)
        self.is_ahead = True
        self.members = Ensemble(family=self.family)
        self.apart: Any = None

    def attach(self, model: Any) -> None:
        if not isinstance(model, nn.Module) or not isinstance(model, MultimodalModel) or model.names is None:
            raise ValueError(
                f"{type(self).__name__} copies the encoders and heads of a FusionModel; got {shown(model)}."
            )
        self.require_heads(model, model.names)
        self.apart = copy.deepcopy(model)
        self.apart.fusion = None
        if self.mixin:
            heads = [self.apart.heads[name] for name in model.names]
            first = [next((p for p in head.parameters() if p.ndim == 2), None) for head in heads]
            if any(p is None for p in first):
                raise ValueError(
                    "The learned mixin needs heads that start with a linear layer, because it reads latents in the "
                    "same way."
                )
            width = sum(p.shape[1] for p in first if p is not None)
            mix = nn.Linear(width, len(heads), device=first[0].device, dtype=first[0].dtype)  # type: ignore[union-attr]
            nn.init.zeros_(mix.weight)  # without a draw: every trainer begins alike
            nn.init.zeros_(mix.bias)
            self.mix = mix

    def begin(self, epoch: int) -> None:
        self.is_ahead = epoch < self.ahead

    def trains(self, parameter: str) -> bool:
        return parameter.startswith("method.apart.") == self.is_ahead

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        if self.apart is None:
            raise ValueError(
                f"{type(self).__name__} has no unimodal models yet: call attach(model) before creating the optimiser."
            )
        if self.is_ahead:
            total, parts = self.members.loss(self.apart, batch, key)
            return total, {name.replace("unimodal", "apart"): loss for name, loss in parts.items()}
        names = self.apart.names
        latents, prediction = self.intact(model, batch.modalities)
        with torch.no_grad(), undisturbed([self.apart]):
            alone = torch.stack([own_prediction(self, self.apart, n, batch.modalities) for n in names])
        gates = None
        if self.mixin:
            z = torch.cat([values(latents[name]).flatten(1) for name in names], 1)
            gates = F.softplus(self.mix(z)).mT  # (modalities, batch)
            alone = alone * gates.view(*gates.shape, *[1] * (alone.ndim - 2))
        biased = alone.sum(0).reshape(prediction.shape)
        total, parts, _ = self.supervised(model, latents, prediction + biased, batch)
        if gates is not None:
            certain = self.family.kl(
                biased
            ).mean()  # to the uniform distribution: its entropy's distance from the largest
            total = total - self.entropy * certain
            parts |= {"certain": certain.detach()}
            parts |= {f"gate/{name}": g.mean().detach() for name, g in zip(names, gates, strict=True)}
        return total, parts


def product_of_experts(*, ahead: int = 5, **settings: Any) -> Debiased:
    """Fusion in a product with unimodal models that were trained first: it learns what they cannot predict."""
    return Debiased(ahead, **settings)


def learned_mixin(*, ahead: int = 5, entropy: float = 0.1, **settings: Any) -> Debiased:
    """The same with a learned weight of the unimodal models for each example."""
    return Debiased(ahead, mixin=True, entropy=entropy, **settings)
