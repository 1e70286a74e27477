"""Bias, ReLU and dropout after a matrix product as one operation, which reads and writes the activations once."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from synib.fused.device import is_usable, usable

BLOCK, TILE = 1024, 64
NAME = "synib::relu_dropout"


def applies(x: Any) -> bool:
    """Whether the layers of a perceptron use these operations: for many models at once on CUDA, in 32 bits.

    Models at once are those of ``torch.func.vmap``: outside of it a linear layer adds its bias in the matrix product.
    """
    if torch.compiler.is_compiling() or not isinstance(x, Tensor):
        return False
    if x.device.type != "cuda" or x.dtype != torch.float32 or not x.numel():
        return False
    transforms = torch._C._functorch.get_interpreter_stack() or []
    kinds = {transform.key() for transform in transforms}
    kind = torch._C._functorch.TransformType
    if kind.Vmap not in kinds or not kinds <= {kind.Vmap, kind.Grad}:
        return False
    return not torch.is_autocast_enabled("cuda") and is_usable(NAME, x.device)


def prepare(device: torch.device) -> bool:
    """Compile the kernels for a device, and compare them with torch's; whether they can be used."""
    return usable(NAME, device, _check)


def relu_dropout(
    x: Tensor, bias: Tensor | None = None, dropped: Tensor | None = None, p: float = 0.0, columns: bool = False
) -> Tensor:
    """``relu(x + bias)``, divided by 1 - p where it is not dropped, and 0 where it is.

    Args:
        x: Output of a matrix product, ``(examples, units)``.
        bias: The layer's bias, ``(units,)``.
        dropped: True where dropout drops a unit.
        p: Probability of dropout.
        columns: Whether ``x`` is ``(units, examples)``.
    """
    out: Tensor = _ReluDropout.apply(x, bias, dropped, p, columns)  # type: ignore[no-untyped-call]
    return out


