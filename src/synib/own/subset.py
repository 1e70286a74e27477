"""The synergy subset: rows that no modality predicts alone, and the accuracy of fusions there, beyond a control."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from synib.data import Dataset
from synib.measure import Estimate, shuffle_within_class
from synib.own.fitting import Outcome, TrainedMethod, predict, train_cells
from synib.own.recipe import TableRecipe, fold_of
from synib.own.row_scores import Groups, lead, row_scores
from synib.training import Cell
from synib.training.device import choose_device

LIKE = "vanilla"  # whose settings the control has
LEAST = 10  # rows; of fewer nothing can be said


class Subset(NamedTuple):
    """Accuracy where every single modality is wrong.

    Args:
        size: How many rows these are.
        accuracy: Fusion method, or ``"control"`` → share of them it gets right. Empty for fewer than 10 rows.
        above: Fusion method → how far that is above the control.
    """

    size: int
    accuracy: Mapping[str, Estimate]
    above: Mapping[str, Estimate]


class ShuffledRecipe(TableRecipe):
    """The same rows with each modality shuffled within each class, so that there is no cross-modal information to learn."""

    def data(self, cell: Cell) -> Dataset:
        data = super().data(cell)
        shuffled = shuffle_within_class(data.train.modalities, data.train.target, cell.seed)
        return replace(data, train=replace(data.train, modalities=shuffled))


def subset(
    outcome: Outcome, fusions: Sequence[str], group: Groups | None, *, device: str = "auto", seed: int = 0
) -> Subset | None:
    """Where unimodal models of every seed are wrong, how often fusions are right; ``None`` for numbers, which are never right.

    Args:
        outcome: The models trained on the data.
        fusions: The methods to score.
        group: The groups of tested rows, where there are enough to resample.
        device: Where to train the control.
        seed: Seed of the bootstrap.
    """
    table = outcome.table
    if not table.classes:
        return None
    unimodal = np.stack([row_scores(outcome, f"unimodal-{name}") for name in table.modalities])
    tested = ~np.isnan(unimodal[0, 0])
    wrong = tested & (np.nan_to_num(unimodal, nan=1.0) == 0).all((0, 1))
    size = int(wrong.sum())
    if size < LEAST:
        return Subset(size, {}, {})
    of_subset = None if group is None else group[wrong[tested]]
    if of_subset is not None and len(np.unique(of_subset)) < 2:
        of_subset = None
    right = {method: row_scores(outcome, method)[:, wrong] for method in fusions}
    with_control = replace(outcome, methods={"control": control(outcome, device)})
    right["control"] = row_scores(with_control, "control")[:, wrong]
    return Subset(
        size,
        {method: lead(x, np.zeros_like(x), of_subset, seed) for method, x in right.items()},
        {method: lead(right[method], right["control"], of_subset, seed) for method in fusions},
    )


def control(outcome: Outcome, device: str = "auto") -> TrainedMethod:
    """Vanilla fusion, with the settings that were chosen for it, of modalities shuffled within each class."""
    model = outcome.methods[LIKE]
    recipe = ShuffledRecipe(outcome.table, outcome.parts, outcome.recipe.given_epochs)
    cells = [
        Cell("own", LIKE, {"fold": fold}, model.chosen[fold], seed)
        for fold in range(len(outcome.parts))
        for seed in range(outcome.seeds)
    ]
    trained = train_cells(recipe, cells, choose_device(device))
    predictions = np.full_like(model.predictions, np.nan)
    for cell in cells:
        fold = fold_of(cell)
        test = outcome.parts[fold].test
        if len(test):
            predictions[cell.seed, test] = predict(trained[cell.id].learner(), recipe.split(fold, test)).numpy()
    return replace(model, predictions=predictions)
