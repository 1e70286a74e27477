"""The confidence penalty: SynIB without corruption, the control for SynIB."""

from typing import Any

from torch import Tensor

from synib.objective import Batch, MultimodalModel, Parts, Penalised
from synib.objective.penalised import weighted_mean


class Confidence(Penalised):
    r"""KL to the reference on the *intact* prediction, once for each modality.

    .. math:: \mathrm{CE}\big(q(y \mid x_1..x_n)\big) + \lambda\, n\, D_\mathrm{KL}\big(q(y \mid x_1..x_n) \,\|\, r\big)

    This is :class:`~synib.SynIB` with a mask that corrupts nothing, which the paper's published PID-XOR script computed
    under the names "random" and "learned". The gain of SynIB must be measured against it.

    Args:
        settings: ``weight``, ``reference`` (fixed ones only), ``family``, ``unimodal_weight``, ``check``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.reference.needs_unimodal:
            raise ValueError(
                "The confidence penalty corrupts no modality, so it cannot use the Unimodal reference: use "
                "Uniform(), Prior() or Fixed()."
            )

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, _ = self.supervised(model, latents, prediction, batch)
        divergence = self.family.kl(prediction, self.reference(prediction, self.family, {}))
        counts = batch.sample_weight
        penalty = divergence.mean() if counts is None else weighted_mean(divergence, counts)
        weight = self.scheduled_weight()
        parts |= {"penalty": penalty.detach(), "weight": weight.detach()}
        return total + weight * len(batch.modalities) * penalty, parts
