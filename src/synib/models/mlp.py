"""Multilayer perceptrons, and a dropout that draws from a key."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synib import fused, keys
from synib.checks import check_number, check_whole, is_whole, shown
from synib.tokens import Tokens, describe

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def mlp(
    widths: Sequence[int],
    *,
    dropout: float | Sequence[float] = 0.0,
    first_activation: bool = False,
    last_activation: bool = False,
) -> "Perceptron":
    """Linear layers with ReLU between them; dropout follows every ReLU.

    Args:
        widths: Input, hidden and output widths.
        dropout: Probability of dropping a hidden unit, for all activations or for each in turn.
        first_activation: Whether to start with an activation, as the continuation of a linear layer.
        last_activation: Whether to end with an activation, as an encoder does.
    """
    check_layers("widths", widths, "the layers, input first")
    if isinstance(dropout, str) or not isinstance(dropout, Sequence):
        check_number("dropout", dropout, least=0, below=1)
    linear = [nn.Linear(before, after) for before, after in pairwise(widths)]
    activated = [*([None] if first_activation else []), *linear[: len(linear) if last_activation else -1]]
    rates = list(dropout) if isinstance(dropout, Sequence) else [dropout] * len(activated)
    if len(rates) != len(activated):
        raise ValueError(f"dropout must be one rate, or one for each of {len(activated)} activations; got {rates}.")
    layers: list[nn.Module] = []
    for layer, rate in zip(activated, rates, strict=True):
        layers += [*([layer] if layer is not None else []), nn.ReLU(), *([Dropout(rate)] if rate else [])]
    return Perceptron(*layers, *(linear[-1:] if not last_activation else []))


class Perceptron(nn.Sequential):
    """Linear layers, ReLUs, and dropout after ReLUs. Many at once on a GPU compute what follows a product as one kernel."""

    def forward(self, x: Tensor) -> Tensor:
        layers: list[nn.Module] = list(self._modules.values())  # type: ignore[arg-type]
        if not fused.applies(x) or any(map(_has_hooks, layers)):
            for layer in layers:
                x = layer(x)
            return x
        bias = None
        for layer, following in zip_longest(layers, layers[1:]):
            if isinstance(layer, nn.Linear) and isinstance(following, nn.ReLU):
                x, bias = F.linear(x, layer.weight), layer.bias
            elif isinstance(layer, nn.ReLU):
                dropped, p = (following.draw(x), following.p) if isinstance(following, Dropout) else (None, 0.0)
                x, bias = fused.relu_dropout(x, bias, dropped, p), None
            elif not isinstance(layer, Dropout):
                x = layer(x)
        return x


def check_layers(name: str, value: Any, of: str, least: int = 1) -> None:
    """Raise ``ValueError`` unless the value lists the widths ``of`` at least so many layers."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or len(value) < least or not all(is_whole(width) and width >= 1 for width in value):
        example = [value] if is_whole(value) and value >= 1 else [64] * max(least, 1)
        raise ValueError(f"{name} must list the widths of {of}, for example {example}; got {shown(value)}.")


def perceptron_layers(modules: Iterable[nn.Module]) -> list[nn.Linear | nn.ReLU] | None:
    """The linear layers and ReLUs of which modules consist, in order; ``None`` if they compute anything else.

    Dropout in evaluation mode computes nothing. Modules with hooks or a replaced ``forward`` are not looked into.
    """
    layers: list[nn.Linear | nn.ReLU] = []
    for module in modules:
        if _has_hooks(module):
            return None
        if type(module) is nn.Linear or type(module) is nn.ReLU:
            layers.append(module)
        elif type(module) in (nn.Sequential, Perceptron):
            inside = perceptron_layers(module.children())
            if inside is None:
                return None
            layers += inside
        elif not (type(module) in (Dropout, nn.Dropout) and not module.training):
            return None
    return layers


def _has_hooks(module: nn.Module) -> bool:
    """Whether calling a module does more than its class says."""
    own = vars(module)
    return "forward" in own or any(own[hooks] for hooks in HOOKS)


class OptionalEncoder(nn.Module):
    """An encoder of a modality with missing rows (:func:`synib.tokens.optional`): a missing row gets a learned latent.

    Args:
        encoder: Module from vectors to latents.
        width: Width of a latent.
    """

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.missing = nn.Parameter(torch.zeros(check_whole("width", width)))

    def forward(self, x: Tokens) -> Tensor:
        if not isinstance(x, Tokens) or x.values.shape[-2] != 1:
            raise ValueError(
                f"A modality with missing rows must be created by synib.tokens.optional(x, present); got {describe(x)}."
            )
        return torch.where(x.padding, self.missing, self.encoder(x.values.squeeze(-2)))


class Dropout(nn.Module):
    """Dropout that draws from torch's generator, or by a key.

    With a key, a model drops the same units whether it is trained alone or in a fleet: the fleet and the plain loop use
    keys (:meth:`follow_key`). Without a key it is ordinary dropout: correct under gradient checkpointing, which
    restores torch's generator for the recomputation, and different in every process.
    """

    key: Tensor | None

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = check_number("dropout", p, least=0, below=1)
        self._first = keys.fresh()
        self.register_buffer("key", None, persistent=False)

    def follow_key(self) -> None:
        """Draw by a key, which advances with each training pass."""
        self.key = self._first.clone()

    def forget_key(self) -> None:
        """Draw from torch's generator again."""
        self.key = None

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.draw(x)
        return x if dropped is None else torch.where(dropped, 0.0, x / (1.0 - self.p))

    def draw(self, x: Tensor) -> Tensor | None:
        """The units of a batch to drop now; ``None`` if none is."""
        if not self.training or self.p == 0.0:
            return None
        key = self.key
        if key is None:
            # On the device where a compiled or recorded step draws again: a key from the host would be a constant of it.
            key = keys.fresh(x.device if torch.compiler.is_compiling() or x.device.type == "cuda" else None)
        dropped = keys.bernoulli(key, self.p, x.shape, x.device)
        if self.key is not None:
            self.key = keys.fold(key, 1)
        return dropped

    def extra_repr(self) -> str:
        return f"p={self.p}"
