"""A model as the instruments see it: encoded once, asked about rows mixed from different examples, in bounded memory."""

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
    """A model and examples, ready to predict what would be said of an example mixed from several.

    A model in parts (``FusionModel``, its ``on_latents()``) encodes and projects every modality once, and only the rest of
    its fusion runs on mixed examples. A plain callable runs as a whole each time.

    Args:
        predict: A :class:`~synib.FusionModel`, or any callable from modalities to the family's parameters.
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first. All take the model's type and device.
        chunk: How many rows go through the model at a time.
    """

    def __init__(self, predict: Model, modalities: Modalities, chunk: int) -> None:
        self.chunk = check_whole("chunk", chunk)
        if isinstance(predict, Objective):
            raise ValueError(
                f"A measure is of a model; got the objective {type(predict).__name__}: give what it trains."
            )
        check_model(predict, {}, {})
        self.model: MultimodalModel = predict if isinstance(predict, MultimodalModel) else BlackBoxModel(predict, {})
        self.modalities = as_tensors(predict, modalities, self.model.names)
        self.names = list(self.model.names or self.modalities)
        first = values(self.modalities[self.names[0]])
        self.size, self.device = first.shape[0], first.device
        self.latents = {name: self._encode(name, self.modalities[name]) for name in self.names}
        self.brought = {name: self._project(name, latent) for name, latent in self.latents.items()}

    def bring(self, name: str, x: Modality) -> Any:
        """What other values of a modality bring to the fusion."""
        return self._project(name, self._encode(name, x))

    def own(self) -> Tensor:
        """The predictions of the examples as they are, ``(examples, ...)``: finite numbers."""
        prediction = self.mixed({}, torch.arange(self.size, device=self.device))
        if not prediction.isfinite().all():
            raise ValueError("The model's predictions hold NaN or Inf; expected finite numbers.")
        return prediction

    def mixed(
        self,
        taken: Mapping[str, Tensor],
        otherwise: Tensor,
        new: Mapping[str, Modality] | None = None,
        brought: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Predictions of mixed examples, in float64.

        Args:
            taken: For a modality the rows that it is taken from, one for each mixed example.
            otherwise: The rows of the modalities that are not named.
            new: For a modality what takes the place of all its examples, a row for each mixed example.
            brought: For a modality what :meth:`bring` gave, in the place of the examples that ``taken`` chooses from.
        """
        new = new or {}
        projected = {**self.brought, **(brought or {}), **{name: self.bring(name, x) for name, x in new.items()}}
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
    """Within this context a model neither drops units nor updates statistics nor records gradients.

    Every module has its mode back afterwards. Of a callable that hides its module nothing can be known.
    """
    owner = _module_of(predict)
    with torch.no_grad(), undisturbed([] if owner is None else [owner], recurrent=True):
        yield


def as_tensors(predict: Model, modalities: Modalities, names: Sequence[str] | None = None) -> dict[str, Modality]:
    """A batch in order: tensors of the model's type, on its device; as they are, where it has no parameters."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities are a dict of name → tensor; got {type(modalities).__name__}.")
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
                f"Modality {name!r} is a tensor, an array of numbers or synib.Tokens; got {kind}."
            ) from None
        result[name] = Tokens(*map(moved, parts)) if isinstance(x, Tokens) else moved(parts[0])
    check_modalities(result, names)
    check_finite(result)
    return result


def as_target(target: ArrayLike | Tensor, examples: int, device: torch.device) -> Tensor:
    """The targets as a tensor with a row for each example."""
    try:
        y = as_tensor(target, device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"The target is one class number or value for each example; got {described(target)}."
        ) from None
    if y.shape[:1] != (examples,):
        raise ValueError(f"The target needs a row for each of {examples} examples; got shape {tuple(y.shape)}.")
    return y


def targets_of(target: ArrayLike | Tensor, prediction: Tensor, family: Family) -> Tensor:
    """The targets beside the predictions, if they fit them and are not all the same."""
    y = as_target(target, prediction.shape[0], prediction.device)
    if family.discrete:
        check_class_numbers(y)
    family.check_target(prediction, y)
    if family.discrete:
        y = y.reshape(-1).long()
        if bool((y == y[0]).all()):
            raise ValueError(
                f"All {len(y)} targets are class {int(y[0])}; a model's use of its modalities shows on at least 2 classes."
            )
    return y


def _module_of(predict: object) -> nn.Module | None:
    """The model if it is a module, or the module behind ``model.on_latents()`` or a method of a module."""
    owners = (predict, getattr(predict, "model", None), getattr(predict, "__self__", None))
    return next((owner for owner in owners if isinstance(owner, nn.Module)), None)
