"""The recorded step of the solo engine: when it is used, and what it computes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping, ModelSummary, ProgressBar, Timer
from torch import Tensor

from synib.data import Dataset
from synib.methods.hooks import WeighsGradients
from synib.objective import Parts
from synib.training.cells import Learner
from synib.training.gradient_hooks import watches_gradients
from synib.training.plan import Plan
from synib.training.recorded import CudaGraphs, Record
from synib.training.recorded_step import RecordedStep, fill_in
from synib.training.step import backward, trained

# Kinds of devices whose steps can be recorded, and how; tests of the same code on a CPU add tapes.
RECORDERS: dict[str, Callable[[torch.device], Record]] = {"cuda": CudaGraphs}
PASSIVE = (Checkpoint, EarlyStopping, ModelSummary, ProgressBar, Timer)  # callbacks that do not take part in a step
MEMORY = 0.25  # of the device: a recording keeps the memory of a step, and larger steps gain nothing


def obstacle(data: Dataset, plan: Plan, options: Mapping[str, Any]) -> str:
    """Why the steps of a run cannot be recorded; empty if they can.

    Args:
        data: The training data.
        plan: The training plan.
        options: ``accelerator``, ``devices``, ``strategy`` and ``callbacks`` of the trainer.
    """
    kind = "cuda" if options["accelerator"] in ("gpu", "cuda") else options["accelerator"]
    weight = data.train.sample_weight
    if kind not in RECORDERS:
        return f"CUDA graphs need a CUDA device; this run is on {kind}"
    if options.get("strategy", "auto") != "auto":
        return "the model is trained by several processes"
    if plan.precision != "32-true":
        return f"the precision is {plan.precision}; steps are recorded in 32-true"
    if plan.accumulate > 1:
        return "batches are split into micro-batches (accumulate)"
    if weight is not None and not bool((weight > 0).all()):
        return "some examples have weight 0"
    others = [c for c in options.get("callbacks", ()) if not isinstance(c, PASSIVE) or watches_gradients(c)]
    if others:
        return f"the callback {type(others[0]).__name__} may take part in a step"
    return ""


class SoloStep(RecordedStep):
    """The step that Lightning takes for a learner, as one function.

    Dropout draws from torch's generators, which the engine seeds before each step.

    Args:
        learner: The model and its method.
        optimizer: Its fused Adam.
        clip: Maximum norm of the gradient.
        device: The device of the run.
    """

    def __init__(
        self, learner: Learner, optimizer: torch.optim.Optimizer, clip: float | None, device: torch.device
    ) -> None:
        super().__init__(learner.method, learner.model, optimizer, clip)
        self.learner, self.device = learner, device
        self.record(RECORDERS[device.type](device))

    def __call__(self, *batch: Any, **options: Any) -> tuple[Tensor, Parts]:
        if self.steps == 1 and not self.reason and self.device.type == "cuda":
            used = torch.cuda.max_memory_allocated(self.device)
            if used > MEMORY * torch.cuda.get_device_properties(self.device).total_memory:
                self._plain(f"training needs more than {MEMORY:.0%} of the memory of the device")
        return super().__call__(*batch, **options)

    def forget(self) -> None:
        """Take plain steps from now on, if steps were recorded."""
        if self._recorded is not None and any(self._recorded.replays.values()):
            self._plain("the step changed after it was recorded")
        else:
            super().forget()

    def _gradients(
        self, modalities: Any, target: Tensor, key: Tensor, more: Mapping[str, Tensor]
    ) -> tuple[Tensor, Parts]:
        if isinstance(self.objective, WeighsGradients):
            return backward(self.objective, self.model, modalities, target, key=key, **more)
        total, parts = self.objective(self.model, modalities, target, key=key, **more)
        fill_in(total, trained(self.objective, self.learner.named_parameters()).values())
        return total.detach(), parts
