"""Independent unimodal models without fusion."""

from collections.abc import Mapping

import torch
from torch import Tensor

from synib.methods.hooks import TrainsInStages
from synib.methods.unimodal import own_prediction
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality


class Ensemble(Objective, TrainsInStages):
    r"""Independently trained unimodal models with averaged probabilities (App. "Baselines", Late ensemble).

    .. math:: f_\mathrm{ens}(y \mid x_1..x_n) = \tfrac1n \textstyle\sum_i f_{\theta_i}(y \mid x_i)

    The models share no parameters, so training on the sum of their losses is the same as training each alone, as
    :class:`UnimodalModel` does. The fusion head is not trained. If the synergy subset of a binary task is defined by
    these models, all of them are wrong on it and so is their average: accuracy 0 by definition.

    Args:
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` has no effect, because there is no
            fusion loss.
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
