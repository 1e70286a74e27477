"""Unimodal models side by side, without any fusion."""

from collections.abc import Mapping

import torch
from torch import Tensor

from synib.methods.hooks import TrainsInStages
from synib.methods.unimodal import own_prediction
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality


class Ensemble(Objective, TrainsInStages):
    r"""Unimodal models trained independently, their probabilities averaged (App. "Baselines", Late ensemble).

    .. math:: f_\mathrm{ens}(y \mid x_1..x_n) = \tfrac1n \textstyle\sum_i f_{\theta_i}(y \mid x_i)

    No two of them share a parameter, so training all on the sum of their losses is training each alone, as
    :class:`UnimodalModel` does. The fusion head stays as it was. Where a binary task's synergy subset is defined by these very
    models, all are wrong on it and so is their average: 0 by definition.

    Args:
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` weighs unimodal losses against a fusion's;
            there is none here, and it changes nothing.
    """

    predicts_by_fusion = False
    with_heads = "trains unimodal heads"

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        x = batch.modalities
        own = {name: self.task_loss(own_prediction(self, model, name, x), batch) for name in x}
        return torch.stack(list(own.values())).sum(), {f"unimodal/{name}": loss.detach() for name, loss in own.items()}

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return self.family.average(torch.stack([own_prediction(self, model, name, modalities) for name in modalities]))

    def trains(self, parameter: str) -> bool:
        return parameter.startswith(("model.encoders.", "model.heads."))
