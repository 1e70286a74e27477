"""A model as the instruments see it: encoded once, asked about rows mixed from different examples, in bounded memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from synib import tokens
from synib.measure.metrics import correct
from synib.objective import Family, Fusible
from synib.objective.checks import check_finite, check_modalities
from synib.objective.fusible import Predict, Whole
from synib.tokens import Modality, Tokens, values

Model = Predict | Fusible
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
        if chunk < 1:
            raise ValueError(f"chunk is at least 1 row at a time; got {chunk}.")
        self.model: Fusible = predict if isinstance(predict, Fusible) else Whole(predict, {})
        self.modalities = as_tensors(predict, modalities)
        check_modalities(self.modalities, self.model.names)
        check_finite(self.modalities)
        self.chunk = chunk
        self.names = list(self.model.names or self.modalities)
        first = values(self.modalities[self.names[0]])
        self.size, self.device = first.shape[0], first.device
        self.latents: dict[str, Any] = {}
        self.brought = {}
        for name in self.names:
            self.latents[name] = self.encode(name, self.modalities[name])
            self.brought[name] = self.project(name, self.latents[name])

    def encode(self, name: str, x: Modality) -> Any:
        """The latent of a modality, a chunk of rows at a time."""
        return tokens.join([self.model.encode(name, part) for part in self._parts(x)])

    def project(self, name: str, latent: Any) -> Any:
        """What a latent brings to the fusion."""
        return tokens.join([self.model.project(name, part) for part in self._parts(latent)])

    def own(self) -> Tensor:
        """The predictions of the examples as they are, ``(examples, ...)``."""
        return self.mixed({}, torch.arange(self.size, device=self.device))

    def mixed(self, taken: Mapping[str, Tensor], otherwise: Tensor, brought: Mapping[str, Any] | None = None) -> Tensor:
        """Predictions of mixed examples, in float64.

        Args:
            taken: For a modality the rows that it is taken from, one for each mixed example.
            otherwise: The rows of the modalities that are not named.
            brought: For a modality what takes the place of ``self.brought``, with a row for each mixed example.
        """
        brought = brought or {}
        answers = []
        for start in range(0, len(otherwise), self.chunk):
            part = slice(start, start + self.chunk)
            mixture = {
                name: _rows(brought[name], part)
                if name in brought
                else tokens.take(self.brought[name], taken.get(name, otherwise)[part])
                for name in self.names
            }
            said = self.model.combine(mixture)
            if not isinstance(said, Tensor):
                raise ValueError(
                    f"A model answers with a tensor of the family's parameters; got {type(said).__name__}."
                )
            answers.append(said.double())
        return torch.cat(answers)

    def _parts(self, x: Modality) -> list[Modality]:
        n = values(x).shape[0]
        sizes = [min(self.chunk, n - start) for start in range(0, n, self.chunk)]
        return tokens.split(x, sizes) if len(sizes) > 1 else [x]


def _rows(x: Modality, part: slice) -> Modality:
    """Consecutive rows of a batch."""
    return Tokens(x.values[part], x.padding[part]) if isinstance(x, Tokens) else x[part]


@contextmanager
def evaluated(predict: Model) -> Iterator[None]:
    """Within this context a model neither drops units nor updates statistics nor records gradients.

    Every module has its mode back afterwards. Of a callable that hides its module nothing can be known.
    """
    owner = predict if isinstance(predict, nn.Module) else _module_of(predict)
    modes = [(m, m.training) for m in owner.modules()] if owner is not None else []
    try:
        for m, _ in modes:
            m.training = False
        with torch.no_grad():
            yield
    finally:
        for m, training in modes:
            m.training = training


def targets_of(target: ArrayLike | Tensor, prediction: Tensor, family: Family) -> Tensor:
    """The targets beside the predictions, if they fit them and are not all the same."""
    try:
        y = torch.as_tensor(target, device=prediction.device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"The target is one class or value for each example; got {type(target).__name__}.") from None
    if y.shape[:1] != prediction.shape[:1]:
        raise ValueError(
            f"The target needs a row for each of {prediction.shape[0]} examples; got shape {tuple(y.shape)}."
        )
    family.check_target(prediction, y)
    if family.discrete:
        y = y.reshape(-1).long()
        if len(y) and bool((y == y[0]).all()):
            raise ValueError(
                f"All {len(y)} targets are class {int(y[0])}; a model's use of its modalities shows on at least 2 classes."
            )
    return y


def hits(family: Family, prediction: Tensor, target: Tensor) -> Tensor | None:
    """Which examples are predicted right, as 0 and 1; ``None`` for a family without classes."""
    return correct(family, prediction, target).double() if family.discrete else None


def _module_of(predict: object) -> nn.Module | None:
    """The module behind ``model.on_latents()`` or a method of a module."""
    for attribute in ("model", "__self__"):
        owner = getattr(predict, attribute, None)
        if isinstance(owner, nn.Module):
            return owner
    return None


def as_tensors(predict: Model, modalities: Modalities) -> dict[str, Modality]:
    """Arrays and tensors as tensors of the model's type, on its device; as they are, where it has no parameters."""
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities are a dict of name → tensor; got {type(modalities).__name__}.")
    owner = predict if isinstance(predict, nn.Module) else _module_of(predict)
    like = None if owner is None else next((p for p in owner.parameters() if p.is_floating_point()), None)

    def moved(x: Tensor) -> Tensor:
        return x if like is None else x.to(like if x.is_floating_point() else like.device)

    result: dict[str, Modality] = {}
    for name, x in modalities.items():
        if isinstance(x, Tokens):
            result[name] = Tokens(moved(x.values), moved(x.padding))
        else:
            result[name] = moved(torch.as_tensor(x))
    return result
