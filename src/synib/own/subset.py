"""The synergy subset: rows that no modality predicts alone, and the accuracy of fusions there, beyond their controls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synib.data import Dataset, Split
from synib.measure import Estimate, shuffle_within_class
from synib.own.evidence import Bench
from synib.own.fitting import Outcome, TrainedMethod, predict, train_cells
from synib.own.metric import Metric
from synib.own.recipe import TableRecipe, fold_of
from synib.training import Cell
from synib.training.device import choose_device
from synib.training.lazy_rows import in_order

LEAST = 10  # rows; of fewer nothing can be said


class Subset(NamedTuple):
    """Accuracy where every single modality is wrong.

    Args:
        size: How many rows these are.
        accuracy: Fusion method → share of them it gets right.
        control: Fusion method → the same of its control.
        above: Fusion method → how far it is above its control.
    """

    size: int
    accuracy: Mapping[str, Estimate]
    control: Mapping[str, Estimate]
    above: Mapping[str, Estimate]


class ShuffledRecipe(TableRecipe):
    """The same rows with each modality shuffled within each class, so that there is no cross-modal information to learn.

    Validation rows are shuffled as well: what is fitted on them, such as the weights of a stack, must not see real pairs.
    """

    def data(self, cell: Cell) -> Dataset:
        data = super().data(cell)
        return replace(data, train=_shuffled(data.train, cell.seed), validation=_shuffled(data.validation, cell.seed))


def _shuffled(split: Split, seed: int) -> Split:
    numbers = torch.arange(len(split))
    order = shuffle_within_class(dict.fromkeys(split.modalities, numbers), split.target, seed)
    return replace(split, modalities={name: in_order(x, order[name]) for name, x in split.modalities.items()})


def subset(bench: Bench, fusions: Sequence[str], *, device: str = "auto") -> Subset | None:
    """The accuracy of fusion models on rows where the unimodal models of every seed are wrong, compared with controls.

    The control of a method is the same method with the same settings and the same fits, of modalities that were exchanged
    within each class: it disagrees with unimodal models as the method does, and knows nothing of interactions.

    ``None`` if the target is not a class, if the subset has fewer than 10 rows, or if no fusion is more accurate than
    the most common class, in which case a correct prediction here is chance.

    Args:
        bench: The tested rows and models.
        fusions: The methods to score.
        device: Where to train the controls.
    """
    outcome, y = bench.outcome, bench.target
    if outcome.table.kind != "classification":
        return None
    accuracy = Metric(outcome.table, "accuracy")
    above_chance = [
        method
        for method in fusions
        if accuracy.lead(_right(outcome, method, bench, accuracy), accuracy.of_chance(y), bench.group).low > 0
    ]
    unimodal = [_right(outcome, f"unimodal-{name}", bench, accuracy) for name in outcome.table.modalities]
    wrong = np.max(unimodal, 0) == 0
    if wrong.sum() < LEAST or not above_chance:
        return None
    group, folds = None if bench.group is None else bench.group[wrong], len(outcome.parts)
    right = {method: _right(outcome, method, bench, accuracy)[wrong] for method in fusions}
    chance = {}
    for method in fusions:
        shuffled = replace(outcome, methods={method: control(outcome, method, device)})
        chance[method] = _right(shuffled, method, bench, accuracy)[wrong]
    return Subset(
        int(wrong.sum()),
        {method: accuracy.estimate(right[method], group, folds) for method in fusions},
        {method: accuracy.estimate(chance[method], group, folds) for method in fusions},
        {method: accuracy.lead(right[method], chance[method], group) for method in fusions},
    )


def control(outcome: Outcome, method: str, device: str = "auto") -> TrainedMethod:
    """A method with the settings that were chosen for it, trained on modalities shuffled within each class."""
    model = outcome.methods[method]
    recipe = ShuffledRecipe(outcome.table, outcome.parts, outcome.recipe.given_epochs)
    cells = [
        Cell("own", method, {"fold": fold}, model.chosen[fold], seed)
        for fold in range(len(outcome.parts))
        for seed in range(outcome.seeds)
    ]
    trained = train_cells(recipe, cells, choose_device(device))
    predictions = np.full_like(model.predictions, np.nan)
    for cell in cells:
        fold = fold_of(cell)
        test = outcome.parts[fold].test
        if len(test):
            predictions[cell.seed, test] = predict(trained[cell.id].learner(), recipe.view(fold, test)).numpy()
    return replace(model, predictions=predictions)


def _right(outcome: Outcome, method: str, bench: Bench, accuracy: Metric) -> NDArray[np.float64]:
    """Whether each row is predicted right, averaged over seeds."""
    predictions = outcome.methods[method].predictions[:, bench.rows]
    return np.mean([accuracy.scores(eta, bench.target) for eta in predictions], 0)
