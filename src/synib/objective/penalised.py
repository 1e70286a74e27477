"""Objectives with a penalty: its weight, the schedule of the weight, and the reference of the penalised prediction."""

from typing import cast

import torch
from torch import Tensor, nn

from synib.checks import check_kind, check_number, check_whole, settings_repr, shown
from synib.objective.base import Objective
from synib.objective.families import Family
from synib.objective.references import Reference, Uniform


class Constant(nn.Module):
    """The same weight in every step.

    Attributes:
        changes: Whether the weight depends on the training step.
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
    """A weight that changes linearly over a number of steps.

    A step is one call of the objective in training mode: with gradient accumulation over m batches, multiply ``steps``
    by m.
    """

    changes = True

    def __init__(self, weight: float, steps: int) -> None:
        super().__init__(weight)
        self.steps = check_whole("steps", steps)


class LinearWarmup(LinearSchedule):
    """A weight that grows linearly from 0 and is constant from step ``steps`` on; see :class:`LinearSchedule`."""

    def forward(self, step: Tensor) -> Tensor:
        return self.weight * ((step + 1) / self.steps).clamp(max=1.0)


class Annealing(LinearSchedule):
    """A weight that falls linearly and is ``floor`` from step ``steps`` on; see :class:`LinearSchedule`.

    Args:
        weight: The weight in the first step.
        steps: Number of steps over which it falls.
        floor: The weight after these steps, at most ``weight``.
    """

    def __init__(self, weight: float, steps: int, floor: float = 0.0) -> None:
        super().__init__(weight, steps)
        self.floor = check_number("floor", floor, least=0)
        if floor > self.weight:
            raise ValueError(f"floor must be at most the weight, {self.weight.item():g}; got {shown(floor)}.")

    def forward(self, step: Tensor) -> Tensor:
        return self.floor + (self.weight - self.floor) * (1 - step / self.steps).clamp(min=0.0)


# The recipe of the fair comparison: the weight falls linearly to a small share of itself within most of the training.
WEIGHT, FLOOR, SHARE = 10.0, 0.01, 0.8


def weight_over(weight: float | Constant | None, steps: int | None) -> float | Constant:
    """The weight of a penalty in a training of so many steps: annealed if their number is known, otherwise as given, or 1."""
    if steps is None:
        return 1.0 if weight is None else weight
    if isinstance(weight, Constant):
        raise ValueError("Use either steps or a schedule as weight, not both.")
    first = check_number("The weight of the penalty", WEIGHT if weight is None else weight, least=0)
    return Annealing(first, max(1, round(SHARE * check_whole("steps", steps))), FLOOR * first)


class Scheduled(Objective):
    """An objective with a weight that may depend on the training step.

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
        """The current weight; in training mode this also advances the step of a schedule."""
        weight = self.weight(self.step)
        if self.training and self.weight.changes:
            self.step = self.step + 1
        return cast(Tensor, weight)


class Penalised(Scheduled):
    """An objective that adds a weighted penalty relative to a reference; the weight may depend on the training step.

    Args:
        weight: λ, a number or a schedule.
        reference: The distribution that the penalised prediction is compared with. Default: :class:`Uniform`.
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
    """The weighted mean; 0 without a gradient if all weights are 0."""
    total = weight.sum()
    return torch.where(weight > 0, weight * values, 0.0).sum() / torch.where(total > 0, total, 1.0)
