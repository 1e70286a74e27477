"""Adam over many models at once, each with its own learning rate and weight decay."""

import math

import torch
from torch import Tensor


class Adam:
    """``torch.optim.Adam`` (weight decay added to the gradient) on a matrix with a row of parameters for each model.

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
        gradient.addcmul_(self.parameters, self.weight_decay)
        self.first.lerp_(gradient, 0.1)
        self.second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = torch.sqrt(self.second, out=gradient).div_(math.sqrt(1 - 0.999**self.steps)).add_(1e-8)
        update = torch.div(self.first, scale, out=gradient).mul_(self.lr / (1 - 0.9**self.steps))
        self.parameters.sub_(update)
