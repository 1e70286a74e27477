"""How the objective sees a model: encode each modality, then combine. A plain callable is the case without encoders."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from synib.tokens import Modality

Predict = Callable[[Mapping[str, Modality]], Tensor]


@runtime_checkable
class Fusible(Protocol):
    """A model in two halves, so that what a counterfactual leaves intact is computed once (see ``FusionModel``)."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The modalities, or ``None`` where any will do."""

    def encode(self, name: str, x: Modality) -> Any:
        """One modality → its latent."""

    def project(self, name: str, latent: Any) -> Any:
        """One latent → what it brings to the fusion."""

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        """What all modalities bring → parameters of the predictive distribution."""

    def has_head(self, name: str) -> bool:
        """Whether this modality has a unimodal predictor."""

    def head(self, name: str, latent: Any, through: bool = False) -> Tensor:
        """One latent → parameters of this modality's own prediction; ``through``: differentiable even if trained detached."""

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        """The modules that take part in this modality's own prediction."""

    def mixes_rows(self) -> bool:
        """Whether some layer now makes an example's prediction depend on the rest of its batch."""


def answer(said: Any) -> Tensor:
    """What a model said, if it is a tensor of real numbers."""
    if isinstance(said, Tensor) and said.is_floating_point():
        return said
    if isinstance(said, Tensor):
        raise ValueError(f"A model answers with the family's parameters, which are real numbers; got {said.dtype}.")
    listed = "['logits']" if isinstance(said, Mapping) else "[0]" if isinstance(said, tuple | list) else ""
    part = ".logits" if hasattr(said, "logits") else listed
    way = f": wrap it, as in lambda m: model(m){part}" if part else ""
    raise ValueError(f"A model answers with a tensor of the family's parameters; got {type(said).__name__}{way}.")


class Whole:
    """A plain ``predict`` as the objective sees models: nothing to encode, everything in the combination."""

    names = None

    def __init__(self, predict: Predict, unimodal: Mapping[str, Callable[[Modality], Tensor]]) -> None:
        self.predict, self.unimodal = predict, unimodal

    def encode(self, name: str, x: Modality) -> Modality:
        return x

    def project(self, name: str, latent: Modality) -> Modality:
        return latent

    def combine(self, projected: Mapping[str, Modality]) -> Tensor:
        return answer(self.predict(projected))

    def has_head(self, name: str) -> bool:
        return name in self.unimodal

    def head(self, name: str, latent: Modality, through: bool = False) -> Tensor:
        return answer(self.unimodal[name](latent))

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        module = self.unimodal.get(name)
        return [module] if isinstance(module, nn.Module) else []

    def mixes_rows(self) -> bool:
        return isinstance(self.predict, nn.Module) and batch_dependent(self.predict)


def batch_dependent(module: nn.Module) -> bool:
    """Whether a layer in it now normalises by batch statistics (BatchNorm in training mode)."""
    return any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and (m.training or not m.track_running_stats)
        for m in module.modules()
    )
