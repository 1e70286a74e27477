"""A step that is recorded once and then replayed: the host launches one CUDA graph instead of thousands of kernels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

Record = Callable[[Callable[[], None]], Callable[[], None]]


class Recorded:
    """Runs a function that changes tensors in place, and does the same with tensors of the same shapes at every call.

    The first call with some shapes is an ordinary one, in which libraries load and an optimiser makes its state; the second is
    recorded, and from then on arguments are copied to where the recorded one had them. What cannot be recorded (it copies from
    the host, or there is no memory to keep) goes on as it was.

    Args:
        record: Makes of a function without arguments one that does the same again, such as :class:`CudaGraphs`.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.works = True
        self.forget()

    def forget(self) -> None:
        """Record anew: what is done will be something else."""
        self.replays: dict[Any, tuple[list[Tensor], Callable[[], None]] | None] = {}

    def __call__(self, run: Callable[..., None], *arguments: Any) -> None:
        """Do it.

        Args:
            run: The same function at every call. Nothing it reads may move, and nothing may be kept outside of tensors.
            arguments: Tensors, and whatever torch knows to hold tensors.
        """
        given, form = tree_flatten(arguments)
        shapes = tuple(tensor.shape for tensor in given)
        if self.works and shapes in self.replays and self.replays[shapes] is None:
            held = [tensor.clone() for tensor in given]
            try:
                self.replays[shapes] = held, self.record(partial(run, *tree_unflatten(held, form)))
            except RuntimeError:  # nothing was run, only looked at
                self.works = False
                self.forget()
        found = self.replays.setdefault(shapes, None)
        if found is None:
            run(*arguments)
        else:
            torch._foreach_copy_(found[0], given)
            found[1]()


class CudaGraphs:
    """Records CUDA graphs of a device that share their memory, since one is replayed after the other."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.pool = device, torch.cuda.graph_pool_handle()

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.device(self.device),
            torch.cuda.stream(torch.cuda.current_stream(self.device)),  # where to go back to, also if recording fails
            torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"),
        ):
            run()
        return graph.replay
