"""Gradients of a unimodal loss with respect to the values of a modality, for masks that search."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib import fused

# Examples up to which they are columns: with 128 a product is faster by a quarter, with 256 slower by half (one H200).
COLUMNS = 128
threshold_backward = torch.ops.aten.threshold_backward


def value_and_slope(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """A function of one tensor and its gradient: by autograd, which is faster, or by ``torch.func`` under ``vmap``.

    Parameters are not differentiated.
    """
    if _transformed():
        gradient, value = torch.func.grad_and_value(function)(x)
        return value, gradient
    with torch.enable_grad():
        at = x.detach().requires_grad_()
        value = function(at)
        return value.detach(), torch.autograd.grad(value, at)[0]


class LayerSlope:
    """The gradient of the summed loss of a perceptron's output with respect to its input.

    The chain rule is written out. It consists of the same matrix products as in autograd and gives the same numbers,
    but it builds no graph, and on a CPU it uses the same memory in every call.

    Args:
        layers: Linear layers and ReLUs, in order. Their parameters are read in every call and never differentiated.
        loss: Output of the last layer → loss per example.
    """

    def __init__(self, layers: Sequence[nn.Linear | nn.ReLU], loss: Callable[[Tensor], Tensor]) -> None:
        self.layers, self.loss = layers, loss
        parameters = [p for layer in layers for p in layer.parameters()]
        reuse = not _transformed() and all(_is_plain(p) for p in parameters)
        self._free: dict[int, list[Tensor]] | None = {} if reuse else None  # by width

    def __call__(self, x: Tensor) -> Tensor:
        """The gradient at ``x``, ``(batch, width)``. Gradients must be disabled."""
        if len(x) <= COLUMNS and fused.applies(x):
            return self._in_columns(x)
        h, activations = x, []
        for layer in self.layers:
            h = self._linear(layer, h) if isinstance(layer, nn.Linear) else h.relu() if h is x else h.relu_()
            activations.append(h)
        _, gradient = value_and_slope(lambda output: self.loss(output).sum(), h)
        own: Tensor | None = None  # the memory of the gradient
        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            if isinstance(layer, nn.Linear):
                # What is returned must not change in the next call.
                out = self._memory(gradient, layer.in_features) if i else None
                gradient = torch.mm(gradient, layer.weight, out=out)
                self._release(own)
                own = out
            elif own is None:
                gradient = threshold_backward(gradient, activations[i], 0)
            else:
                threshold_backward.grad_input(gradient, activations[i], 0, grad_input=gradient)
                self._release(activations[i])
        return gradient.to(x.dtype)

    def _in_columns(self, x: Tensor) -> Tensor:
        """The same for many models at once on a GPU, where products of few examples are faster with examples as columns."""
        h, bias, activations = x.mT, None, []
        for layer, following in zip_longest(self.layers, self.layers[1:]):
            if isinstance(layer, nn.Linear) and isinstance(following, nn.ReLU):
                h, bias = layer.weight @ h, layer.bias
            elif isinstance(layer, nn.Linear):  # a vector times a matrix, whose digits would depend on the layout
                h = F.linear(fused.transposed(h), layer.weight, layer.bias).mT
            else:
                h, bias = fused.relu_dropout(h, bias, columns=True), None
            activations.append(h)
        _, gradient = value_and_slope(lambda output: self.loss(output).sum(), h.mT)
        gradient = gradient.mT
        for layer, h in zip(reversed(self.layers), reversed(activations), strict=True):
            linear = isinstance(layer, nn.Linear)
            gradient = cast(Tensor, layer.weight).mT @ gradient if linear else threshold_backward(gradient, h, 0)
        return gradient.mT

    def _linear(self, layer: nn.Linear, h: Tensor) -> Tensor:
        out = self._memory(h, layer.out_features)
        if out is None:
            return F.linear(h, layer.weight, layer.bias)
        if layer.bias is None:
            return torch.mm(h, layer.weight.t(), out=out)
        return torch.addmm(layer.bias, h, layer.weight.t(), out=out)

    def _memory(self, like: Tensor, width: int) -> Tensor | None:
        if self._free is None:
            return None
        free = self._free.get(width)
        return free.pop() if free else like.new_empty(len(like), width)

    def _release(self, memory: Tensor | None) -> None:
        if self._free is not None and memory is not None:
            self._free.setdefault(memory.shape[1], []).append(memory)


def _transformed() -> bool:
    """Whether the code runs under a transform of ``torch.func``, such as ``vmap``, or is compiled."""
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


def _is_plain(p: Tensor) -> bool:
    """Whether a parameter is an ordinary tensor on the CPU, used in its own precision."""
    return type(p) in (Tensor, nn.Parameter) and p.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
