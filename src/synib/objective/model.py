"""The model interface of the objective: encode each modality, then combine. A plain callable has no encoders."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from synib.tokens import Modality

Predict = Callable[[Mapping[str, Modality]], Tensor]


class MultimodalModel:
    """A model in parts, so that what a counterfactual leaves unchanged is computed only once.

    :class:`~synib.FusionModel` implements it. Other models inherit from this class and define the methods that raise
    here.

    Attributes:
        names: The modalities, or ``None`` if the model accepts any.
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
        """One latent → parameters of its unimodal prediction; ``through`` keeps gradients even if the head is
        trained detached.
        """
        raise NotImplementedError(f"{type(self).__name__} must define head(name, latent, through), since it has heads.")

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        """The modules that compute this modality's unimodal prediction."""
        return []

    def unimodal_layers(self, name: str) -> list[nn.Linear | nn.ReLU] | None:
        """The layers from this modality's values to its unimodal prediction, if it consists of linear layers and ReLUs
        alone; gradients with respect to the values are then computed faster.
        """
        return None

    def mixes_rows(self, encoder: str | None = None) -> bool:
        """Whether the output for one example depends on the rest of the batch, in one modality's encoder or in the fusion."""
        return False

    def on_latents(self) -> "MultimodalModel":
        """This model as a function of its latents, for objectives that corrupt latents instead of inputs."""
        raise ValueError(f"Only a model with encoders, such as FusionModel, has latents; got {type(self).__name__}.")


def as_prediction(output: Any) -> Tensor:
    """Return the output of a model if it is a floating-point tensor."""
    if isinstance(output, Tensor) and output.is_floating_point():
        return output
    if isinstance(output, Tensor):
        raise ValueError(f"A model must return the family's parameters as real numbers; got {output.dtype}.")
    listed = "['logits']" if isinstance(output, Mapping) else "[0]" if isinstance(output, tuple | list) else ""
    part = ".logits" if hasattr(output, "logits") else listed
    hint = f": wrap it, for example lambda m: model(m){part}" if part else ""
    raise ValueError(f"A model must return a tensor of the family's parameters; got {type(output).__name__}{hint}.")


class BlackBoxModel(MultimodalModel):
    """A plain function of the modalities as a model: nothing to encode, everything in the fusion.

    The objective wraps any callable in this class. Construct it yourself to declare properties of the function.

    Args:
        predict: Function from a dict of modalities to the family's parameters.
        unimodal: Name → unimodal predictor of that modality, where a mask or reference needs one.
        independent_rows: Whether each example's prediction is independent of the rest of the batch. If so, the intact
            batch and all counterfactuals share one call instead of one each.
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
