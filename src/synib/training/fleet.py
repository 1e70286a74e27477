"""The fleet: many small models trained at once on one device, each as if trained alone."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from synib.training.cells import Cell, Examining, Learner, Recipe, Watching, check_settings
from synib.training.device import Precision, matrix_products, without_denormals
from synib.training.plan import DEFAULTS
from synib.training.stacked import StackedModels

Metrics = dict[str, float]

ON_CPU = 24  # models at once, where memory is not the question
PROBED = 4  # models trained to learn what one takes
USED = 0.85  # of the free memory; the rest is for what the allocator cannot place


@dataclass(frozen=True)
class Trained:
    """The result of training a shard, in the order of its cells.

    Args:
        metrics: For each cell, metric → value after training; empty for a failed cell.
        curves: For each cell, metric → value after each epoch; empty for a failed cell.
        fleet: The trained parameters and buffers; for a failed cell those of its last finite epoch.
        failures: Index of a failed cell → reason.
    """

    metrics: list[Metrics]
    curves: list[dict[str, list[float]]]
    fleet: StackedModels
    failures: Mapping[int, str] = field(default_factory=dict)

    @property
    def learners(self) -> list[Learner]:
        """The trained models with their methods, one module per cell."""
        return [self.fleet.learner(i) for i in range(len(self.metrics))]


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
    precision: Precision = "float32",
    accuracies: bool = True,
) -> Trained:
    """Train cells of one program together.

    The parameters of all models are stacked, one row each, and the step is the step of a cell under
    ``torch.func.vmap``. Every draw is keyed by the seed and step of the cell, so its result does not depend on the
    other cells beyond the summation order of matrix products. Nothing synchronises with the device before the last
    epoch, except to record a step on CUDA. A model with a parameter that is not finite after an epoch has failed: it is
    restored to the previous epoch, and the others continue.

    Args:
        recipe: Provides each cell's data, model and method.
        cells: Cells of one program.
        device: Device to train on.
        on_epoch: Called after each epoch.
        precision: Precision of matrix products in training: full, or on CUDA TensorFloat-32 or bfloat16 autocast.
            Evaluation is always in full precision.
        accuracies: Whether to measure accuracies; without them the metrics are empty.
    """
    check_together(cells)
    with ThreadPoolExecutor() as pool:
        data = list(pool.map(recipe.data, cells))
    fleet = StackedModels(recipe, cells, data, torch.device(device))
    training, validation = fleet.stack([d.train for d in data]), fleet.stack([d.validation for d in data])
    epochs = cells[0].settings["epochs"]
    curves: list[dict[str, Tensor]] = []
    for epoch in range(epochs):
        with matrix_products(precision, fleet.device), without_denormals():
            fleet.epoch(training, epoch)
        fleet.hold_failed()
        if epoch < epochs - 1:
            fleet.revise(training, validation, epoch)
        else:
            fleet.settle(validation)
        if accuracies and (recipe.curves or epoch == epochs - 1):
            train_now = fleet.accuracies(training, "train_accuracy")
            now = train_now | fleet.accuracies(validation, "validation_accuracy")
            if isinstance(recipe, Watching) and recipe.curves:
                now |= fleet.watched(recipe, training, validation)
            curves.append(now)
        on_epoch()
    history = {name: torch.stack([c[name] for c in curves], 1).tolist() for name in (curves[0] if curves else ())}
    tests = [d.test for d in data if accuracies and d.test is not None]  # a search does not look at them
    test_accuracies = fleet.accuracies(fleet.stack(tests), "test_accuracy") if tests else {}
    tested = {name: v.tolist() for name, v in test_accuracies.items()}
    each = range(len(cells))
    final = [{name: h[i][-1] for name, h in history.items() if "accuracy_" not in name} for i in each]
    failures = {i: not_finite(cells[i], good) for i, good in enumerate(fleet.good_epochs()) if good < epochs}
    metrics = [{} if i in failures else final[i] | {name: v[i] for name, v in tested.items()} for i in each]
    if isinstance(recipe, Examining):
        for i in each:
            if i not in failures:
                metrics[i] |= recipe.examine(cells[i], fleet.learner(i).eval(), data[i])
    kept = history if recipe.curves else {}
    curves_of = [{name: h[i] for name, h in kept.items()} if i not in failures else {} for i in each]
    return Trained(metrics, curves_of, fleet, failures)


def not_finite(cell: Cell, good: int) -> str:
    """The error message of a cell that was finite for so many epochs."""
    return (
        f"{cell.method} with seed {cell.seed} had a loss or a parameter that is not finite in epoch "
        f"{good + 1} of {cell.settings['epochs']} at learning rate {cell.settings['lr']:g}: try a smaller "
        "one."
    )


def capacity(recipe: Recipe, cells: Sequence[Cell], device: torch.device | str, precision: Precision) -> int:
    """The number of models of this program that fit into free memory, measured on a few models for one epoch.

    On a CPU it is a number measured to be fast (``benchmarks/fleet_cpu.py``), since caches rather than memory are the
    limit.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return ON_CPU
    few = [replace(cell, settings={**cell.settings, "epochs": 1}) for cell in cells[:PROBED]]
    torch.cuda.init()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        trained = train(recipe, few, device, precision=precision)
    except torch.OutOfMemoryError:
        return max(1, len(few) // 2)  # whoever trains them finds out whether that fits
    kept, peak = (use(device) - before for use in (torch.cuda.memory_allocated, torch.cuda.max_memory_allocated))
    del trained
    # A recorded step keeps what it took beside the models, and evaluation takes its own.
    each = (2 * peak - kept) / len(few)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, int(USED * free / each))


def check_together(cells: Sequence[Cell]) -> None:
    """Raise ``ValueError`` if cells cannot be trained together."""
    count = len({cell.program for cell in cells})
    if count != 1:
        raise ValueError(
            f"Cells that are trained together must share a program; these have {count}: group them with "
            "synib.training.cells.programs."
        )
    check_settings(cells[0])
    # The metric to monitor is nobody's business where nothing is selected by it.
    alone = [k for k, v in DEFAULTS.items() if k != "monitor" and cells[0].settings.get(k, v) != v]
    if alone:
        raise ValueError(
            f"The fleet trains all epochs at one learning rate, but these cells have {', '.join(alone)}: train "
            "them with the engine 'solo'."
        )
