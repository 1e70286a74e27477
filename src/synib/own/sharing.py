"""How models of a user's rows share a device: how many at once, in how many threads, and how shards run beside each other."""

import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Self, TypeVar

import torch

from synib import fused, keys
from synib.checks import check_whole
from synib.own.recipe import TableRecipe, fold_of
from synib.training import Cell, fleet
from synib.training.device import using_threads
from synib.training.recorded import RECORDING

HELD = 1 << 29  # bytes of rows for models trained together on a CPU, with one copy per model
LAZY = 6  # models trained together on a CPU where rows are not copied: more are slower, and take more memory
CERTAIN = 0.25  # of a GPU's free memory: models that certainly need less are trained together without measuring one
THREADS = 3  # shards trained at the same time on a GPU
WIDE = 128  # layer width from which on several threads are used
T = TypeVar("T")

# Streams of each device that no thread uses now.
_idle_streams: defaultdict[int | None, deque[torch.cuda.Stream]] = defaultdict(deque)


class Ended(Exception):
    """Ends the training of a shard whose result is not needed, because another one failed."""


class ShardPool:
    """Runs functions that train shards: one after the other, or on a GPU a few at a time.

    The kernels of small models do not fill a GPU. There, each of a few threads has a CUDA stream of its own, so that kernels
    of several shards run at the same time, and a shard is prepared and recorded while others train. Random draws are keyed
    and a shard is the same in any thread, so results do not depend on the number of threads. If a shard fails, or the context
    is left, those that are still training end after their current epoch.

    Args:
        device: The device to train on.

    Attributes:
        free: Bytes of free memory on the device before anything is trained.
    """

    def __init__(self, device: str) -> None:
        self.device, self.count = torch.device(device), threads_on(device)
        self.free: float = torch.inf
        self._reporting, self._ending = threading.Lock(), threading.Event()
        self._error: BaseException | None = None
        self._pool = ThreadPoolExecutor(self.count, "synib-shard") if self.count > 1 else None
        if self._pool is not None and self.device.type == "cuda":
            if self.device.index is None:  # every thread has a current device of its own
                self.device = torch.device("cuda", torch.cuda.current_device())
            with RECORDING:
                torch.cuda.empty_cache()
            self.free, _ = torch.cuda.mem_get_info(self.device)
            # Kernels are compiled and checked before several threads ask whether they can be used.
            fused.prepare(self.device)
            keys.permutation(keys.key(0, self.device), 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def fits(self, size: float) -> bool:
        """Whether shards of at most so many bytes certainly fit into memory, as many as there are threads."""
        return self._pool is not None and size < min(CERTAIN, fleet.USED / self.count) * self.free

    def submit(self, run: Callable[[], T], beside_others: bool) -> Callable[[], T]:
        """The result of a function, on demand: call it once, after everything has been submitted.

        Args:
            run: The function.
            beside_others: Whether it may run at the same time as others; if not, it runs when its result is demanded, in the
                calling thread, after those.
        """
        if self._pool is None or not beside_others:
            return partial(self._alone, run)
        return partial(self._result, self._pool.submit(self._in_thread, run))

    def one_at_a_time(self, report: Callable[..., None]) -> Callable[..., None]:
        """A function that reports progress, for several threads; it ends the shard of its thread if that is not needed."""

        def one(*arguments: Any) -> None:
            if self._ending.is_set():
                raise Ended
            with self._reporting:
                report(*arguments)

        return one

    def _alone(self, run: Callable[[], T]) -> T:
        if self._pool is not None:
            self._pool.shutdown()
        if self._error is not None:
            raise self._error
        return run()

    def _result(self, future: Future[T]) -> T:
        try:
            return future.result()
        except Ended:
            raise self._error or Ended from None

    def _in_thread(self, run: Callable[[], T]) -> T:
        try:
            if self._ending.is_set():
                raise Ended
            return self._on_stream(run)
        except Ended:
            raise
        except BaseException as error:
            self._error = error
            self._ending.set()
            raise

    def _on_stream(self, run: Callable[[], T]) -> T:
        if self.device.type != "cuda":
            return run()
        with _own_stream(self.device) as stream:
            result = run()
            stream.synchronize()
            unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            if unused > torch.cuda.mem_get_info(self.device)[0]:  # such as that of graphs of finished shards
                with RECORDING:
                    torch.cuda.empty_cache()
        return result


def threads_on(device: str) -> int:
    """How many shards are trained at the same time on a device."""
    return THREADS if device.startswith("cuda") else 1


@contextlib.contextmanager
def _own_stream(device: torch.device) -> Iterator[torch.cuda.Stream]:
    """Context in which the current stream is one that no other thread uses.

    Streams are kept, because torch has 32 of them and then returns the first ones again, and because torch keeps a work space
    of matrix products for each.
    """
    idle = _idle_streams[device.index]
    try:
        stream = idle.popleft()
    except IndexError:
        stream = torch.cuda.Stream(device)
    try:
        with torch.cuda.stream(stream):
            yield stream
    finally:
        idle.append(stream)


def threads(device: str, width: int) -> contextlib.AbstractContextManager[None]:
    """Use one thread if matrices are small: more do not help, and on a busy machine they wait for each other."""
    return using_threads(1) if device == "cpu" and width < WIDE else contextlib.nullcontext()


def at_once(
    recipe: TableRecipe, cells: Sequence[Cell], device: str, together: int | None, free: float | None = None
) -> int:
    """How many cells of one program to train together: ``together``, or as many as fit into memory.

    Args:
        recipe: Provides the data.
        cells: Cells of one program.
        device: The device to train on.
        together: The number, if it is given.
        free: Bytes of free memory on a GPU; by default what is free now.
    """
    if together is not None:
        return check_whole("together", together)
    if device.startswith("cuda"):
        available = torch.cuda.mem_get_info(device)[0] if free is None else free
        if most_bytes(recipe, cells) < CERTAIN * available:
            return len(cells)
        return fleet.capacity(recipe, cells, device, "float32")
    if recipe.lazy:  # rows are read batch by batch, and shared
        return LAZY
    # Three copies: stacked, in the order of an epoch, and prepared.
    return max(1, min(fleet.ON_CPU, HELD // (3 * max(recipe.bytes(fold_of(cell)) for cell in cells))))


def most_bytes(recipe: TableRecipe, cells: Sequence[Cell]) -> int:
    """Memory that models of one program do not reach: far more than any was seen to take, so small ones are not measured."""
    cell = cells[0]
    inputs, hidden = sum(x.shape[1] for x in recipe.table.modalities.values()), max(cell.settings["hidden"])
    units = inputs + 4 * (len(recipe.table.modalities) + 1) * (hidden + recipe.outputs)
    rows = 4 * recipe.bytes(fold_of(cell))  # stacked, in the order of an epoch, and predicted
    parameters = 4 * 20 * units * hidden  # with gradients, the optimiser's state and copies
    return len(cells) * int(rows + parameters + 4 * 200 * units * cell.settings["batch_size"])
