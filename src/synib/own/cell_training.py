"""Training cells of a user's rows, several sets of them at the same time where a GPU has memory for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data import Split
from synib.measure.stats import temperature, tempered
from synib.objective import Family
from synib.own.recipe import TableRecipe
from synib.own.sharing import ShardPool, at_once, most_bytes, threads
from synib.tokens import take
from synib.training import Cell, Learner, fleet
from synib.training.cells import cost, cut, grouped
from synib.training.stacked import StackedModels

ROWS = 4096  # rows predicted at a time
AfterEpoch = Callable[[Sequence[Cell]], None]


@dataclass(frozen=True)
class TrainedCell:
    """A trained cell: a function that returns its learner, its validation predictions, temperature and calibrated log-loss."""

    learner: Callable[[], Learner]
    validation: Tensor
    temperature: float
    loss: float


Programs = Sequence[Callable[[], dict[str, TrainedCell]]]  # for each a function that returns its trained cells by id


def train_cells(
    recipe: TableRecipe,
    cells: Sequence[Cell],
    device: str,
    together: int | None = None,
    after_epoch: AfterEpoch = lambda shard: None,
) -> dict[str, TrainedCell]:
    """Train cells, as many together as the memory allows; returns cell id → the trained cell."""
    with ShardPool(device) as pool:
        return merged(submitted(recipe, cells, pool, device, together, after_epoch))


def train_each(work: Sequence[tuple[TableRecipe, Sequence[Cell]]], device: str) -> Iterator[dict[str, TrainedCell]]:
    """Train several sets of cells, each with its recipe; for each set a dictionary as :func:`train_cells` returns it.

    The models of a set can be freed before those of the next are needed.
    """
    with ShardPool(device) as pool:
        waiting = [submitted(recipe, cells, pool, device) for recipe, cells in work]
        while waiting:
            yield merged(waiting.pop(0))


def submitted(
    recipe: TableRecipe,
    cells: Sequence[Cell],
    pool: ShardPool,
    device: str,
    together: int | None = None,
    after_epoch: AfterEpoch = lambda shard: None,
) -> Programs:
    """Submit the training of cells; see :meth:`ShardPool.submit` for when it happens."""
    report = pool.one_at_a_time(after_epoch)
    programs = []
    for same in grouped(cells, len):
        fits = pool.count > 1 and pool.fits(most_bytes(recipe, same))
        run = partial(_train_program, recipe, same, device, together, report, pool.free if fits else None)
        programs.append(pool.submit(run, fits))
    return programs


def merged(programs: Programs) -> dict[str, TrainedCell]:
    """The trained cells of all these programs by id; waits for them."""
    return {name: cell for program in programs for name, cell in program().items()}


def log_loss(
    family: Family,
    parameters: NDArray[Any] | Tensor,
    target: NDArray[Any] | Tensor,
    sample_weight: NDArray[Any] | Tensor | None = None,
) -> float:
    """Mean negative log-likelihood, in nats."""
    weight = None if sample_weight is None else torch.as_tensor(sample_weight)
    return float(family.mean_nll(torch.as_tensor(parameters).double(), torch.as_tensor(target), weight))


def cost_of(recipe: TableRecipe, cells: Sequence[Cell]) -> float:
    """The work of training cells of one method, in the unit of progress."""
    return cost_of_epoch(recipe, cells[0]) * sum(cell.settings["epochs"] for cell in cells)


def cost_of_epoch(recipe: TableRecipe, cell: Cell) -> float:
    """The work of an epoch of a cell, in the unit of progress."""
    return cost(recipe.method(cell, recipe.data(cell)))


def _train_program(
    recipe: TableRecipe,
    cells: Sequence[Cell],
    device: str,
    together: int | None,
    after_epoch: AfterEpoch,
    free: float | None,
) -> dict[str, TrainedCell]:
    """Train cells of one program, one shard after the other."""
    trained: dict[str, TrainedCell] = {}
    for shard in cut(cells, at_once(recipe, cells, device, together, free)):
        trained |= _train_shard(recipe, shard, device, partial(after_epoch, shard))
    return trained


def _train_shard(
    recipe: TableRecipe, shard: Sequence[Cell], device: str, on_epoch: Callable[[], None]
) -> dict[str, TrainedCell]:
    """Train cells together, and calibrate them on the CPU."""
    with threads(device, recipe.width):
        result = fleet.train(recipe, shard, device, on_epoch, accuracies=False)
    splits = [recipe.data(cell).validation for cell in shard]
    predictions = _predict_validation(result.fleet, splits).cpu()
    if not predictions.isfinite().all():
        failed = shard[int((~predictions.isfinite().flatten(1).all(1)).nonzero()[0])]
        raise ValueError(
            f"Training {failed.method} at lr {failed.settings['lr']:g} gave predictions that are not finite: check the data "
            "for extreme values."
        )
    result.fleet.retire()
    return _calibrated(recipe, shard, result.fleet, predictions, splits)


def _calibrated(
    recipe: TableRecipe, shard: Sequence[Cell], models: StackedModels, predictions: Tensor, splits: Sequence[Split]
) -> dict[str, TrainedCell]:
    """Trained cells by id, with the temperature and the log-loss of each on validation rows."""
    trained = {}
    for i, (cell, parameters, split) in enumerate(zip(shard, predictions, splits, strict=True)):
        t = temperature(parameters, split.target, recipe.family, 1.0, split.sample_weight)
        calibrated = tempered(recipe.family, parameters.numpy(), t)
        loss = log_loss(recipe.family, calibrated, split.target, split.sample_weight)
        trained[cell.id] = TrainedCell(partial(models.learner, i), parameters, t, loss)
    return trained


def _predict_validation(trained: StackedModels, splits: Sequence[Split]) -> Tensor:
    """Validation predictions of every model of a fleet, ``(models, rows, outputs)``."""
    trained.template.eval()
    stacked = trained.stack(splits)
    pieces = []
    with torch.no_grad():
        block = -(-ROWS // len(splits))  # rows of each model
        for at in range(0, stacked.target.shape[1], block):
            rows = (slice(None), slice(at, at + block))
            x = {name: take(x, rows) for name, x in stacked.modalities.items()}
            pieces.append(trained.predict(trained.parameters, trained.buffers, x).flatten(2).double())
    return torch.cat(pieces, 1)
