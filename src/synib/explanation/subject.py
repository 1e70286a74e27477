"""The subject of an explanation: a model, the rows to explain, and a background that replaces absent modalities."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib import keys, tokens
from synib.checks import shown
from synib.measure import background as backgrounds
from synib.measure.arrays import family_of
from synib.measure.encoded import Encoded, Modalities, Model, as_tensors
from synib.objective import Family, MultimodalModel
from synib.objective.wrappers import unwrap
from synib.own.predictor import Predictor
from synib.tokens import Modality


class CalibratedModel(MultimodalModel):
    """A :class:`~synib.own.predictor.Predictor` as a multimodal model of rows in the user's units.

    Args:
        predictor: The model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.model = predictor, predictor.answers
        self.names = tuple(predictor.widths)

    def encode(self, name: str, x: Modality) -> Tensor:
        values = tokens.values(x).cpu().numpy()
        return self.predictor.encode(name, values, np.ones(len(values), dtype=bool))

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        return self.predictor.combine(projected)


class LatentPredictor(CalibratedModel):
    """The same model without its encoders: its inputs are the latents of the modalities."""

    def encode(self, name: str, x: Modality) -> Tensor:
        return tokens.values(x)


class Subject:
    """A model with the rows to explain and a background, encoded once.

    Args:
        model: Any model of the objective, or a :class:`~synib.own.predictor.Predictor`.
        rows: Name → values of the rows to explain.
        background: Name → values of rows that replace absent modalities. By default the rows themselves; for a predictor the
            training rows stored with it.
        family: The predictive distribution; a predictor has its own.
        draws: Number of background rows, at most.
        seed: Seed for the draws.
        chunk: Rows passed through the model at a time.

    Attributes:
        encoded: The model with the rows, followed by the background.
        size: Number of rows to explain.
        first: Number of the first background row.
        present: Which rows have each modality, ``(rows, modalities)``; ``None`` if all do.
        has_inputs: Whether the encoded values are inputs, whose parts can be exchanged, and not latents.
        is_sampled: Whether the background was sampled from more rows.
    """

    def __init__(
        self,
        model: Model | Predictor,
        rows: Modalities,
        background: Modalities | None,
        family: Family | None,
        draws: int,
        seed: int,
        chunk: int,
    ) -> None:
        self.present: Tensor | None = None
        self.has_inputs = True
        self.is_sampled = False
        self._predictions: Tensor | None = None
        if isinstance(model, Predictor):
            if family is not None:
                raise ValueError(f"A fitted model has its own family, {model.family!r}: leave out family.")
            self.family = model.family
            self._of_predictor(model, rows, background, draws, seed, chunk)
        else:
            self.family = family_of(family)
            self._of_model(model, rows, background, draws, seed, chunk)
        if self.encoded.size - self.first < 2:
            raise ValueError(
                "Absent modalities take the values of other rows, of which at least 2 are needed; got "
                f"{self.encoded.size - self.first}: give more rows, or other rows as background."
            )
        self.draws = min(draws, self.encoded.size - self.first)

    def predictions(self) -> Tensor:
        """The family's parameters for the unchanged rows."""
        prediction = self._predictions
        if prediction is None:
            prediction = self.encoded.mixed({}, torch.arange(self.size, device=self.encoded.device))
        if not prediction.isfinite().all():
            raise ValueError("The model's predictions contain NaN or infinite values; expected finite numbers.")
        return prediction

    def values(self, rows: Any) -> dict[str, Any]:
        """Modality → the rows' values as arrays, for pictures."""
        return {
            name: tokens.values(x).detach().cpu().numpy() if isinstance(x, Tensor | tokens.Tokens) else np.asarray(x)
            for name, x in rows.items()
        }

    def whole_rows(self, rows: Sequence[int]) -> list[int]:
        """The rows that have every modality."""
        return [row for row in rows if self.present is None or bool(self.present[row].all())]

    def background(self, seed: int) -> backgrounds.Background:
        """Draws that replace absent modalities."""
        return backgrounds.draw(self.encoded, self.draws, seed, self.first)

    def _of_model(
        self, model: Model, rows: Modalities, background: Modalities | None, draws: int, seed: int, chunk: int
    ) -> None:
        names = getattr(unwrap(model), "names", None)
        examples = as_tensors(model, rows, names)
        self.size = len(tokens.values(next(iter(examples.values()))))
        self.first = 0 if background is None else self.size
        if background is not None:
            others = self._sampled(as_tensors(model, background, names), draws, seed)
            if others.keys() != examples.keys():
                raise ValueError(
                    f"The background must have the modalities of the rows, {', '.join(examples)}; got {', '.join(others)}."
                )
            try:
                examples = {name: tokens.join([x, others[name]]) for name, x in examples.items()}
            except (RuntimeError, TypeError):
                shapes = {n: (*tokens.values(x).shape[1:],) for n, x in others.items()}
                raise ValueError(
                    f"Background and rows must have values of the same shape; the background has {shapes}."
                ) from None
        self.encoded = Encoded(unwrap(model), examples, chunk)

    def _of_predictor(self, model: Predictor, rows: Any, background: Any, draws: int, seed: int, chunk: int) -> None:
        latents, has = model._encoded(rows, None)
        self.size = self.first = len(next(iter(has.values())))
        self._predictions = torch.from_numpy(model._parameters(latents, has))
        available = torch.stack([rows | (name in model.learned) for name, rows in has.items()], 1)
        if background is None:
            index = torch.arange(max(len(b) for b in model.background.values()))
            background_latents = {name: b[index % len(b)] for name, b in model.background.items()}
            joined = {name: torch.cat([z, background_latents[name]]) for name, z in latents.items()}
            self.encoded, self.has_inputs = Encoded(LatentPredictor(model), joined, chunk), False
        else:
            self.encoded = self._with_inputs(model, rows, background, draws, seed, chunk)
            for name, z in latents.items():  # rows without a modality are encoded as such
                self.encoded.fusion_inputs[name][: self.size] = z
        self.present = None if bool(available.all()) else available

    def _with_inputs(self, model: Predictor, rows: Any, background: Any, draws: int, seed: int, chunk: int) -> Encoded:
        if set(background) != set(model.widths):
            raise ValueError(
                f"The background must have every modality of the model, {', '.join(model.widths)}; got {shown([*background])}."
            )
        others = {name: np.asarray(background[name], dtype=np.float64) for name in model.widths}
        complete = np.logical_and.reduce([np.isfinite(x).all(1) for x in others.values()])
        drawn = self._sampled({name: torch.from_numpy(x[complete]) for name, x in others.items()}, draws, seed)
        joined = {}
        for name, width in model.widths.items():
            x = np.asarray(rows[name], dtype=np.float64) if name in rows else np.zeros((self.size, width))
            joined[name] = torch.cat([torch.from_numpy(np.nan_to_num(x, nan=0.0)), tokens.values(drawn[name])])
        return Encoded(CalibratedModel(model), joined, chunk)

    def _sampled(self, modalities: Mapping[str, Modality], draws: int, seed: int) -> dict[str, Modality]:
        """At most ``draws`` rows, the same for each modality."""
        n = len(tokens.values(next(iter(modalities.values()))))
        self.is_sampled = n > draws
        if not self.is_sampled:
            return dict(modalities)
        rows = keys.permutation(keys.fold(keys.key(seed), "some"), n)[:draws]
        return {name: tokens.take(x, rows.to(tokens.values(x).device)) for name, x in modalities.items()}
