"""Multilayer perceptrons, and a dropout that draws from a key."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from synib import keys


def mlp(
    widths: Sequence[int],
    *,
    dropout: float | Sequence[float] = 0.0,
    first_activation: bool = False,
    last_activation: bool = False,
) -> nn.Sequential:
    """Linear layers with ReLU between them; dropout follows every ReLU.

    Args:
        widths: Input, hidden and output widths.
        dropout: Probability of dropping a hidden unit, for all activations or for each in turn.
        first_activation: Begin with an activation, as the continuation of a linear layer.
        last_activation: End with an activation, as an encoder does.
    """
    linear = [nn.Linear(before, after) for before, after in pairwise(widths)]
    activated = [*([None] if first_activation else []), *linear[: len(linear) if last_activation else -1]]
    rates = [dropout] * len(activated) if isinstance(dropout, int | float) else list(dropout)
    if len(rates) != len(activated):
        raise ValueError(f"dropout is one rate, or one for each of {len(activated)} activations; got {rates}.")
    layers: list[nn.Module] = []
    for layer, rate in zip(activated, rates, strict=True):
        layers += [*([layer] if layer is not None else []), nn.ReLU(), *([Dropout(rate)] if rate else [])]
    return nn.Sequential(*layers, *(linear[-1:] if not last_activation else []))


class Dropout(nn.Module):
    """Dropout whose draws follow from a key, so that a model drops the same units alone and among others.

    The key is a buffer: whoever trains the model may set it, and each training pass moves it on.
    """

    key: Tensor

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"dropout is a probability in [0, 1); got {p}.")
        self.p = p
        self.register_buffer("key", keys.fresh(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        keep = keys.uniform(self.key, x.shape, x.device) >= self.p
        self.key = keys.fold(self.key, 1)
        return torch.where(keep, x / (1.0 - self.p), 0.0)

    def extra_repr(self) -> str:
        return f"p={self.p}"
