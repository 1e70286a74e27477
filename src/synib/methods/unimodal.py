"""Training on one modality alone."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from synib.methods.hooks import TrainsInStages
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality


class UnimodalModel(Objective, TrainsInStages):
    r"""Cross-entropy of one modality's unimodal prediction (App. "Baselines", Unimodal models).

    .. math:: \mathcal L_{\mathrm{uni}, i} = \mathrm{CE}\big(f_{\theta_i}(y \mid x_i)\big)

    The encoder and head of the modality are trained together, even if the model detaches its heads; all other
    parameters stay bit-identical. The prediction is that of the head.

    Args:
        modality: The modality to train.
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` has no effect, because there is no
            fusion loss.
    """

    predicts_by_fusion = False
    with_heads = "trains unimodal heads"

    def __init__(self, modality: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.modality = modality

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        loss = self.task_loss(self.predict(model, batch.modalities), batch)
        return loss, {f"unimodal/{self.modality}": loss.detach()}

    def predict(self, model: MultimodalModel, modalities: Mapping[str, Modality]) -> Tensor:
        return own_prediction(self, model, self.modality, modalities)

    def uses(self, modality: str) -> bool:
        return modality == self.modality

    def trains(self, parameter: str) -> bool:
        return parameter.startswith((f"model.encoders.{self.modality}.", f"model.heads.{self.modality}."))


def own_prediction(method: Objective, model: MultimodalModel, name: str, modalities: Mapping[str, Modality]) -> Tensor:
    """The unimodal prediction of a modality, with gradients to its encoder even if heads are detached."""
    if name not in modalities:
        raise ValueError(
            f"There is no modality {name!r} to train alone; the modalities are {', '.join(map(repr, modalities))}."
        )
    method.require_heads(model, [name])
    return model.head(name, model.encode(name, modalities[name]), through=True)
