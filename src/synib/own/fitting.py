"""Training on a user's own rows: every method over folds, candidates and seeds at once, choices on validation rows alone."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole, shown
from synib.data import Split
from synib.measure.stats import temperature, tempered
from synib.methods import check_method
from synib.objective import Family
from synib.own.folds import Fold
from synib.own.recipe import Own, candidates
from synib.own.table import Table
from synib.tokens import take
from synib.training import Cell, Learner, fleet
from synib.training.cells import grouped
from synib.training.device import choose_device

Numbers = NDArray[np.float64]
ROWS = 4096  # predicted at a time
HELD = 1 << 32  # bytes of rows that models trained together may take on a CPU, which holds a copy for each
SHARED = 128  # width of layers from which on several threads share a matrix product


@dataclass(frozen=True)
class Trained:
    """What training one method gave.

    Args:
        predictions: The family's parameters for every row, from models that never saw it, ``(seeds, rows, outputs)``:
            logits; of a number its mean and log-variance. NaN for rows that are in no test part.
        validation: For each fold the same of its validation rows, on which settings and temperature were chosen.
        chosen: For each fold the settings of the candidate with the lowest validation log-loss, averaged over seeds.
        losses: That log-loss, in nats and after the temperature, of every candidate in every fold, ``(folds, candidates)``.
        temperature: What divides the logits (multiplies a number's standard deviation) so that the validation rows' log-loss is
            least, ``(seeds, folds)``.
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
    """What :func:`train` gave.

    Args:
        recipe: How rows become what models see; its ``parts`` are the folds as they were trained.
        methods: Method → what came of it.
        budget: How many candidates every method had, in every fold.
        seeds: How many models every candidate had, from different initial weights.
    """

    recipe: Own
    methods: Mapping[str, Trained]
    budget: int
    seeds: int

    @property
    def family(self) -> Family:
        return self.recipe.family

    @property
    def parts(self) -> list[Fold]:
        """The folds as they were trained."""
        return self.recipe.parts

    def calibrated(self, method: str) -> Numbers:
        """A method's predictions after each model's temperature, as logits (of a number: mean and log-variance)."""
        found = self.methods[method]
        made = found.predictions.copy()
        for i, fold in enumerate(self.parts):
            made[:, fold.test] = tempered(self.family, made[:, fold.test], found.temperature[:, i, None, None])
        return made

    def __str__(self) -> str:
        many = len(self.parts) * self.budget * self.seeds * len(self.methods)
        return (
            f"{len(self.methods)} methods, {self.budget} candidates for each in each of {len(self.parts)} folds, {self.seeds} "
            f"seed{'s' * (self.seeds != 1)}: {many:,} models. Chosen by validation log-loss after one temperature; test rows "
            "were predicted once, by what was chosen."
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
    on_progress: Callable[[float, float], None] = lambda done, of: None,
) -> Outcome:
    """Train methods on every fold, with an equal number of candidates each, and predict the test rows.

    Nothing but the predictions of test rows depends on test rows: they are not scaled by, trained on or chosen on.

    Args:
        table: The data.
        parts: Its folds, as :func:`synib.own.folds.folds` makes them.
        methods: Names of methods, such as :func:`synib.own.recipe.methods_of` lists.
        seeds: Models from different initial weights for each candidate.
        seed: The first of them.
        budget: Candidates for each method in each fold.
        epochs: Passes over the training rows; by default what :class:`Own` says.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        together: How many models to train at once; by default what the memory holds, 24 on a CPU.
        on_progress: Called with what is done and what there is to do, in the same unit.
    """
    check_whole("seeds", seeds)
    check_whole("seed", seed, None)
    methods = _checked(methods, table)
    device = choose_device(device)
    recipe = Own(table, parts, epochs)
    cells = {method: recipe.cells(method, budget, seeds, seed) for method in methods}
    costs = {method: _cost(recipe, mine[0]) for method, mine in cells.items()}
    total = sum(costs[method] * cell.settings["epochs"] for method, mine in cells.items() for cell in mine)
    done = 0.0
    on_progress(done, total)

    def trained(shard: Sequence[Cell]) -> "list[Fitted]":
        def on_epoch() -> None:
            nonlocal done
            done += costs[shard[0].method] * len(shard)
            on_progress(done, total)

        return fit_shard(recipe, shard, device, on_epoch)

    found = {}
    for method, mine in cells.items():
        fitted: dict[str, Fitted] = {}
        for shard in grouped(mine, lambda same: at_once(recipe, same, device, together)):
            fitted |= zip((cell.id for cell in shard), trained(shard), strict=True)
        order = [fitted[cell.id] for cell in mine]
        found[method] = _chosen(recipe, method, order, candidates(method, budget), seeds)
    return Outcome(recipe, found, budget, seeds)


def log_loss(family: Family, said: NDArray[Any] | Tensor, target: NDArray[Any] | Tensor) -> float:
    """Mean negative log-likelihood, in nats."""
    return float(family.nll(torch.as_tensor(said).double(), torch.as_tensor(target)).mean())


def predict(learner: Learner, split: Split) -> Tensor:
    """What a trained learner says of some rows, a few at a time, in double precision."""
    learner.eval()
    with torch.no_grad():
        pieces = [
            learner.method.predict(
                learner.model, {name: take(x, slice(at, at + ROWS)) for name, x in split.modalities.items()}
            )
            for at in range(0, len(split), ROWS)
        ]
    return torch.cat([piece.reshape(len(piece), -1).double() for piece in pieces])


@dataclass(frozen=True)
class Fitted:
    """A trained cell: what makes its learner, what that says of its validation rows, its temperature, its log-loss after it."""

    learner: Callable[[], Learner]
    validation: Tensor
    temperature: float
    loss: float


def fit_shard(
    recipe: Own, shard: Sequence[Cell], device: str, on_epoch: Callable[[], None] = lambda: None
) -> list[Fitted]:
    """Train cells together, and say how good each is on its validation rows."""
    with _threads(device, recipe.width):
        done = fleet.train(recipe, shard, device, on_epoch)
    splits = [recipe.data(cell).validation for cell in shard]
    said = _validation(done.fleet, splits).cpu()
    if not said.isfinite().all():
        bad = shard[int((~said.isfinite().flatten(1).all(1)).nonzero()[0])]
        raise ValueError(
            f"Training {bad.method} at lr {bad.settings['lr']:g} ended in predictions that are not finite: are some values "
            "very far from the others?"
        )
    done.fleet.retire()
    fitted = []
    for i, (one, split) in enumerate(zip(said, splits, strict=True)):
        by = temperature(one, split.target, recipe.family, pseudocount=1.0)
        loss = log_loss(recipe.family, tempered(recipe.family, one.numpy(), by), split.target)
        fitted.append(Fitted(partial(done.fleet.learner, i), one, by, loss))
    return fitted


@contextlib.contextmanager
def _threads(device: str, width: int) -> Iterator[None]:
    """One thread where matrices are small: a second brings nothing, and on a busy machine they wait for each other."""
    before = torch.get_num_threads()
    if device == "cpu" and width < SHARED:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _validation(trained: fleet.Fleet, splits: Sequence[Split]) -> Tensor:
    """What every model of a fleet says of its validation rows, ``(models, rows, outputs)``."""
    trained.template.eval()
    stacked = trained.stack(splits)
    pieces = []
    with torch.no_grad():
        for at in range(0, stacked.target.shape[1], ROWS):
            rows = (slice(None), slice(at, at + ROWS))
            seen = {name: take(x, rows) for name, x in stacked.modalities.items()}
            pieces.append(trained.predict(trained.parameters, trained.buffers, seen).flatten(2).double())
    return torch.cat(pieces, 1)


def _chosen(
    recipe: Own, method: str, fitted: Sequence[Fitted], tried: Sequence[dict[str, float]], seeds: int
) -> Trained:
    """The best candidate of each fold, and what it says of the rows that it was not trained or chosen on."""
    parts = recipe.parts
    losses = np.array([one.loss for one in fitted]).reshape(len(parts), len(tried), seeds).mean(2)
    best = losses.argmin(1)
    predictions = np.full((seeds, len(recipe.table.target), recipe.outputs), np.nan)
    validation, learners, temperatures = [], [], np.empty((seeds, len(parts)))
    for i, fold in enumerate(parts):
        at = (i * len(tried) + int(best[i])) * seeds
        mine, scaling, test = fitted[at : at + seeds], recipe.scaling(i), recipe.split(i, fold.test)
        learners.append([one.learner().eval() for one in mine])
        for seed, one in enumerate(mine):
            temperatures[seed, i] = one.temperature
            if len(test):
                said = predict(learners[i][seed], test).numpy()
                predictions[seed, fold.test] = scaling.parameters(recipe.family, said)
        validation.append(np.stack([scaling.parameters(recipe.family, one.validation.numpy()) for one in mine]))
    chosen = [recipe.settings(method, tried[int(b)], i) for i, b in enumerate(best)]
    return Trained(predictions, validation, chosen, losses, temperatures, learners)


def at_once(recipe: Own, cells: Sequence[Cell], device: str, together: int | None = None) -> int:
    """How many cells of one program to train together: so many as are asked for, or as the memory holds."""
    if together is not None:
        return check_whole("together", together)
    if device.startswith("cuda"):
        return fleet.capacity(recipe, cells, device, "float32")
    each = max(recipe.bytes(int(cell.factors["fold"])) for cell in cells)  # type: ignore[arg-type]
    return max(1, min(fleet.ON_CPU, HELD // (3 * each)))  # as stacked, in the order of an epoch, and prepared


def _cost(recipe: Own, cell: Cell) -> float:
    return recipe.method(cell, recipe.data(cell)).cost


def _checked(methods: Sequence[str], table: Table) -> list[str]:
    if isinstance(methods, str) or not methods:
        raise ValueError(f"methods are one or more names, such as ['vanilla', 'experts']; got {shown(methods)}.")
    for method in methods:
        check_method(method)
        alone = method.removeprefix("unimodal-")
        if alone != method and alone not in table.modalities:
            raise ValueError(f"There is no modality {alone!r} to train alone: there are {', '.join(table.modalities)}.")
    return list(dict.fromkeys(methods))
