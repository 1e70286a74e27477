"""How models of a user's rows share a device: how many at once, in how many threads, and what runs beside them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from synib.checks import check_whole
from synib.own.recipe import TableRecipe, fold_of
from synib.training import Cell, fleet
from synib.training.device import using_threads

HELD = 1 << 29  # bytes of rows for models trained together on a CPU, with one copy per model
LAZY = 6  # models trained together on a CPU where rows are not copied: more are slower, and take more memory
CERTAIN = 0.25  # of a GPU's free memory: models that certainly need less are trained together without measuring one
WIDE = 128  # layer width from which on several threads are used
# Runs a function, now or later, and returns its result on demand.
Submit = Callable[[Callable[[], Any]], Callable[[], Any]]


@contextlib.contextmanager
def beside(device: str) -> Iterator[Submit]:
    """A function that runs another one and returns its result on demand: at once, or on a thread while a GPU trains."""
    if device == "cpu":
        yield _run_now
        return
    with ThreadPoolExecutor(1) as pool:  # one, so that all that was submitted before is finished
        yield lambda run: pool.submit(run).result


def _run_now(run: Callable[[], Any]) -> Callable[[], Any]:
    result = run()
    return lambda: result


def threads(device: str, width: int) -> contextlib.AbstractContextManager[None]:
    """Use one thread if matrices are small: more do not help, and on a busy machine they wait for each other."""
    return using_threads(1) if device == "cpu" and width < WIDE else contextlib.nullcontext()


def at_once(recipe: TableRecipe, cells: Sequence[Cell], device: str, together: int | None) -> int:
    """How many cells of one program to train together: ``together``, or as many as fit into memory."""
    if together is not None:
        return check_whole("together", together)
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        if len(cells) * _most_bytes(recipe, cells[0]) < CERTAIN * free:
            return len(cells)
        return fleet.capacity(recipe, cells, device, "float32")
    if recipe.lazy:  # rows are read batch by batch, and shared
        return LAZY
    # Three copies: stacked, in the order of an epoch, and prepared.
    return max(1, min(fleet.ON_CPU, HELD // (3 * max(recipe.bytes(fold_of(cell)) for cell in cells))))


def _most_bytes(recipe: TableRecipe, cell: Cell) -> int:
    """Memory that a model does not reach, so that small ones need no measurement: far more than any was seen to take."""
    inputs, hidden = sum(x.shape[1] for x in recipe.table.modalities.values()), max(cell.settings["hidden"])
    units = inputs + 4 * (len(recipe.table.modalities) + 1) * (hidden + recipe.outputs)
    rows = 4 * recipe.bytes(fold_of(cell))  # stacked, in the order of an epoch, and predicted
    parameters = 4 * 20 * units * hidden  # with gradients, the optimiser's state and copies
    return int(rows + parameters + 4 * 200 * units * cell.settings["batch_size"])