def _forward(x: Tensor, bias: Tensor | None, dropped: Tensor | None, p: float, columns: bool) -> Tensor:
    if x.device.type != "cuda":
        return _plain(x, bias, dropped, p, columns)
    from synib.fused import kernels

    x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    # Biases may have the leading dimensions of x, one vector for each model.
    lead = 1 if bias is None else bias.shape[:-1].numel()
    width, stride = (x.shape[-2], x.shape[-1]) if columns else (x.shape[-1], 1)
    biases = out if bias is None else bias.contiguous()
    drops = out if dropped is None else dropped.contiguous().view(torch.uint8)
    n = x.numel()
    with torch.cuda.device_of(x):
        kernels.relu_dropout[(-(-n // BLOCK),)](
            x, biases, drops, out, n, max(1, n // lead), width, stride, _scale(p),
            BIAS=bias is not None, DROPS=dropped is not None, BLOCK=BLOCK,
        )  # fmt: skip
    return out


def _scale(p: float) -> float:
    """What torch multiplies by to divide by 1 - p on CUDA."""
    return float(np.float32(1.0) / np.float32(1.0 - p))


def transposed(x: Tensor) -> Tensor:
    """Matrices with rows and columns exchanged, in memory too: ``x.mT.contiguous()``."""
    out: Tensor = transposed_op(x)
    return out


def _transposed(x: Tensor) -> Tensor:
    if x.device.type != "cuda":
        return x.mT.contiguous()
    from synib.fused import kernels

    x, (height, width) = x.contiguous(), x.shape[-2:]
    out = x.new_empty(*x.shape[:-2], width, height)
    down, across = -(-height // TILE), -(-width // TILE)
    with torch.cuda.device_of(x):
        kernels.transposed[(x.shape[:-2].numel() * down * across,)](x, out, height, width, down, across, BLOCK=TILE)
    return out


def _plain(x: Tensor, bias: Tensor | None, dropped: Tensor | None, p: float, columns: bool) -> Tensor:
    if bias is not None:
        around = [1] * (x.ndim - bias.ndim - columns)
        x = x + bias.reshape(*bias.shape[:-1], *around, bias.shape[-1], *[1] * columns)
    y = x.relu()
    return y if dropped is None else torch.where(dropped, 0.0, y / (1.0 - p))


def _backward(gradient: Tensor, y: Tensor, p: float) -> Tensor:
    if y.device.type != "cuda":
        return torch.where(y <= 0, 0.0, gradient / (1.0 - p))
    from synib.fused import kernels

    out = torch.empty_like(y)
    with torch.cuda.device_of(y):
        kernels.relu_dropout_backward[(-(-y.numel() // BLOCK),)](
            gradient.contiguous(), y, out, y.numel(), _scale(p), BLOCK=BLOCK
        )
    return out


class _ReluDropout(torch.autograd.Function):
    """The derivative; biases may have leading dimensions of ``x``."""

    @staticmethod
    def forward(x: Tensor, bias: Tensor | None, dropped: Tensor | None, p: float, columns: bool) -> Tensor:
        return cast(Tensor, forward_op(x, bias, dropped, p, columns))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, bias, _, ctx.p, ctx.columns = inputs
        ctx.bias_dimensions = 0 if bias is None else bias.ndim
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        (y,) = ctx.saved_tensors
        inner = backward_op(gradient, y, ctx.p)
        of_bias = None
        if ctx.bias_dimensions:
            examples = [-1] if ctx.columns else list(range(ctx.bias_dimensions - 1, inner.ndim - 1))
            of_bias = inner.sum(examples)
        return inner, of_bias, None, None, None

    @staticmethod
    def vmap(info: Any, dims: Any, *inputs: Any) -> tuple[Tensor, int]:
        tensors = (_first(part, dim, info.batch_size) for part, dim in zip(inputs[:3], dims, strict=False))
        return cast(Tensor, _ReluDropout.apply(*tensors, *inputs[3:])), 0  # type: ignore[no-untyped-call]


def _batched(info: Any, dims: Any, gradient: Tensor, y: Tensor, p: float) -> tuple[Tensor, int]:
    gradient, y = (_first(part, dim, info.batch_size) for part, dim in zip((gradient, y), dims, strict=False))
    return cast(Tensor, backward_op(gradient, y, p)), 0


def _first(x: Any, dim: int | None, size: int) -> Any:
    """A tensor with the dimension of the models first; repeated if all models share it."""
    if x is None:
        return None
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


_library = torch.library.Library("synib", "FRAGMENT")


def _operation(schema: str, run: Callable[..., Tensor], shape: Callable[..., torch.Size]) -> Any:
    """A function as an operation of torch, so that whatever traces a step sees a single node."""
    name = schema.partition("(")[0]
    _library.define(f"{schema} -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"synib::{name}", lambda *x: x[0].new_empty(shape(*x)), lib=_library)
    return getattr(torch.ops.synib, name).default


_of_forward = "Tensor x, Tensor? bias, Tensor? dropped, float p, bool columns"
forward_op = _operation(f"relu_dropout({_of_forward})", _forward, lambda x, *rest: x.shape)
backward_op = _operation(
    "relu_dropout_backward(Tensor gradient, Tensor y, float p)", _backward, lambda gradient, y, p: y.shape
)
transposed_op = _operation("transposed(Tensor x)", _transposed, lambda x: x.mT.shape)
torch.library.register_vmap("synib::relu_dropout_backward", _batched, lib=_library)
torch.library.register_vmap(
    "synib::transposed", lambda info, dims, x: (transposed_op(x.movedim(dims[0], 0)), 0), lib=_library
)


def _check(device: torch.device) -> bool:
    """Compares both kernels with torch, in both layouts."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(4, 3, 7, 130, generator=generator).to(device)
    bias, dropped = draw[3, :, 0].contiguous(), draw[2] > 0
    same = True
    for x, columns in ((draw[0], False), (draw[0].mT.contiguous(), True)):
        for given, at, p in ((bias, None, 0.0), (bias, dropped, 0.3), (None, dropped, 0.5), (None, None, 0.0)):
            at = at.mT.contiguous() if at is not None and columns else at
            y, expected = _forward(x, given, at, p, columns), _plain(x, given, at, p, columns)
            gradient = draw[1].view_as(y)
            same &= torch.equal(y, expected)
            same &= torch.equal(_backward(gradient, y, p), torch.where(y <= 0, 0.0, gradient / (1.0 - p)))
            same &= torch.equal(_transposed(x), x.mT)
    return same
