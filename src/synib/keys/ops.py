"""The draws as operations of torch: for ``vmap``, recorded steps and compilers, each is a single operation.

They take keys of any shape and add a dimension for the draws.

Attributes:
    IMPLEMENTATIONS: Operation → the function that it runs, for who calls it again without torch's dispatch.
    CHAINS: Operation → the tensor operations that it stands for, for a compiler that joins them with what uses the draw.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from synib.keys import chain, device, host

Draw = Callable[..., Tensor]

IMPLEMENTATIONS: dict[Any, Draw] = {}
CHAINS: dict[Any, Draw] = {}
_library = torch.library.Library("synib", "FRAGMENT")


def _draw(name: str, arguments: str, dtype: torch.dtype) -> Draw:
    """``name(key, *arguments, device=None)``, by the implementation of this name for the device."""
    on_host, on_cuda, by_chain = (getattr(place, name) for place in (host, device, chain))
    count = arguments.count(",") + 1

    def run(key: Tensor, *rest: Any) -> Tensor:
        where = rest[count] if len(rest) > count else None
        where = key.device if where is None else where
        if where.type == "cuda":
            return on_cuda(key, *rest[:count], where)
        if where.type == "cpu" and key.device.type == "cpu":
            return on_host(key, *rest[:count])
        return by_chain(key, *rest[:count], where)

    def fake(key: Tensor, *rest: Any) -> Tensor:
        where = rest[count] if len(rest) > count else None
        return key.new_empty((*key.shape, rest[count - 1]), dtype=dtype, device=where)

    return _operation(f"{name}(Tensor key, {arguments}, Device? device=None) -> Tensor", run, fake, by_chain)


def _operation(schema: str, run: Draw, fake: Draw, by_chain: Draw) -> Draw:
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"synib::{name}", fake, lib=_library)
    operation = getattr(torch.ops.synib, name).default
    IMPLEMENTATIONS[operation], CHAINS[operation] = run, by_chain

    def batched(info: Any, dims: Any, key: Tensor, *rest: Any) -> tuple[Tensor, int]:
        return operation(key.movedim(dims[0], 0), *rest), 0

    torch.library.register_vmap(f"synib::{name}", batched, lib=_library)

    def call(key: Tensor, *rest: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return by_chain(key, *rest)  # which the compiler joins with what uses the draw
        watched = torch._C._functorch.peek_interpreter_stack() is not None or torch._C._len_torch_dispatch_stack()
        return operation(key, *rest) if watched or type(key) is not Tensor else run(key, *rest)

    return call


def _fold(key: Tensor, labels: list[int]) -> Tensor:
    by = {"cuda": device.fold, "cpu": host.fold}.get(key.device.type, chain.fold)
    return by(key, labels)


bits = _draw("bits", "SymInt n", torch.int64)
uniform = _draw("uniform", "SymInt n", torch.float32)
bernoulli = _draw("bernoulli", "float p, SymInt n", torch.bool)
normal = _draw("normal", "SymInt n", torch.float32)
permutation = _draw("permutation", "SymInt n", torch.int64)
fold = _operation(
    "fold(Tensor key, int[] labels) -> Tensor", _fold, lambda key, labels: torch.empty_like(key), chain.fold
)
