"""Plain fusion: the task loss only."""

from torch import Tensor

from synib.objective import Batch, MultimodalModel, Objective, Parts


class Vanilla(Objective):
    """Cross-entropy on the intact prediction (App. "Baselines"), with the unimodal heads' losses if there are heads."""

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        latents, prediction = self.intact(model, batch.modalities)
        total, parts, _ = self.supervised(model, latents, prediction, batch)
        return total, parts
