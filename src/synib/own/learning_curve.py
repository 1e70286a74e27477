"""Whether plain fusion is trained to convergence: the same model with more epochs, more width, or fewer rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from synib.measure.stats import Estimate, mean, tempered
from synib.own.cell_training import TrainedCell, train_each
from synib.own.fitting import Outcome
from synib.own.folds import Fold
from synib.own.recipe import TableRecipe
from synib.training import Cell
from synib.training.device import choose_device

WORTH = 0.01  # nats: a smaller improvement does not matter
METHOD = "vanilla"


class LearningCurve(NamedTuple):
    """How the validation log-loss of plain fusion changes, in nats; above 0 the change makes it worse.

    Args:
        epochs: With twice the epochs.
        width: With layers twice as wide.
        rows: With half of the training rows.
    """

    epochs: Estimate
    width: Estimate
    rows: Estimate

    @property
    def adequate(self) -> bool:
        """Whether neither longer training nor a wider network lowers the log-loss by much."""
        return not any(change.high < 0 and change.value < -WORTH for change in (self.epochs, self.width))

    def sentence(self) -> str:
        """The conclusion for plain fusion."""
        if self.adequate:
            return "Plain fusion shows no sign of undertraining: neither twice the epochs nor twice the width clearly helps."
        which, change = min((("epochs", self.epochs), ("width", self.width)), key=lambda item: item[1].value)
        return (
            f"Plain fusion is not trained to convergence: twice the {which} lowers its validation log-loss by "
            f"{-change.value:.3f} nats, so its gap to other models is not interpreted."
        )


def learning_curve(outcome: Outcome, device: str = "auto") -> LearningCurve:
    """Train plain fusion with its chosen settings, changed in one respect each, and compare on validation rows.

    Args:
        outcome: The trained models.
        device: Device to train on.
    """
    half = [Fold(_half(fold.train, i), fold.validation, fold.test) for i, fold in enumerate(outcome.parts)]
    recipes = {"same": outcome.recipe, "rows": TableRecipe(outcome.table, half, outcome.recipe.given_epochs)}
    work = {
        name: _work(recipes.get(name, outcome.recipe), outcome, name) for name in ("same", "epochs", "width", "rows")
    }
    trained = train_each(list(work.values()), choose_device(device))
    losses = {
        name: np.concatenate([_row_losses(recipe, cell, models[cell.id]) for cell in cells])
        for (name, (recipe, cells)), models in zip(work.items(), trained, strict=True)
    }
    group = outcome.table.group
    rows = np.concatenate([fold.validation for fold in outcome.parts])
    dependent = rows if group is None else group[rows]  # a row may be a validation row of several folds
    return LearningCurve(*(mean(losses[name] - losses["same"], dependent) for name in ("epochs", "width", "rows")))


def _work(recipe: TableRecipe, outcome: Outcome, change: str) -> tuple[TableRecipe, list[Cell]]:
    """The recipe and cells of plain fusion with one change, one cell for each fold."""
    cells = []
    for fold, chosen in enumerate(outcome.methods[METHOD].chosen):
        settings = dict(chosen)
        if change == "epochs":
            settings["epochs"] = 2 * settings["epochs"]
        if change == "width":
            settings["hidden"] = [2 * width for width in settings["hidden"]]
        if change == "rows":
            settings["rows"] = [len(recipe.parts[fold].train), len(recipe.parts[fold].validation)]
            settings["epochs"] = 2 * settings["epochs"]  # for the same number of steps
        cells.append(Cell("own", METHOD, {"fold": fold}, settings, 0))
    return recipe, cells


def _row_losses(recipe: TableRecipe, cell: Cell, trained: TrainedCell) -> NDArray[np.float64]:
    """The validation log-loss of each row, after the temperature."""
    calibrated = torch.from_numpy(tempered(recipe.family, trained.validation.numpy(), trained.temperature))
    losses = recipe.family.nll(calibrated, recipe.data(cell).validation.target)
    return np.asarray(losses.reshape(len(calibrated), -1).sum(1).numpy())


def _half(rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).permutation(rows)[: max(2, len(rows) // 2)])


def changes(curve: LearningCurve) -> Sequence[tuple[str, Estimate]]:
    """Each change with its effect, for a table."""
    return [("twice the epochs", curve.epochs), ("twice the width", curve.width), ("half of the rows", curve.rows)]
