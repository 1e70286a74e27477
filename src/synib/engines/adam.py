"""Adam over many models at once, each with its own learning rate and weight decay."""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor


class Adam:
    """``torch.optim.Adam`` (weight decay added to the gradient) on a matrix with a row of parameters for each model.

    On CUDA the update is compiled into one kernel: it is limited by memory, and would pass over the parameters a dozen
    times otherwise.

    Args:
        parameters: ``(models, parameters)``, changed in place.
        lr: Learning rate of each model.
        weight_decay: Weight decay of each model.
    """

    def __init__(self, parameters: Tensor, lr: Tensor, weight_decay: Tensor) -> None:
        self.parameters, self.lr, self.weight_decay = parameters, lr[:, None], weight_decay[:, None]
        self.first, self.second = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = 0

    def step(self, gradient: Tensor) -> None:
        """One update; the gradient's memory is reused."""
        self.steps += 1
        if self.parameters.is_cuda:
            # Numbers that change go in as tensors, or each step would compile anew.
            steps = torch.full((), self.steps, device=self.parameters.device)
            _compiled()(self.parameters, gradient, self.first, self.second, self.lr, self.weight_decay, steps)
        else:
            self._plain(gradient)

    def _plain(self, gradient: Tensor) -> None:
        gradient.addcmul_(self.parameters, self.weight_decay)
        self.first.lerp_(gradient, 0.1)
        self.second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = torch.sqrt(self.second, out=gradient).div_(math.sqrt(1 - 0.999**self.steps)).add_(1e-8)
        update = torch.div(self.first, scale, out=gradient).mul_(self.lr / (1 - 0.9**self.steps))
        self.parameters.sub_(update)


def update(
    parameters: Tensor, gradient: Tensor, first: Tensor, second: Tensor, lr: Tensor, weight_decay: Tensor, steps: Tensor
) -> None:
    """The same update in one expression, for a compiler to fuse; state and parameters change in place."""
    gradient = gradient + weight_decay * parameters
    new_first = torch.lerp(first, gradient, 0.1)
    new_second = torch.lerp(second, gradient * gradient, 0.001)
    # 1 - bᵗ through expm1, which keeps its digits in float32.
    scale = (new_second / -torch.expm1(steps * math.log(0.999))).sqrt() + 1e-8
    parameters.sub_(lr / -torch.expm1(steps * math.log(0.9)) * new_first / scale)
    first.copy_(new_first)
    second.copy_(new_second)


@functools.cache
def _compiled() -> Callable[..., None]:
    return torch.compile(update, dynamic=False)  # here and not at import, which it would slow down
