"""A sum of one function for each modality: fusion without interaction."""

from collections.abc import Mapping

import torch
from torch import Tensor

from synib.methods.ensemble import Ensemble
from synib.methods.unimodal import own_prediction
from synib.objective import Batch, MultimodalModel, Parts
from synib.tokens import Modality


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

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        total = self.task_loss(self.predict(model, batch.modalities), batch)
        return total, {"task": total.detach()}

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return torch.stack([own_prediction(self, model, name, modalities) for name in modalities]).sum(0)
