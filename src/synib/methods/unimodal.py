"""One modality alone."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from synib.methods.hooks import TrainsInStages
from synib.objective import Batch, MultimodalModel, Objective, Parts
from synib.tokens import Modality


class UnimodalModel(Objective, TrainsInStages):
    r"""Cross-entropy on one modality's own prediction (App. "Baselines", Unimodal models).

    .. math:: \mathcal L_{\mathrm{uni}, i} = \mathrm{CE}\big(f_{\theta_i}(y \mid x_i)\big)

    The modality's encoder and head are trained together, also in a model that detaches its heads; everything else stays
    as it was, bit for bit. The answer is that head's.

    Args:
        modality: Which one.
        settings: ``family``, ``check``, see :class:`Objective`. ``unimodal_weight`` weighs unimodal losses against a fusion's;
            there is none here, and it changes nothing.
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

    def trains(self, parameter: str) -> bool:
        return parameter.startswith((f"model.encoders.{self.modality}.", f"model.heads.{self.modality}."))


def own_prediction(method: Objective, model: MultimodalModel, name: str, modalities: Mapping[str, Modality]) -> Tensor:
    """A modality's own prediction, through which its encoder learns even where heads are detached."""
    if name not in modalities:
        raise ValueError(f"There is no modality {name!r} to train alone: there are {', '.join(map(repr, modalities))}.")
    method.require_heads(model, [name])
    return model.head(name, model.encode(name, modalities[name]), through=True)
