"""How the objective sees a model: encode each modality, then combine. A plain callable is the case without encoders."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from synib.tokens import Modality

Predict = Callable[[Mapping[str, Modality]], Tensor]


class MultimodalModel:
    """A model in parts, so that what a counterfactual leaves intact is computed once.

    :class:`~synib.FusionModel` is one. Another is any class that inherits from this and defines what raises here.

    Attributes:
        names: The modalities, or ``None`` where any will do.
    """

    names: tuple[str, ...] | None = None

    def encode(self, name: str, x: Modality) -> Any:
        """One modality → its latent."""
        return x

    def project(self, name: str, latent: Any) -> Any:
        """One latent → its input to the fusion."""
        return latent

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        """The fusion: all projected latents → parameters of the predictive distribution."""
        raise NotImplementedError(f"{type(self).__name__} must define combine(projected).")

    def has_head(self, name: str) -> bool:
        """Whether this modality has a unimodal predictor."""
        return False

    def head(self, name: str, latent: Any, through: bool = False) -> Tensor:
        """One latent → parameters of this modality's own prediction; ``through``: differentiable even if trained detached."""
        raise NotImplementedError(f"{type(self).__name__} must define head(name, latent, through), since it has heads.")

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        """The modules that take part in this modality's own prediction."""
        return []

    def mixes_rows(self, encoder: str | None = None) -> bool:
        """Whether an example's output depends on the rest of its batch: of one modality's encoder, or of the fusion."""
        return False

    def on_latents(self) -> "MultimodalModel":
        """This model as a function of its latents, for objectives that corrupt latents instead of inputs."""
        raise ValueError(f"Only a model with encoders, such as FusionModel, has latents; got {type(self).__name__}.")


def as_prediction(output: Any) -> Tensor:
    """What a model returned, if it is a tensor of real numbers."""
    if isinstance(output, Tensor) and output.is_floating_point():
        return output
    if isinstance(output, Tensor):
        raise ValueError(f"A model returns the family's parameters, which are real numbers; got {output.dtype}.")
    listed = "['logits']" if isinstance(output, Mapping) else "[0]" if isinstance(output, tuple | list) else ""
    part = ".logits" if hasattr(output, "logits") else listed
    hint = f": wrap it, as in lambda m: model(m){part}" if part else ""
    raise ValueError(f"A model returns a tensor of the family's parameters; got {type(output).__name__}{hint}.")


class BlackBoxModel(MultimodalModel):
    """A plain function of the modalities: nothing to encode, everything in the fusion.

    The objective makes one itself of any callable. Make it yourself to say more about the function.

    Args:
        predict: From a dict of modalities to the family's parameters.
        unimodal: Name → that modality's own predictor, where a mask or reference needs one.
        independent_rows: Whether an example's prediction does not depend on the rest of its batch. The intact batch and all
            counterfactuals then take one call instead of one each.
    """

    def __init__(
        self,
        predict: Predict,
        unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
        independent_rows: bool = False,
    ) -> None:
        self.predict, self.unimodal, self.independent_rows = predict, unimodal or {}, independent_rows

    def combine(self, projected: Mapping[str, Modality]) -> Tensor:
        return as_prediction(self.predict(projected))

    def has_head(self, name: str) -> bool:
        return name in self.unimodal

    def head(self, name: str, latent: Modality, through: bool = False) -> Tensor:
        return as_prediction(self.unimodal[name](latent))

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        module = self.unimodal.get(name)
        return [module] if isinstance(module, nn.Module) else []

    def mixes_rows(self, encoder: str | None = None) -> bool:
        return encoder is None and not self.independent_rows
