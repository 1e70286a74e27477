"""How many models a CPU trains together fastest, and with how many threads: measured on this machine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from synib.training.cells import Cell, Recipe
from synib.training.device import using_threads, without_denormals
from synib.training.fleet import ON_CPU
from synib.training.stacked import StackedModels

SIZES = (12, 48, 96)  # tried beside ON_CPU
STEPS = 4  # timed in each round, after as many in which a step is recorded
ROUNDS = 3
LONG = 60.0  # seconds of training below which a measurement does not pay
SMALL = 1 << 18  # parameters of a model; larger ones spend their time in matrix products, however many train together
FASTER = 0.9  # another choice must take at most this share of the time of the usual one

Timer = Callable[[], float]


@dataclass(frozen=True)
class Choice:
    """How to train the models of a program on a CPU.

    Args:
        together: Number of models to train at once.
        threads: Number of threads.
        seconds: What was measured: "24 models, 2 threads" → seconds of a step, for each model; empty if nothing was.
    """

    together: int
    threads: int
    seconds: dict[str, float] = field(default_factory=dict)


def measured(
    recipe: Recipe,
    cells: Sequence[Cell],
    timer: Callable[[Recipe, Sequence[Cell], int], Timer] | None = None,
) -> Choice:
    """The fastest number of threads and of models, or the usual ones (``ON_CPU`` models, torch's threads).

    The usual choice is measured first. Others are measured only if the training is long enough to make up for it, and
    one of them is taken only if it is clearly faster, since the clock of a busy machine is inexact.

    Args:
        recipe: Provides each cell's data, model and method.
        cells: All cells of one program.
        timer: Recipe, some cells and a number of threads → a function that returns the seconds of a training step of
            these cells.
    """
    timer = step_timer if timer is None else timer
    usual = min(ON_CPU, len(cells)), torch.get_num_threads()
    data = recipe.data(cells[0])
    if sum(p.numel() for p in recipe.model(cells[0], data).parameters()) > SMALL:
        return Choice(ON_CPU, usual[1])
    seconds: dict[tuple[int, int], float] = {}

    def measure(*choices: tuple[int, int]) -> tuple[int, int]:
        """Measure the usual choice and others in turn; the fastest, or the usual one."""
        timers = {choice: timer(recipe, cells[: choice[0]], choice[1]) for choice in (usual, *choices)}
        for _ in range(ROUNDS):
            for choice, run in timers.items():
                each = run() / choice[0]
                seconds[choice] = min(each, seconds.get(choice, each))
        best = min(timers, key=seconds.__getitem__)
        return best if seconds[best] <= FASTER * seconds[usual] else usual

    measure()
    settings = cells[0].settings
    steps = settings["epochs"] * -(-len(data.train.target) // settings["batch_size"])
    together, threads = usual
    if len(cells) * steps * seconds[usual] > LONG:
        if threads > 1:
            threads = measure((together, 1))[1]
        together = measure(*((size, threads) for size in SIZES if size <= len(cells)))[0]
    if together == usual[0]:
        together = ON_CPU
    return Choice(
        together, threads, {f"{n} models, {t} thread{'s' * (t > 1)}": round(s, 9) for (n, t), s in seconds.items()}
    )


def step_timer(recipe: Recipe, cells: Sequence[Cell], threads: int) -> Timer:
    """Prepare models of these cells; the returned function trains them for a few steps and returns the seconds of one."""
    size = cells[0].settings["batch_size"]
    some = [replace(cell, settings={**cell.settings, "epochs": 1}) for cell in cells]
    data = [recipe.data(cell) for cell in cells]
    models = StackedModels(recipe, some, data, torch.device("cpu"))
    rows = models.stack([d.train.take(slice(STEPS * size)) for d in data])
    steps = -(-rows.target.shape[1] // size)

    def run() -> float:
        with using_threads(threads), without_denormals():
            start = time.perf_counter()
            models.epoch(rows, 0)
            return (time.perf_counter() - start) / steps

    run()
    return run
