"""The synergy subset: rows that no unimodal model predicts, and the accuracy of fusion models on them over controls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synib.data import Dataset, Split
from synib.measure import Estimate, shuffle_within_class
from synib.own.cell_training import train_each
from synib.own.evidence import Bench
from synib.own.fitting import Outcome, TrainedMethod, predict
from synib.own.metric import Metric
from synib.own.recipe import TableRecipe, fold_of
from synib.training import Cell
from synib.training.device import choose_device
from synib.training.lazy_rows import in_order

LEAST = 10  # rows of the subset, at least


class Subset(NamedTuple):
    """Accuracy on rows where every unimodal model is wrong.

    Args:
        size: Number of these rows.
        accuracy: Fusion method → its accuracy on them.
        control: Fusion method → the accuracy of its control.
        above: Fusion method → the difference.
    """

    size: int
    accuracy: Mapping[str, Estimate]
    control: Mapping[str, Estimate]
    above: Mapping[str, Estimate]


class ShuffledRecipe(TableRecipe):
    """The same rows with each modality shuffled within each class, which removes interactions.

    Validation rows are shuffled too, since the weights of a stack, for example, are fitted on them.
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

    The control of a method is the same method with the same settings, trained on modalities that were shuffled within each
    class. It disagrees with unimodal models as often as the method does, but cannot use interactions.

    Args:
        bench: The tested rows and models.
        fusions: The methods to score.
        device: Device to train the controls on.

    Returns:
        ``None`` if the target is not a class, if the subset has fewer than 10 rows, or if no fusion model is more accurate
        than the most common class, so that correct predictions on the subset could be chance.
    """
    outcome, y = bench.outcome, bench.target
    if outcome.table.kind != "classification":
        return None
    accuracy = Metric(outcome.table, "accuracy")
    above_chance = [
        method
        for method in fusions
        if accuracy.lead(_is_correct(outcome, method, bench, accuracy), accuracy.of_chance(y), bench.group).low > 0
    ]
    unimodal = [_is_correct(outcome, f"unimodal-{name}", bench, accuracy) for name in outcome.table.modalities]
    wrong = np.max(unimodal, 0) == 0
    if wrong.sum() < LEAST or not above_chance:
        return None
    group, folds = None if bench.group is None else bench.group[wrong], len(outcome.parts)
    correct = {method: _is_correct(outcome, method, bench, accuracy)[wrong] for method in fusions}
    shuffled = replace(outcome, methods=controls(outcome, fusions, device))
    chance = {method: _is_correct(shuffled, method, bench, accuracy)[wrong] for method in fusions}
    return Subset(
        int(wrong.sum()),
        {method: accuracy.estimate(correct[method], group, folds) for method in fusions},
        {method: accuracy.estimate(chance[method], group, folds) for method in fusions},
        {method: accuracy.lead(correct[method], chance[method], group) for method in fusions},
    )


def controls(outcome: Outcome, methods: Sequence[str], device: str = "auto") -> dict[str, TrainedMethod]:
    """Methods with their chosen settings, trained on modalities shuffled within each class."""
    recipe = ShuffledRecipe(outcome.table, outcome.parts, outcome.recipe.given_epochs)
    cells = {
        method: [
            Cell("own", method, {"fold": fold}, outcome.methods[method].chosen[fold], seed)
            for fold in range(len(outcome.parts))
            for seed in range(outcome.seeds)
        ]
        for method in methods
    }
    trained = train_each([(recipe, of_method) for of_method in cells.values()], choose_device(device))
    result = {}
    for (method, of_method), models in zip(cells.items(), trained, strict=True):
        predictions = np.full_like(outcome.methods[method].predictions, np.nan)
        for cell in of_method:
            fold = fold_of(cell)
            test = outcome.parts[fold].test
            if len(test):
                predictions[cell.seed, test] = predict(models[cell.id].learner(), recipe.view(fold, test)).numpy()
        result[method] = replace(outcome.methods[method], predictions=predictions)
    return result


def _is_correct(outcome: Outcome, method: str, bench: Bench, accuracy: Metric) -> NDArray[np.float64]:
    """Whether each row is predicted correctly, averaged over seeds."""
    predictions = outcome.methods[method].predictions[:, bench.rows]
    return np.mean([accuracy.scores(eta, bench.target) for eta in predictions], 0)
