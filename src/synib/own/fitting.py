"""Training on a user's rows: each method over folds, candidates and seeds; choices use validation rows only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole, shown
from synib.data import Split
from synib.measure.stats import tempered
from synib.methods import Experts, check_method
from synib.objective import Family
from synib.own.cell_training import ROWS, Programs, TrainedCell, cost_of_epoch, merged, submitted
from synib.own.folds import Fold
from synib.own.recipe import TableRecipe
from synib.own.search_space import candidates
from synib.own.sharing import ShardPool
from synib.own.table import Table
from synib.tokens import take
from synib.training import Cell, Learner
from synib.training.device import choose_device

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class TrainedMethod:
    """The models of one method, and their predictions.

    Args:
        predictions: The family's parameters for every row, by models that were not trained on it,
            ``(seeds, rows, outputs)``: logits, or mean and log-variance of a number. NaN for rows that are never tested.
        validation: For each fold the predictions for its validation rows, on which settings and temperature were chosen.
        chosen: For each fold the settings of the candidate with the lowest validation log-loss, averaged over seeds.
        losses: That log-loss, in nats and after the temperature, of every candidate in every fold, ``(folds, candidates)``.
        temperature: The factor that divides the logits (multiplies a number's standard deviation) and minimises the
            validation log-loss, ``(seeds, folds)``.
        learners: For each fold and seed the trained model of the chosen candidate with its method, in evaluation mode.
    """

    predictions: Numbers
    validation: list[Numbers]
    chosen: list[dict[str, Any]]
    losses: Numbers
    temperature: Numbers
    learners: list[list[Learner]]


@dataclass(frozen=True)
class Outcome:
    """The result of :func:`train`.

    Args:
        recipe: The recipe that prepares rows and settings; its ``parts`` are the folds used in training.
        methods: Method → its models and predictions.
        budget: How many candidates every method had, in every fold.
        seeds: How many models every candidate had, from different initial weights.
    """

    recipe: TableRecipe
    methods: Mapping[str, TrainedMethod]
    budget: int
    seeds: int

    @property
    def table(self) -> Table:
        return self.recipe.table

    @property
    def family(self) -> Family:
        return self.recipe.family

    @property
    def parts(self) -> list[Fold]:
        """The folds used in training."""
        return self.recipe.parts

    def calibrated(self, method: str) -> Numbers:
        """A method's predictions after temperature scaling, as logits (or mean and log-variance of a number)."""
        trained = self.methods[method]
        result = trained.predictions.copy()
        for i, fold in enumerate(self.parts):
            result[:, fold.test] = tempered(self.family, result[:, fold.test], trained.temperature[:, i, None, None])
        return result

    def __str__(self) -> str:
        models = len(self.parts) * self.budget * self.seeds * len(self.methods)
        return (
            f"{len(self.methods)} methods, {self.budget} candidates for each in each of {len(self.parts)} folds, {self.seeds} "
            f"seed{'s' * (self.seeds != 1)}: {models:,} models. Candidates were chosen by validation log-loss after "
            "temperature scaling; test rows were predicted once, by the chosen models."
        )


def train(
    table: Table,
    parts: Sequence[Fold],
    methods: Sequence[str],
    *,
    seeds: int = 1,
    seed: int = 0,
    budget: int = 6,
    epochs: int | None = None,
    device: str = "auto",
    together: int | None = None,
    on_progress: Callable[[float, float], None] = lambda done, total: None,
) -> Outcome:
    """Train methods on every fold, with the same number of candidates each, and predict the test rows.

    Test rows are not used for scaling, training or model selection.

    Args:
        table: The data.
        parts: Its folds, as :func:`synib.own.folds.folds` makes them.
        methods: Names of methods, such as :func:`synib.own.search_space.methods_of` lists.
        seeds: Models from different initial weights for each candidate.
        seed: The first of them.
        budget: Candidates for each method in each fold.
        epochs: Passes over the training rows; see :class:`TableRecipe` for the default.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        together: How many models to train at once; by default what the memory holds, 24 on a CPU.
        on_progress: Called with the work done and the total work, in the same unit; on a GPU from other threads, one at
            a time.
    """
    check_whole("seeds", seeds)
    check_whole("seed", seed, None)
    methods = _checked_methods(methods, table)
    device = choose_device(device)
    recipe = TableRecipe(table, parts, epochs)
    cells = {method: recipe.cells(method, budget, seeds, seed) for method in methods}
    costs = {method: cost_of_epoch(recipe, method_cells[0]) for method, method_cells in cells.items()}
    total = sum(
        costs[method] * cell.settings["epochs"] for method, method_cells in cells.items() for cell in method_cells
    )
    done = 0.0
    on_progress(done, total)

    def after_epoch(shard: Sequence[Cell]) -> None:
        nonlocal done
        done += costs[shard[0].method] * len(shard)
        on_progress(done, total)

    def best(method: str, programs: Programs) -> TrainedMethod:
        by_cell = merged(programs)
        chosen_among = [by_cell[cell.id] for cell in cells[method]]
        return _best(recipe, method, chosen_among, candidates(method, budget, recipe.table.kind), seeds)

    with ShardPool(device) as pool:
        # Several threads begin with the longest shards, so that all end at about the same time.
        order = sorted(methods, key=lambda method: -costs[method]) if pool.count > 1 else methods
        programs = {method: submitted(recipe, cells[method], pool, device, together, after_epoch) for method in order}
        # Models that are not chosen are freed before the next method.
        trained = {method: best(method, programs.pop(method)) for method in order}
    outcome = Outcome(recipe, {method: trained[method] for method in methods}, budget, seeds)
    recipe.release()
    return outcome


def predict(learner: Learner, split: Split) -> Tensor:
    """A trained learner's predictions in double precision, computed in blocks of rows."""
    learner.eval()
    used = {name: x for name, x in split.modalities.items() if learner.method.uses(name)}
    with torch.no_grad():
        pieces = [
            learner.method.predict(learner.model, {name: take(x, slice(at, at + ROWS)) for name, x in used.items()})
            for at in range(0, len(split), ROWS)
        ]
    return torch.cat([piece.reshape(len(piece), -1).double() for piece in pieces])


def answers_of(learner: Learner, split: Split) -> Tensor:
    """Predictions of a trained learner, or of each of its experts before weighting, ``(experts, rows, outputs)``."""
    method = learner.method
    if not isinstance(method, Experts):
        return predict(learner, split)[None]
    learner.eval()
    with torch.no_grad():
        pieces = [
            method.answers(learner.model, {name: take(x, slice(at, at + ROWS)) for name, x in split.modalities.items()})
            for at in range(0, len(split), ROWS)
        ]
    return torch.cat(pieces, 1).double()


def expert_scales(learner: Learner, split: Split) -> Tensor:
    """The root mean square of each expert's predictions for these rows, ``(experts,)``; 1 for any other learner.

    Equally accurate experts of different folds can differ in confidence; dividing by this makes them comparable.
    """
    if not isinstance(learner.method, Experts):
        return torch.ones(1, dtype=torch.float64)
    return answers_of(learner, split).square().mean((1, 2)).sqrt().clamp(min=1e-12)


def _best(
    recipe: TableRecipe, method: str, cells: Sequence[TrainedCell], tried: Sequence[dict[str, float]], seeds: int
) -> TrainedMethod:
    """The best candidate of each fold, and its predictions for the test rows."""
    parts = recipe.parts
    losses = np.array([cell.loss for cell in cells]).reshape(len(parts), len(tried), seeds).mean(2)
    best = losses.argmin(1)
    predictions = np.full((seeds, len(recipe.table.target), recipe.outputs), np.nan)
    validation, learners, temperatures = [], [], np.empty((seeds, len(parts)))
    for i, fold in enumerate(parts):
        first = (i * len(tried) + int(best[i])) * seeds
        of_fold, scaling, test = cells[first : first + seeds], recipe.scaling(i), recipe.view(i, fold.test)
        learners.append([cell.learner().eval() for cell in of_fold])
        for seed, cell in enumerate(of_fold):
            temperatures[seed, i] = cell.temperature
            if len(test):
                predicted = predict(learners[i][seed], test).numpy()
                predictions[seed, fold.test] = scaling.undo(recipe.family, predicted)
        validation.append(np.stack([scaling.undo(recipe.family, cell.validation.numpy()) for cell in of_fold]))
    chosen = [recipe.settings(method, tried[int(b)], i) for i, b in enumerate(best)]
    return TrainedMethod(predictions, validation, chosen, losses, temperatures, learners)


def _checked_methods(methods: Sequence[str], table: Table) -> list[str]:
    if isinstance(methods, str) or not methods:
        raise ValueError(f"methods must be a list of names, such as ['vanilla', 'experts']; got {shown(methods)}.")
    for method in methods:
        check_method(method)
        modality = method.removeprefix("unimodal-")
        if modality != method and modality not in table.modalities:
            raise ValueError(
                f"There is no modality {modality!r} to train on; the modalities are {', '.join(table.modalities)}."
            )
    return list(dict.fromkeys(methods))
