"""An objective with a penalty: its weight, and what the penalised prediction is compared with."""

from typing import cast

import torch
from torch import Tensor

from synib.kinds import check_kind
from synib.objective.base import Objective
from synib.objective.families import Family
from synib.objective.references import Reference, Uniform
from synib.objective.weights import Constant


class Penalised(Objective):
    """An objective that adds a weighted penalty against a reference; the weight may follow the training step.

    Args:
        weight: λ, a number or a schedule.
        reference: What the penalised prediction is compared with. Default: :class:`Uniform`.
        family, unimodal_weight, check: See :class:`Objective`.
    """

    step: Tensor

    def __init__(
        self,
        weight: float | Constant = 1.0,
        reference: Reference | None = None,
        family: Family | None = None,
        unimodal_weight: float = 1.0,
        check: bool | None = None,
    ) -> None:
        super().__init__(family, unimodal_weight, check)
        self.reference = (
            check_kind("reference", reference, Reference, "Uniform()") if reference is not None else Uniform()
        )
        self.weight = weight if isinstance(weight, Constant) else Constant(weight)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def weight_of_step(self) -> Tensor:
        """λ now; in training mode the step counts on, if the weight follows it."""
        weight = self.weight(self.step)
        if self.training and type(self.weight) is not Constant:  # what counts cannot be recorded as a CUDA graph
            self.step = self.step + 1
        return cast(Tensor, weight)
