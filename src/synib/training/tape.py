"""A training step on a CPU, recorded as a list of tensor operations that is replayed without autograd and ``vmap``.

The models of a fleet are small, so most of a step's time on a CPU is spent in Python, autograd and ``vmap``. A tape
stores the operations that they issue and runs them again on the same memory: a replayed step gives exactly the same
values as an ordinary one.
"""

import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from synib.keys.ops import IMPLEMENTATIONS

LARGEST = 1 << 32  # bytes allocated in a step, one after the other; one that allocates more is not limited by Python
aten = torch.ops.aten
# The same operations, by functions with less overhead per call.
FAST: Mapping[Any, Callable[..., Any]] = {
    aten.add.Tensor: torch.add,
    aten.mul.Tensor: torch.mul,
    aten.sub.Tensor: torch.sub,
    aten.div.Tensor: torch.div,
    aten.bmm.default: torch.bmm,
    aten.where.self: torch.where,
    aten.transpose.int: torch.transpose,
    aten.select.int: torch.select,
    aten.clone.default: torch.clone,
    **IMPLEMENTATIONS,
}
METHODS = {aten.view.default: "view", aten._unsafe_view.default: "view", aten.mul_.Tensor: "mul_"}


class Tapes:
    """Records tapes. The function runs while it is recorded."""

    runs = True

    def __call__(self, run: Callable[[], None]) -> Callable[[], None] | None:
        """Run a function that changes tensors in place, and record it.

        Args:
            run: The function; all tensors that it reads or changes must stay at the same memory address.

        Returns:
            A function that replays it; ``None`` if its control flow depends on tensor values, or if it allocates more
            than ``LARGEST`` bytes.
        """
        tape = _Tape()
        with tape:
            run()
        return None if tape.refused else tape.replay()


class _Tape(TorchDispatchMode):
    """Collects the operations of a step in a graph, in which existing tensors are constants."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph, self.constants = fx.Graph(), SimpleNamespace()
        self.nodes: dict[int, fx.Node] = {}
        self.kept: list[Tensor] = []  # keeps the constants alive; other tensors are forgotten when they end
        self.bytes, self.refused = 0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (
            func is aten.lift_fresh.default
        ):  # a new constant, which may be changed in place: every replay starts from a copy
            func = aten.clone.default
        if not self.refused:
            self.refused = self.bytes > LARGEST or _depends_on_values(func, args)
            if self.refused:
                self.nodes, self.kept = {}, []
        if self.refused or func.namespace == "profiler":
            return func(*args, **kwargs)
        known = {id(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        at, by_name = tree_map_only(Tensor, self._node, (args, kwargs))
        out = func(*args, **kwargs)
        if isinstance(out, bool):
            return out  # a fact about the tensors themselves, which stay as they are
        if func in METHODS:
            node = self.graph.call_method(METHODS[func], at, by_name)
        else:
            node = self.graph.call_function(FAST.get(func, func), at, by_name)
        if isinstance(out, Tensor):
            self._name(out, node, known)
        elif isinstance(out, tuple | list):
            for i, each in enumerate(out):
                if isinstance(each, Tensor) and id(each) not in known:
                    self._name(each, self.graph.call_function(_item, (node, i)), known)
        return out

    def _name(self, out: Tensor, node: fx.Node, known: set[int]) -> None:
        if id(out) not in known:  # an operation in place returns what it was given
            if id(out) not in self.nodes:
                weakref.finalize(out, self.nodes.pop, id(out), None).atexit = False  # its id may be used again
            self.nodes[id(out)] = node
            self.bytes += out.nbytes

    def _node(self, x: Tensor) -> fx.Node:
        """The graph node of a tensor: the operation that created it, or a constant."""
        if id(x) not in self.nodes:
            name = f"constant_{len(vars(self.constants))}"
            setattr(self.constants, name, x)
            self.kept.append(x)
            self.nodes[id(x)] = self.graph.get_attr(name)
        return self.nodes[id(x)]

    def replay(self) -> Callable[[], None]:
        self.graph.output(None)
        # The function alone: a module looks names up slowly, and would leave its tensors to the garbage collector.
        names = dict.fromkeys(vars(self.constants), torch.empty(0))
        forward, constants = type(fx.GraphModule(names, self.graph)).forward, self.constants

        def run() -> None:
            with torch.no_grad():
                forward(constants)

        return run


def _item(several: Any, i: int) -> Any:
    return several[i]


def _depends_on_values(func: Any, args: Any) -> bool:
    """Whether an operation copies tensor values to the host, or creates a tensor whose size depends on them."""
    if func is aten.index.Tensor:  # by numbers of rows, its size is theirs; by a mask, what the mask says
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
