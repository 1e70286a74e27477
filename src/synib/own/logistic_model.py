"""Logistic regression on all features of all modalities, in the form of a network.

On a thousand columns, such as those of TF-IDF, a network 128 units wide overfits before it has learned the signal. A penalised
linear model is convex and gives every word its own weight.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from synib.models import OptionalEncoder
from synib.own.folds import Rows
from synib.own.recipe import TableRecipe, make_method, make_model
from synib.own.search_space import LINEAR, RIDGES
from synib.tokens import Tokens
from synib.training import Learner

STEPS = 150  # L-BFGS steps per penalty, at most
SMALL = 1 << 22  # values; smaller feature matrices are fitted in double precision


class Regression:
    """Logistic regressions of one fold, from the largest penalty to the smallest, each started from the previous solution.

    Columns of one encoder share a scale, so that the penalty shrinks components with a small variance more than those with a
    large one; scales are normalised per encoder, so that encoders have equal influence.

    Args:
        recipe: The recipe that prepares rows.
        fold: The fold whose scaling is used.
        rows: The rows to fit to.
    """

    def __init__(self, recipe: TableRecipe, fold: int, rows: Rows) -> None:
        self.recipe, self.fold = recipe, fold
        self.relative_scale = {name: torch.from_numpy(v) for name, v in _relative_scales(recipe, fold).items()}
        split = recipe.split(fold, rows)
        features = torch.cat([self._columns(name, x) for name, x in split.modalities.items()], 1)
        self.features = features.double() if features.numel() <= SMALL else features
        self.split, self.outputs = split, recipe.outputs
        self.point = self.features.new_zeros(features.shape[1] + 1, self.outputs)

    def learners(self, ridges: Sequence[float] = RIDGES) -> list[Learner]:
        """A model for each penalty; penalties must be in descending order."""
        models = []
        for ridge in ridges:
            self.point = self._fitted(ridge)
            models.append(self._learner())
        return models

    def _columns(self, name: str, x: Any) -> Tensor:
        """A modality's features, 0 for rows without it, followed by an indicator that it is missing."""
        if not isinstance(x, Tokens):
            return torch.as_tensor(x * self.relative_scale[name])
        return torch.cat([x.values[:, 0] * self.relative_scale[name], x.padding.float()], 1)

    def _fitted(self, ridge: float) -> Tensor:
        x, target, weight = self.features, self.split.target, self.split.sample_weight
        counts = None if weight is None else weight / weight.mean()
        point = self.point.clone().requires_grad_()
        optimiser = torch.optim.LBFGS(
            [point], max_iter=STEPS, tolerance_grad=1e-6, tolerance_change=1e-9, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            logits = x @ point[:-1] + point[-1]
            if self.outputs == 1:
                losses = binary_cross_entropy_with_logits(logits[:, 0], target.to(logits.dtype), reduction="none")
            else:
                losses = cross_entropy(logits, target, reduction="none")
            mean = losses.mean() if counts is None else (counts * losses).mean()
            loss = mean + 0.5 * ridge * point[:-1].square().sum()  # the intercept is not penalised
            torch.autograd.backward([loss])
            return loss

        with torch.enable_grad():
            optimiser.step(closure)
        return point.detach()

    @torch.no_grad()
    def _learner(self) -> Learner:
        """The regression as an additive model of two layers: ReLU(w x) - ReLU(-w x) = w x."""
        point = self.point.float()
        model = make_model(self._widths(), self.outputs, self.recipe.missing, settings_of(self.outputs))
        for p in model.parameters():
            p.zero_()
        plus_minus = torch.cat([torch.eye(self.outputs), -torch.eye(self.outputs)])
        at = 0
        for name, width in self._widths().items():
            slopes = point[at : at + width] * self.relative_scale[name][:, None]
            at += width
            encoder: Any = model.encoders[name]
            if isinstance(encoder, OptionalEncoder):
                encoder.missing.copy_((plus_minus @ point[at]).relu())
                at += 1
                encoder = encoder.encoder
            first, second = (layer for layer in encoder if isinstance(layer, nn.Linear))
            first.weight.copy_(plus_minus @ slopes.mT)
            second.weight.copy_(torch.eye(2 * self.outputs))
            head: Any = next(layer for layer in model.heads[name].modules() if isinstance(layer, nn.Linear))
            head.weight.copy_(plus_minus.mT)
            if name == model.names[0]:
                head.bias.copy_(point[-1])
        return Learner(model, make_method(LINEAR, self.recipe.family, {})).eval()

    def _widths(self) -> dict[str, int]:
        return {name: int(x.shape[1]) for name, x in self.recipe.table.modalities.items()}


def settings_of(outputs: int) -> dict[str, Any]:
    """The settings of the network that represents a regression."""
    return {"hidden": [2 * outputs, 2 * outputs], "dropout": 0.0}


def _relative_scales(recipe: TableRecipe, fold: int) -> Mapping[str, NDArray[np.float32]]:
    """For each standardised column, its standard deviation divided by the root mean square of those of its encoder."""
    raw = recipe.table.raw
    result = {}
    for name, scale in recipe.scaling(fold).columns.items():
        deviation = np.divide(1.0, scale.factor, out=np.zeros_like(scale.factor), where=scale.factor != 0)
        has_encoders = raw is not None and name in raw.modalities
        widths = (
            [s.width for s in raw.modalities[name].encoders] if raw is not None and has_encoders else [len(deviation)]
        )
        blocks = np.split(deviation, np.cumsum(widths)[:-1])
        sizes = [np.sqrt(np.square(block[block > 0]).mean()) if block.any() else 1.0 for block in blocks]
        result[name] = np.concatenate([block / size for block, size in zip(blocks, sizes, strict=True)]).astype(
            np.float32
        )
    return result
