"""A sum of one function per modality: fusion without interaction."""

from collections.abc import Mapping

import torch
from torch import Tensor

from synib.methods.ensemble import Ensemble
from synib.methods.unimodal import own_prediction
from synib.objective import Batch, MultimodalModel, Parts
from synib.tokens import Modality


class Additive(Ensemble):
    r"""A sum of one function per modality, trained as one model.

    .. math:: q(y \mid x_1..x_n) \propto \exp \textstyle\sum_i h_i(f_i(x_i))

    Encoders and unimodal heads are trained jointly. The model can pool and weigh evidence, and represents everything
    that has no interaction, such as the sign of a sum, which a unimodal model can only predict in part. What a fusion
    model gains over it is interaction. The fusion head is not trained.

    Args:
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` has no effect.
    """

    with_heads = "sums unimodal heads"

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        total = self.task_loss(self.predict(model, batch.modalities), batch)
        return total, {"task": total.detach()}

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return torch.stack([own_prediction(self, model, name, modalities) for name in modalities]).sum(0)
