"""Train the second model of a predictor, for rows that lack modalities, and weigh it beside the chosen one.

The chosen model averages over values of what a row lacks, each as likely as in training whatever the row has. Where modalities
say much of the same that is wrong: five views of other examples outvote the one that is there. A model that loses modalities
at random in training needs no such values. Which is right depends on the data, so the log-odds of both are combined by weights
that are fitted to held-out rows, where that is clearly better there than the chosen model alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.objective import Family, Gaussian
from synib.own.answers import Answers
from synib.own.crossfit import CLEAR, Calibration, calibrate
from synib.own.fitting import log_loss, train_cells
from synib.own.folds import Fold, Rows, held_out
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe
from synib.own.scaling import Scaling
from synib.own.search_space import SECOND
from synib.own.second import MOST, SecondModel, group_of, groups
from synib.own.table import Table
from synib.training import Cell

ROWS = 1500  # at most, that the weights of a group are fitted to
FEW = 20  # at least; with fewer the chosen model predicts alone


class TrainedPart(NamedTuple):
    """A model that was trained on a part of the rows.

    Args:
        table: The data.
        model: The model.
        train: The rows that it was trained on.
        test: Rows that it has not seen.
    """

    table: Table
    model: Predictor
    train: Rows
    test: Rows


class HeldOutAnswers(NamedTuple):
    """The predictions of both models for held-out rows that lack modalities.

    Args:
        group: The group of each row, by what it has.
        answers: The parameters of both models, ``(2, rows, outputs)``.
        target: The targets.
        counts: How much each row counts.
    """

    group: Tensor
    answers: Tensor
    target: Tensor
    counts: Tensor


@dataclass(frozen=True)
class SecondTrainer:
    """Trains models with modality dropout.

    Args:
        epochs, width: Passes over the training rows and width of hidden layers; by default as for other models.
        seed: Seed of training, and of the rows and modalities that are left out.
        device: ``"cpu"`` or ``"cuda"``.
        after_epoch: Called after each epoch.
    """

    epochs: int | None = None
    width: int | None = None
    seed: int = 0
    device: str = "cpu"
    after_epoch: Callable[[Sequence[Cell]], None] = lambda shard: None

    def complete(self, parts: Sequence[TrainedPart], last: TrainedPart) -> Predictor:
        """The last model with a second one beside it, which is weighed on the test rows of the parts.

        Args:
            parts: Models that were trained as the last one, each on other rows of one table.
            last: The model to complete.
        """
        model = last.model
        seconds = self.train(parts)
        pieces = [p for part, second in zip(parts, seconds, strict=True) for p in self._held_out(part, second)]
        weights = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(groups(len(model.widths)), 1)
        bias = torch.zeros(len(weights), model.outputs, dtype=torch.float64)
        for number in range(1, len(weights) - 1):
            same = [p for p in pieces if (p.group == number).any()]
            if sum(int((p.group == number).sum()) for p in same) >= FEW:
                kept = [HeldOutAnswers(*(_take(x, p.group == number) for x in p)) for p in same]
                answers = torch.cat([p.answers for p in kept], 1)
                target, counts = (torch.cat([getattr(p, name) for p in kept]) for name in ("target", "counts"))
                fitted = weigh(model.family, answers, target, counts)
                if _is_clearly_better(model.family, fitted(answers), answers[0], target):
                    weights[number], bias[number] = fitted.weights, fitted.bias
        second = seconds[0] if len(parts) == 1 and np.array_equal(parts[0].train, last.train) else self.train([last])[0]
        return replace(model, second=replace(second, weights=weights, bias=bias))

    def train(self, parts: Sequence[TrainedPart]) -> list[SecondModel]:
        """A second model for each part of one table, not weighed yet."""
        table = parts[0].table
        # Nothing is chosen on the validation rows, which recipes have to have.
        folds = [Fold(p.train, held_out(table, p.train, seed=self.seed)[1], p.train[:0]) for p in parts]
        recipe = OptionalRecipe(table, folds, self.epochs, self.width, [part.model.scaling for part in parts])
        cells = recipe.cells(SECOND, 1, 1, self.seed)
        trained = train_cells(recipe, cells, self.device, after_epoch=self.after_epoch)
        learners = [trained[cell.id].learner().eval() for cell in cells]
        none = torch.zeros(0)
        return [
            SecondModel(Answers(learner, recipe.outputs).double(), cell.settings, none, none)
            for cell, learner in zip(cells, learners, strict=True)
        ]

    def _held_out(self, part: TrainedPart, second: SecondModel) -> Iterator[HeldOutAnswers]:
        table, model = part.table, part.model
        rng = np.random.default_rng(self.seed)
        names = list(model.widths)
        for keep in _kept(len(names), len(part.test), rng):
            present = np.stack([table.present[name][part.test] for name in names], 1) & keep
            some = np.flatnonzero(present.any(1) & ~present.all(1))
            some = np.sort(rng.choice(some, ROWS, replace=False)) if len(some) > ROWS else some
            if not len(some):
                continue
            rows = part.test[some]
            x = {name: np.asarray(table.modalities[name][rows]) for name in names}
            has = {name: torch.from_numpy(present[some, i]) for i, name in enumerate(names)}
            first = model.averaged(x, {name: rows.numpy() for name, rows in has.items()})
            with torch.no_grad():
                own = second.parameters(second.encode(model.scaled(x)), has)
            own = torch.from_numpy(model.scaling.undo(model.family, own.numpy()))
            counts = torch.ones(len(rows)) if table.weight is None else torch.as_tensor(table.weight[rows])
            target = torch.as_tensor(table.target[rows])
            yield HeldOutAnswers(group_of(list(has.values())), torch.stack([first, own]), target, counts.double())


class OptionalRecipe(TableRecipe):
    """Rows of which any modality may be missing, scaled as they are for another model."""

    def __init__(
        self,
        table: Table,
        parts: Sequence[Fold],
        epochs: int | None,
        width: int | None,
        scalings: Sequence[Scaling],
    ) -> None:
        super().__init__(table, parts, epochs, width)
        self.missing = tuple(table.modalities)
        self._scalings = dict(enumerate(scalings))

    def settings(self, method: str, candidate: Mapping[str, float], fold: int) -> dict[str, Any]:
        return {**super().settings(method, candidate, fold), "noise": "hidden"}


def weigh(family: Family, answers: Tensor, target: Tensor, counts: Tensor | None = None) -> Calibration:
    """What two models count, fitted to rows that neither has seen; of a number's predictions the better one counts alone.

    Args:
        family: The predictive distribution.
        answers: What both say, ``(2, rows, outputs)``.
        target: The targets.
        counts: How much each row counts.
    """
    if not isinstance(family, Gaussian):
        return calibrate(family, answers, target, counts)
    fitted = [calibrate(family, one[None], target, counts) for one in answers]
    losses = [log_loss(family, c(one[None]), target, counts) for c, one in zip(fitted, answers, strict=True)]
    best = int(np.argmin(losses))
    return Calibration(torch.eye(2, dtype=torch.float64)[best], fitted[best].bias)


def _is_clearly_better(family: Family, new: Tensor, old: Tensor, target: Tensor) -> bool:
    """Whether predictions have a lower log-loss than others by more than ``CLEAR`` standard errors of the difference."""
    gain = (family.nll(old.double(), target) - family.nll(new.double(), target)).double()
    return bool(gain.mean() > CLEAR * gain.std() / len(gain) ** 0.5)


def _kept(modalities: int, rows: int, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Which modalities rows keep, ``(rows, modalities)``: each combination of a few, or each number of many."""
    if modalities <= MOST:
        for number in range(1, 2**modalities - 1):
            yield np.repeat([[bool(number >> i & 1) for i in range(modalities)]], rows, 0)
        return
    for number in range(1, modalities):
        yield rng.random((rows, modalities)).argsort(1) < number


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Some rows of answers ``(2, rows, outputs)``, or of what has one entry for each row."""
    return x[:, rows] if x.ndim == 3 else x[rows]
