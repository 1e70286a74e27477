"""Vanilla fusion: the task loss, and nothing else."""

from collections.abc import Mapping

from torch import Tensor

from synib.objective import Fusible, Objective
from synib.objective.base import Parts
from synib.tokens import Modality


class Vanilla(Objective):
    """Cross-entropy on the intact prediction (App. "Baselines"), with the unimodal heads' losses if there are heads."""

    def loss(
        self, model: Fusible, modalities: Mapping[str, Modality], target: Tensor, key: Tensor, look: bool = False
    ) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, modalities)
        total, parts, _ = self.supervised(model, latents, prediction, target, look)
        return total, parts
