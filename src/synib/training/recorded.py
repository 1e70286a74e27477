"""A training step that is recorded once and then replayed: as a CUDA graph, or on a CPU as a tape of tensor operations."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

# Held while a CUDA graph is captured or discarded, and by whatever frees cached memory or waits for the whole device while
# other threads train: torch's random state of a device belongs to one capture at a time, memory cannot be returned during a
# capture, and to wait for a device that is captured on is an error. Launching and replaying in other threads is allowed.
RECORDING = threading.RLock()


class Record(Protocol):
    """Turns a function without arguments into one that replays it.

    Attributes:
        runs: Whether the function is executed while it is recorded (a tape) or only captured (a CUDA graph).
    """

    runs: bool

    def __call__(self, run: Callable[[], None]) -> Callable[[], None] | None:
        """The replay function; ``None``, or a ``RuntimeError`` before anything was executed, if it cannot be recorded."""


class Recorded:
    """Runs a function that changes tensors in place, and replays it for tensors of the same shapes.

    The first call with given shapes runs normally, while libraries are loaded and the optimiser creates its state; the
    second is recorded, and later calls copy their arguments to the recorded addresses. A function that cannot be
    recorded (it copies from the host, or memory is insufficient) continues to run normally.

    Args:
        record: How to record: :class:`CudaGraphs`, or on a CPU :class:`~synib.training.tape.Tapes`.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.works = True
        self.forget()

    def forget(self) -> None:
        """Discard recordings, because the function will compute something else."""
        with RECORDING:
            self.replays: dict[Any, tuple[list[Tensor], Callable[[], None]] | None] = {}

    def __call__(self, run: Callable[..., None], *arguments: Any) -> None:
        """Run or replay the function.

        Args:
            run: The same function in every call. The tensors that it reads must not move, and all state must be in
                tensors.
            arguments: Tensors, or torch pytrees of tensors.
        """
        tensors, form = tree_flatten(arguments)
        shapes = tuple(tensor.shape for tensor in tensors)
        if self.works and shapes in self.replays and self.replays[shapes] is None:
            inputs = [tensor.clone() for tensor in tensors]
            try:
                replay = self.record(partial(run, *tree_unflatten(inputs, form)))
            except RuntimeError:
                if self.record.runs:
                    raise  # an error of the step itself
                replay = None
            if replay is None:
                self.works = False
                self.forget()
            else:
                self.replays[shapes] = inputs, replay
            if self.record.runs:
                return
        recording = self.replays.setdefault(shapes, None)
        if recording is None:
            run(*arguments)
        else:
            torch._foreach_copy_(recording[0], tensors)
            recording[1]()


class CudaGraphs:
    """Records CUDA graphs of a device with shared memory, since only one is replayed at a time.

    In a thread with a stream of its own a graph is captured on that stream, without waiting for other threads. Its matrix
    products then use the work space of that stream, where the graph is replayed, so graphs of different threads can run at
    the same time.
    """

    runs = False

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()  # those that share memory

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        with RECORDING:
            graph = torch.cuda.CUDAGraph()
            # The memory of graphs that are gone cannot be shared.
            pool = next(iter(self.graphs)).pool() if self.graphs else torch.cuda.graph_pool_handle()
            stream = torch.cuda.current_stream(self.device)
            capture = _captured if stream != torch.cuda.default_stream(self.device) else torch.cuda.graph
            with (
                torch.cuda.device(self.device),
                torch.cuda.stream(stream),  # where to go back to, also if recording fails
                capture(graph, pool=pool, capture_error_mode="thread_local"),
            ):
                run()
            self.graphs.add(graph)
            return graph.replay


@contextlib.contextmanager
def _captured(graph: torch.cuda.CUDAGraph, **settings: Any) -> Iterator[None]:
    """Capture on the current stream; ``torch.cuda.graph`` would wait for all other streams, and free cached memory."""
    graph.capture_begin(**settings)
    try:
        yield
    finally:
        graph.capture_end()
