"""A model with its inputs encoded once, for predictions on mixed examples in bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from synib import tokens
from synib.checks import check_whole
from synib.masks.base import undisturbed
from synib.measure.arrays import as_tensor, check_class_numbers, described
from synib.objective import Family, MultimodalModel, Objective
from synib.objective.checks import check_finite, check_modalities, check_model
from synib.objective.model import BlackBoxModel, Predict, as_prediction
from synib.tokens import Modality, Tokens, values

Model = Predict | MultimodalModel
Modalities = Mapping[str, Modality | ArrayLike]
CHUNK = 2048  # rows at a time: small enough for a fusion head's activations to stay in the processor's cache


class Encoded:
    """A model and examples, prepared to predict examples whose modalities come from different rows.

    A model in parts (``FusionModel``, its ``on_latents()``) encodes and projects every modality once, and only the rest of
    its fusion runs on mixed examples. A plain callable runs as a whole each time.

    Args:
        predict: A :class:`~synib.FusionModel`, or any callable from modalities to the family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first. All are converted to the model's dtype
            and device.
        chunk: Number of rows per call of the model.
    """

    def __init__(self, predict: Model, modalities: Modalities, chunk: int) -> None:
        self.chunk = check_whole("chunk", chunk)
        if isinstance(predict, Objective):
            raise ValueError(
                f"Measures need a model; got the objective {type(predict).__name__}: pass the model that it trains."
            )
        check_model(predict, {}, {})
        self.model: MultimodalModel = predict if isinstance(predict, MultimodalModel) else BlackBoxModel(predict, {})
        self.modalities = as_tensors(predict, modalities, self.model.names)
        self.names = list(self.model.names or self.modalities)
        first = values(self.modalities[self.names[0]])
        self.size, self.device = first.shape[0], first.device
        self.latents = {name: self._encode(name, self.modalities[name]) for name in self.names}
        self.fusion_inputs = {name: self._project(name, latent) for name, latent in self.latents.items()}

    def fusion_input(self, name: str, x: Modality) -> Any:
        """The fusion input for other values of a modality."""
        return self._project(name, self._encode(name, x))

    def own(self) -> Tensor:
        """The predictions of the unmixed examples, ``(examples, ...)``; must be finite."""
        prediction = self.mixed({}, torch.arange(self.size, device=self.device))
        if not prediction.isfinite().all():
            raise ValueError("The model's predictions contain NaN or infinite values; expected finite numbers.")
        return prediction

    def mixed(
        self,
        taken: Mapping[str, Tensor],
        otherwise: Tensor,
        new: Mapping[str, Modality] | None = None,
        fusion_inputs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Predictions of mixed examples, in float64.

        Args:
            taken: Modality → the rows that it is taken from, one for each mixed example.
            otherwise: The rows of all other modalities.
            new: Modality → replacement values, one row for each mixed example.
            fusion_inputs: Modality → the output of :meth:`fusion_input` for other values, from which ``taken`` then selects.
        """
        new = new or {}
        replaced = {name: self.fusion_input(name, x) for name, x in new.items()}
        projected = {**self.fusion_inputs, **(fusion_inputs or {}), **replaced}
        rows = {**taken, **dict.fromkeys(new, torch.arange(len(otherwise), device=self.device))}
        predictions = []
        for start in range(0, len(otherwise), self.chunk):
            part = slice(start, start + self.chunk)
            output = self.model.combine(
                {name: tokens.take(projected[name], rows.get(name, otherwise)[part]) for name in self.names}
            )
            predictions.append(as_prediction(output).double())
        return torch.cat(predictions)

    def _encode(self, name: str, x: Modality) -> Any:
        return tokens.join([self.model.encode(name, part) for part in self._parts(x)])

    def _project(self, name: str, latent: Any) -> Any:
        return tokens.join([self.model.project(name, part) for part in self._parts(latent)])

    def _parts(self, x: Modality) -> list[Modality]:
        n = values(x).shape[0]
        return tokens.split(x, [min(self.chunk, n - start) for start in range(0, n, self.chunk)])


@contextmanager
def evaluated(predict: Model) -> Iterator[None]:
    """Context in which a model runs in evaluation mode without gradients.

    The mode of every module is restored afterwards. The modules used inside a plain function cannot be found.
    """
    owner = _module_of(predict)
    with torch.no_grad(), undisturbed([] if owner is None else [owner], recurrent=True):
        yield


def as_tensors(predict: Model, modalities: Modalities, names: Sequence[str] | None = None) -> dict[str, Modality]:
    """The checked batch: tensors of the model's dtype on its device; unchanged if the model has no parameters."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities must be a dict of name → tensor; got {type(modalities).__name__}.")
    owner = _module_of(predict)
    like = None if owner is None else next((p for p in owner.parameters() if p.is_floating_point()), None)

    def moved(x: Tensor) -> Tensor:
        return x if like is None else x.to(like if x.is_floating_point() else like.device)

    result: dict[str, Modality] = {}
    for name, x in modalities.items():
        try:
            parts = [as_tensor(part) for part in (x if isinstance(x, Tokens) else [x])]
        except (TypeError, ValueError, RuntimeError):
            kind = type(x).__name__
            raise ValueError(
                f"Modality {name!r} must be a tensor, an array of numbers or synib.Tokens; got {kind}."
            ) from None
        result[name] = Tokens(*map(moved, parts)) if isinstance(x, Tokens) else moved(parts[0])
    check_modalities(result, names)
    check_finite(result)
    return result


def as_target(target: ArrayLike | Tensor, examples: int, device: torch.device) -> Tensor:
    """The targets as a tensor with one row per example."""
    try:
        y = as_tensor(target, device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"The target must be one class or value for each example; got {described(target)}.") from None
    if y.shape[:1] != (examples,):
        raise ValueError(f"The target needs one row for each of {examples} examples; got shape {tuple(y.shape)}.")
    return y


def targets_of(target: ArrayLike | Tensor, prediction: Tensor, family: Family) -> Tensor:
    """The targets in the shape of the predictions, if they match and are not all equal."""
    y = as_target(target, prediction.shape[0], prediction.device)
    if family.discrete:
        check_class_numbers(y)
    family.check_target(prediction, y)
    if family.discrete:
        y = y.reshape(-1).long()
        if bool((y == y[0]).all()):
            raise ValueError(
                f"All {len(y)} targets are class {int(y[0])}; measuring the use of modalities needs at least 2 classes."
            )
    return y


def _module_of(predict: object) -> nn.Module | None:
    """The model if it is a module, or the module behind ``model.on_latents()`` or a bound method."""
    owners = (predict, getattr(predict, "model", None), getattr(predict, "__self__", None))
    return next((owner for owner in owners if isinstance(owner, nn.Module)), None)
