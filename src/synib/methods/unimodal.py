"""The task loss and nothing else: of the fusion, of one modality alone, and of modalities side by side without any fusion."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from synib.objective import Batch, Fusible, Objective, Parts
from synib.tokens import Modality


class Alone(Objective):
    r"""Cross-entropy on one modality's own prediction (App. "Baselines", Unimodal models).

    .. math:: \mathcal L_{\mathrm{uni}, i} = \mathrm{CE}\big(f_{\theta_i}(y \mid x_i)\big)

    The modality's encoder and head are trained together, also in a model that detaches its heads; everything else stays
    as it was, bit for bit. The answer is that head's.

    Args:
        modality: Which one.
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` weighs unimodal losses against a fusion's;
            there is none here, and it changes nothing.
    """

    cost = 0.5
    with_heads = "trains unimodal heads"

    def __init__(self, modality: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.modality = modality

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        loss = own_loss(self, model, self.modality, batch)
        return loss, {f"unimodal/{self.modality}": loss.detach()}

    def predict(self, model: Fusible, modalities: Mapping[str, Modality]) -> Tensor:
        return own_prediction(self, model, self.modality, modalities)

    def trains(self, parameter: str) -> bool:
        return parameter.startswith((f"model.encoders.{self.modality}.", f"model.heads.{self.modality}."))

    def extra_repr(self) -> str:
        return f"modality={self.modality!r}, family={self.family!r}"


def own_loss(method: Objective, model: Fusible, name: str, batch: Batch) -> Tensor:
    """The loss of a modality's own prediction."""
    prediction = own_prediction(method, model, name, batch.modalities)
    method.family.check_target(prediction, batch.target, values=batch.look)
    return method.family.nll(prediction, batch.target).mean()


def own_prediction(method: Objective, model: Fusible, name: str, modalities: Mapping[str, Modality]) -> Tensor:
    """A modality's own prediction, through which its encoder learns even where heads are detached."""
    if name not in modalities:
        raise ValueError(f"There is no modality {name!r} to train alone: there are {', '.join(map(repr, modalities))}.")
    method.require_heads(model, [name])
    return model.head(name, model.encode(name, modalities[name]), through=True)


class Vanilla(Objective):
    """Cross-entropy on the intact prediction (App. "Baselines"), with the unimodal heads' losses if there are heads."""

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, _ = self.supervised(model, latents, prediction, batch)
        return total, parts


class Ensemble(Objective):
    r"""Unimodal models trained independently, their probabilities averaged (App. "Baselines", Late ensemble).

    .. math:: f_\mathrm{ens}(y \mid x_1..x_n) = \tfrac1n \textstyle\sum_i f_{\theta_i}(y \mid x_i)

    No two of them share a parameter, so training all on the sum of their losses is training each alone, as
    :class:`Alone` does. The fusion head stays as it was. Where a binary task's synergy subset is defined by these very
    models, all are wrong on it and so is their average: 0 by definition.

    Args:
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` weighs unimodal losses against a fusion's;
            there is none here, and it changes nothing.
    """

    with_heads = "trains unimodal heads"

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        own = {name: own_loss(self, model, name, batch) for name in batch.modalities}
        return torch.stack(list(own.values())).sum(), {f"unimodal/{name}": loss.detach() for name, loss in own.items()}

    def predict(self, model: Fusible, modalities: Mapping[str, Modality]) -> Tensor:
        return self.family.average(torch.stack([own_prediction(self, model, name, modalities) for name in modalities]))

    def trains(self, parameter: str) -> bool:
        return parameter.startswith(("model.encoders.", "model.heads."))

    def extra_repr(self) -> str:
        return f"family={self.family!r}"


class Additive(Ensemble):
    r"""A sum of one function for each modality, trained as one model.

    .. math:: q(y \mid x_1..x_n) \propto \exp \textstyle\sum_i h_i(f_i(x_i))

    Encoders and unimodal heads learn together what to add up. It can pool evidence and weigh it, and represent whatever has no
    interaction, such as the sign of a sum, of which a unimodal model sees one half and takes the other for noise. What a fusion
    has over this is interaction. The fusion head stays as it was.

    Args:
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` has no loss to weigh here.
    """

    with_heads = "adds up unimodal heads"

    def loss(self, model: Fusible, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        total = self.family.nll(self.predict(model, batch.modalities), batch.target).mean()
        return total, {"task": total.detach()}

    def predict(self, model: Fusible, modalities: Mapping[str, Modality]) -> Tensor:
        return torch.stack([own_prediction(self, model, name, modalities) for name in modalities]).sum(0)
