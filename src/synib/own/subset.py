"""The synergy subset: rows that no modality tells alone, and what fusions reach there beyond a control."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.data import Dataset
from synib.measure import Estimate, shuffle_within_class
from synib.own.fitting import Outcome, Trained, at_once, fit_shard, predict
from synib.own.interaction import goodness
from synib.own.recipe import Own
from synib.own.verdict import over
from synib.training import Cell
from synib.training.cells import grouped
from synib.training.device import choose_device

Numbers = NDArray[np.float64]
LIKE = "vanilla"  # whose settings the control has
LEAST = 10  # rows; of fewer nothing can be said


class Subset(NamedTuple):
    """What is reached where every single modality is wrong.

    Args:
        size: How many rows these are.
        accuracy: Fusion method, or ``"control"`` → share of them it gets right. Empty for fewer than 10 rows.
        above: Fusion method → how far that is above the control.
    """

    size: int
    accuracy: Mapping[str, Estimate]
    above: Mapping[str, Estimate]


class Mixed(Own):
    """The same rows to train on, with each modality exchanged among rows of one class: together they tell nothing more."""

    def data(self, cell: Cell) -> Dataset:
        found = super().data(cell)
        seen = shuffle_within_class(found.train.modalities, found.train.target, cell.seed)
        return replace(found, train=replace(found.train, modalities=seen))


def subset(
    outcome: Outcome, fusions: Sequence[str], group: NDArray[np.str_] | None, *, device: str = "auto", seed: int = 0
) -> Subset | None:
    """Where unimodal models of every seed are wrong, how often fusions are right; nothing for numbers, which are never right.

    Args:
        outcome: What was trained on the data.
        fusions: The methods to ask.
        group: Of tested rows, where there are enough to resample.
        device: Where to train the control.
        seed: Of resampling.
    """
    table = outcome.recipe.table
    if not table.classes:
        return None
    alone = np.stack([goodness(outcome, f"unimodal-{name}") for name in table.modalities])
    asked = ~np.isnan(alone[0, 0])
    wrong = asked & (np.nan_to_num(alone, nan=1.0) == 0).all((0, 1))
    size = int(wrong.sum())
    if size < LEAST:
        return Subset(size, {}, {})
    there = None if group is None else group[wrong[asked]]
    if there is not None and len(np.unique(there)) < 2:
        there = None
    right = {method: goodness(outcome, method)[:, wrong] for method in fusions}
    right["control"] = goodness(replace(outcome, methods={"control": control(outcome, device)}), "control")[:, wrong]
    return Subset(
        size,
        {method: over(x, np.zeros_like(x), there, seed) for method, x in right.items()},
        {method: over(right[method], right["control"], there, seed) for method in fusions},
    )


def control(outcome: Outcome, device: str = "auto") -> Trained:
    """Vanilla fusion, with the settings that were chosen for it, of modalities that tell nothing together."""
    model = outcome.methods[LIKE]
    recipe, device = Mixed(outcome.recipe.table, outcome.parts, outcome.recipe.given_epochs), choose_device(device)
    cells = [
        Cell("own", LIKE, {"fold": fold}, model.chosen[fold], seed)
        for fold in range(len(outcome.parts))
        for seed in range(outcome.seeds)
    ]
    said = np.full_like(model.predictions, np.nan)
    for shard in grouped(cells, lambda same: at_once(recipe, same, device)):
        for cell, fitted in zip(shard, fit_shard(recipe, shard, device), strict=True):
            fold = int(cell.factors["fold"])  # type: ignore[arg-type]
            test = outcome.parts[fold].test
            if len(test):
                said[cell.seed, test] = predict(fitted.learner(), recipe.split(fold, test)).numpy()
    return replace(model, predictions=said)
