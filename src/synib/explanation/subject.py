"""What is explained: a model, the rows, and the other rows that stand for what is absent."""

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
    """A :class:`~synib.own.predictor.Predictor` as a model in parts, of rows in the user's own units.

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
    """The same behind its encoders: its modalities are what they bring to the fusion."""

    def encode(self, name: str, x: Modality) -> Tensor:
        return tokens.values(x)


class Subject:
    """A model with the rows to explain and a background, encoded once.

    Args:
        model: Any model of the objective, or a :class:`~synib.own.predictor.Predictor`.
        rows: Name → values of the rows to explain.
        background: Name → values of rows that stand for what is absent. By default the rows themselves; of a predictor the
            rows that it kept from training.
        family: How outputs are read; a predictor has its own.
        draws: How many background rows are drawn at most.
        seed: Seed for the draws.
        chunk: How many rows go through the model at a time.

    Attributes:
        encoded: The model with the rows, then the background.
        size: How many rows are explained.
        first: Where the background begins.
        present: Which rows have each modality, ``(rows, modalities)``; ``None`` where all do.
        has_inputs: Whether the encoded values are inputs, of which parts can be swapped, and not latents.
        is_sampled: Whether only some of the background's rows were drawn.
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
        self._said: Tensor | None = None
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
                "An absent modality takes the values of other rows, of which at least 2 are needed; got "
                f"{self.encoded.size - self.first}: give more rows, or other rows as background."
            )
        self.draws = min(draws, self.encoded.size - self.first)

    def predictions(self) -> Tensor:
        """The family's parameters for the rows as they are."""
        prediction = self._said
        if prediction is None:
            prediction = self.encoded.mixed({}, torch.arange(self.size, device=self.encoded.device))
        if not prediction.isfinite().all():
            raise ValueError("The model's predictions hold NaN or Inf; expected finite numbers.")
        return prediction

    def values(self, rows: Any) -> dict[str, Any]:
        """Modality → the rows' values as arrays, for pictures."""
        return {
            name: tokens.values(x).detach().cpu().numpy() if isinstance(x, Tensor | tokens.Tokens) else np.asarray(x)
            for name, x in rows.items()
        }

    def whole_rows(self, rows: Sequence[int]) -> list[int]:
        """Those of the rows that have every modality."""
        return [row for row in rows if self.present is None or bool(self.present[row].all())]

    def background(self, seed: int) -> backgrounds.Background:
        """Draws that stand for absent modalities."""
        return backgrounds.draw(self.encoded, self.draws, seed, self.first)

    def _of_model(
        self, model: Model, rows: Modalities, background: Modalities | None, draws: int, seed: int, chunk: int
    ) -> None:
        names = getattr(unwrap(model), "names", None)
        own = as_tensors(model, rows, names)
        self.size = len(tokens.values(next(iter(own.values()))))
        self.first = 0 if background is None else self.size
        if background is not None:
            others = self._some(as_tensors(model, background, names), draws, seed)
            if others.keys() != own.keys():
                raise ValueError(
                    f"The background has the modalities of the rows, {', '.join(own)}; got {', '.join(others)}."
                )
            try:
                own = {name: tokens.join([x, others[name]]) for name, x in own.items()}
            except (RuntimeError, TypeError):
                shapes = {n: (*tokens.values(x).shape[1:],) for n, x in others.items()}
                raise ValueError(
                    f"Background and rows have values of one shape; the background has {shapes}."
                ) from None
        self.encoded = Encoded(unwrap(model), own, chunk)

    def _of_predictor(self, model: Predictor, rows: Any, background: Any, draws: int, seed: int, chunk: int) -> None:
        latents, has = model._encoded(rows, None)
        self.size = self.first = len(next(iter(has.values())))
        self._said = torch.from_numpy(model._parameters(latents, has))
        known = torch.stack([rows | (name in model.learned) for name, rows in has.items()], 1)
        if background is None:
            at = torch.arange(max(len(b) for b in model.background.values()))
            kept = {name: b[at % len(b)] for name, b in model.background.items()}
            joined = {name: torch.cat([z, kept[name]]) for name, z in latents.items()}
            self.encoded, self.has_inputs = Encoded(LatentPredictor(model), joined, chunk), False
        else:
            self.encoded = self._with_inputs(model, rows, background, draws, seed, chunk)
            for name, z in latents.items():  # rows without a modality are encoded as such
                self.encoded.brought[name][: self.size] = z
        self.present = None if bool(known.all()) else known

    def _with_inputs(self, model: Predictor, rows: Any, background: Any, draws: int, seed: int, chunk: int) -> Encoded:
        if set(background) != set(model.widths):
            raise ValueError(
                f"The background has every modality of the model, {', '.join(model.widths)}; got {shown([*background])}."
            )
        others = {name: np.asarray(background[name], dtype=np.float64) for name in model.widths}
        whole = np.logical_and.reduce([np.isfinite(x).all(1) for x in others.values()])
        drawn = self._some({name: torch.from_numpy(x[whole]) for name, x in others.items()}, draws, seed)
        joined = {}
        for name, width in model.widths.items():
            x = np.asarray(rows[name], dtype=np.float64) if name in rows else np.zeros((self.size, width))
            joined[name] = torch.cat([torch.from_numpy(np.nan_to_num(x, nan=0.0)), tokens.values(drawn[name])])
        return Encoded(CalibratedModel(model), joined, chunk)

    def _some(self, modalities: Mapping[str, Modality], draws: int, seed: int) -> dict[str, Modality]:
        """So many rows at most, the same of each modality."""
        n = len(tokens.values(next(iter(modalities.values()))))
        self.is_sampled = n > draws
        if not self.is_sampled:
            return dict(modalities)
        rows = keys.permutation(keys.fold(keys.key(seed), "some"), n)[:draws]
        return {name: tokens.take(x, rows.to(tokens.values(x).device)) for name, x in modalities.items()}
