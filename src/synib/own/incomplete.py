"""Train the second model of a predictor, for rows that lack modalities, and combine it with the chosen one.

The chosen model averages over training values of the missing modalities, independently of the modalities that a row has. If
modalities are redundant, this is a poor approximation: five views of other examples outvote the one that the row has. A model
trained with modality dropout does not need such values. Which is better depends on the data, so the log-odds of both are
combined with weights fitted to held-out rows, if the combination is clearly better there than the chosen model alone.
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
from synib.own.cell_training import log_loss, train_cells
from synib.own.crossfit import CLEAR, Calibration, calibrate
from synib.own.folds import Fold, Rows, held_out
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe
from synib.own.scaling import Scaling
from synib.own.search_space import SECOND
from synib.own.second import MOST, SecondModel, group_of, groups
from synib.own.table import Table
from synib.training import Cell

ROWS = 1500  # rows, at most, to which the weights of a group are fitted
FEW = 20  # with fewer rows of a group, the chosen model predicts alone


class TrainedPart(NamedTuple):
    """A model trained on a part of the rows.

    Args:
        table: The data.
        model: The model.
        train: The rows that it was trained on.
        test: Rows that it was not trained on.
    """

    table: Table
    model: Predictor
    train: Rows
    test: Rows


class HeldOutAnswers(NamedTuple):
    """The predictions of both models for held-out rows that lack modalities.

    Args:
        group: The group of each row, by the modalities that it has.
        answers: The parameters of both models, ``(2, rows, outputs)``.
        target: The targets.
        counts: Weight of each row.
    """

    group: Tensor
    answers: Tensor
    target: Tensor
    counts: Tensor


@dataclass(frozen=True)
class SecondTrainer:
    """Trains models with modality dropout.

    Args:
        epochs, width: Passes over the training rows and width of hidden layers; the defaults are those of other models.
        seed: Seed for training, and for the rows and modalities that are dropped.
        device: ``"cpu"`` or ``"cuda"``.
        after_epoch: Called after each epoch.
    """

    epochs: int | None = None
    width: int | None = None
    seed: int = 0
    device: str = "cpu"
    after_epoch: Callable[[Sequence[Cell]], None] = lambda shard: None

    def complete(self, parts: Sequence[TrainedPart], last: TrainedPart) -> Predictor:
        """Add a second model to the last model, weighted on the test rows of the parts.

        Args:
            parts: Models trained like the last one, each on other rows of the same table.
            last: The model to complete.
        """
        model = last.model
        seconds = self.train(parts)
        pieces = [p for part, second in zip(parts, seconds, strict=True) for p in self._held_out(part, second)]
        weights = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(groups(len(model.widths)), 1)
        bias = torch.zeros(len(weights), model.outputs, dtype=torch.float64)
        for number in range(1, len(weights) - 1):
            in_group = [p for p in pieces if (p.group == number).any()]
            if sum(int((p.group == number).sum()) for p in in_group) >= FEW:
                group_answers = [HeldOutAnswers(*(_take(x, p.group == number) for x in p)) for p in in_group]
                answers = torch.cat([p.answers for p in group_answers], 1)
                target, counts = (torch.cat([getattr(p, name) for p in group_answers]) for name in ("target", "counts"))
                fitted = weigh(model.family, answers, target, counts)
                if _is_clearly_better(model.family, fitted(answers), answers[0], target):
                    weights[number], bias[number] = fitted.weights, fitted.bias
        second = seconds[0] if len(parts) == 1 and np.array_equal(parts[0].train, last.train) else self.train([last])[0]
        return replace(model, second=replace(second, weights=weights, bias=bias))

    def train(self, parts: Sequence[TrainedPart]) -> list[SecondModel]:
        """A second model for each part of one table, without weights."""
        table = parts[0].table
        # A recipe needs validation rows, but nothing is chosen on these.
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
        for keep in _kept_modalities(len(names), len(part.test), rng):
            present = np.stack([table.present[name][part.test] for name in names], 1) & keep
            incomplete = np.flatnonzero(present.any(1) & ~present.all(1))
            incomplete = np.sort(rng.choice(incomplete, ROWS, replace=False)) if len(incomplete) > ROWS else incomplete
            if not len(incomplete):
                continue
            rows = part.test[incomplete]
            x = {name: np.asarray(table.modalities[name][rows]) for name in names}
            has = {name: torch.from_numpy(present[incomplete, i]) for i, name in enumerate(names)}
            first_prediction = model.averaged(x, {name: rows.numpy() for name, rows in has.items()})
            with torch.no_grad():
                second_prediction = second.parameters(second.encode(model.scaled(x)), has)
            second_prediction = torch.from_numpy(model.scaling.undo(model.family, second_prediction.numpy()))
            counts = torch.ones(len(rows)) if table.weight is None else torch.as_tensor(table.weight[rows])
            target = torch.as_tensor(table.target[rows])
            yield HeldOutAnswers(
                group_of(list(has.values())),
                torch.stack([first_prediction, second_prediction]),
                target,
                counts.double(),
            )


class OptionalRecipe(TableRecipe):
    """Recipe for rows of which any modality may be missing, with the scaling of another model."""

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
    """The weights of two models, fitted to rows that neither was trained on; for a Gaussian only the better one is used.

    Args:
        family: The predictive distribution.
        answers: The predictions of both, ``(2, rows, outputs)``.
        target: The targets.
        counts: Weight of each row.
    """
    if not isinstance(family, Gaussian):
        return calibrate(family, answers, target, counts)
    fitted = [calibrate(family, answer[None], target, counts) for answer in answers]
    losses = [log_loss(family, c(answer[None]), target, counts) for c, answer in zip(fitted, answers, strict=True)]
    best = int(np.argmin(losses))
    return Calibration(torch.eye(2, dtype=torch.float64)[best], fitted[best].bias)


def _is_clearly_better(family: Family, new: Tensor, old: Tensor, target: Tensor) -> bool:
    """Whether the log-loss is lower by more than ``CLEAR`` standard errors of the difference."""
    gain = (family.nll(old.double(), target) - family.nll(new.double(), target)).double()
    return bool(gain.mean() > CLEAR * gain.std() / len(gain) ** 0.5)


def _kept_modalities(modalities: int, rows: int, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Masks of kept modalities, ``(rows, modalities)``: every combination of few modalities, or every number of many."""
    if modalities <= MOST:
        for number in range(1, 2**modalities - 1):
            yield np.repeat([[bool(number >> i & 1) for i in range(modalities)]], rows, 0)
        return
    for number in range(1, modalities):
        yield rng.random((rows, modalities)).argsort(1) < number


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Select rows of predictions ``(2, rows, outputs)``, or of a tensor with one entry per row."""
    return x[:, rows] if x.ndim == 3 else x[rows]
