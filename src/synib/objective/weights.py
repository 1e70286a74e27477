"""How strongly the penalty counts, and from when on: λ as a function of the training step."""

import torch
from torch import Tensor, nn

from synib.kinds import check_number, check_whole


class Constant(nn.Module):
    """The same weight at every step."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        number = weight.item() if isinstance(weight, Tensor) and weight.ndim == 0 else weight
        check_number("The weight of the penalty", number, least=0)
        # A buffer, so that models trained side by side may each have their own.
        self.register_buffer("weight", torch.tensor(float(number)), persistent=False)

    weight: Tensor

    def forward(self, step: Tensor) -> Tensor:
        return self.weight

    def extra_repr(self) -> str:
        return f"{self.weight.item():g}" if self.weight.ndim == 0 else f"{tuple(self.weight.shape)} weights"


class LinearWarmup(Constant):
    """The weight grows linearly from 0 and is full from step ``steps`` on.

    A step is a call of the objective in training mode: with gradient accumulation over m batches, give m times as many.
    """

    def __init__(self, weight: float, steps: int) -> None:
        super().__init__(weight)
        self.steps = check_whole("steps", steps)

    def forward(self, step: Tensor) -> Tensor:
        return self.weight * ((step + 1) / self.steps).clamp(max=1.0)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, steps={self.steps}"


class Annealing(Constant):
    """The weight falls linearly and is 0 from step ``steps`` on; steps count as in :class:`LinearWarmup`."""

    def __init__(self, weight: float, steps: int) -> None:
        super().__init__(weight)
        self.steps = check_whole("steps", steps)

    def forward(self, step: Tensor) -> Tensor:
        return self.weight * (1 - step / self.steps).clamp(min=0.0)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, steps={self.steps}"
