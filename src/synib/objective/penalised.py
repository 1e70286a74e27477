"""An objective with a penalty: how strongly it counts and from when on, and what the penalised prediction is compared with."""

from typing import cast

import torch
from torch import Tensor, nn

from synib.checks import check_kind, check_number, check_whole, settings_repr
from synib.objective.base import Objective
from synib.objective.families import Family
from synib.objective.references import Reference, Uniform


class Constant(nn.Module):
    """The same weight at every step.

    Attributes:
        changes: Whether the weight follows the training step.
    """

    changes: bool = False

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
        return settings_repr(self)


class LinearSchedule(Constant):
    """A weight that changes linearly, for so many steps.

    A step is a call of the objective in training mode: with gradient accumulation over m batches, give m times as many.
    """

    changes = True

    def __init__(self, weight: float, steps: int) -> None:
        super().__init__(weight)
        self.steps = check_whole("steps", steps)


class LinearWarmup(LinearSchedule):
    """The weight grows linearly from 0 and is full from step ``steps`` on; see :class:`LinearSchedule`."""

    def forward(self, step: Tensor) -> Tensor:
        return self.weight * ((step + 1) / self.steps).clamp(max=1.0)


class Annealing(LinearSchedule):
    """The weight falls linearly and is 0 from step ``steps`` on; see :class:`LinearSchedule`."""

    def forward(self, step: Tensor) -> Tensor:
        return self.weight * (1 - step / self.steps).clamp(min=0.0)


class Scheduled(Objective):
    """An objective with a weight that may follow the training step.

    Args:
        weight: A number or a schedule.
        family, unimodal_weight, check: See :class:`Objective`.
    """

    step: Tensor

    def __init__(
        self,
        weight: float | Constant = 1.0,
        family: Family | None = None,
        unimodal_weight: float = 1.0,
        check: bool | None = None,
    ) -> None:
        super().__init__(family, unimodal_weight, check)
        self.weight = weight if isinstance(weight, Constant) else Constant(weight)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def scheduled_weight(self) -> Tensor:
        """The weight now; in training mode the step counts on, if the weight follows it."""
        weight = self.weight(self.step)
        if self.training and self.weight.changes:
            self.step = self.step + 1
        return cast(Tensor, weight)


class Penalised(Scheduled):
    """An objective that adds a weighted penalty against a reference; the weight may follow the training step.

    Args:
        weight: λ, a number or a schedule.
        reference: What the penalised prediction is compared with. Default: :class:`Uniform`.
        family, unimodal_weight, check: See :class:`Objective`.
    """

    def __init__(
        self,
        weight: float | Constant = 1.0,
        reference: Reference | None = None,
        family: Family | None = None,
        unimodal_weight: float = 1.0,
        check: bool | None = None,
    ) -> None:
        super().__init__(weight, family, unimodal_weight, check)
        self.reference = (
            check_kind("reference", reference, Reference, "Uniform()") if reference is not None else Uniform()
        )


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """The mean of what counts; 0 where nothing does, and then without a gradient."""
    total = weight.sum()
    return torch.where(weight > 0, weight * values, 0.0).sum() / torch.where(total > 0, total, 1.0)
