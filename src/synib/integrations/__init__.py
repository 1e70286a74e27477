"""SynIB inside other people's training: one thin file for each framework, imported by nobody here."""

from typing import Any

import torch.distributed as dist

from synib.checks import check_kind
from synib.methods.hooks import needs_trainer
from synib.objective import Objective


def check_objective(name: str, objective: Any) -> Objective:
    """The objective, if its loss says all that it does, since the framework takes the gradient."""
    checked = check_kind(name, objective, Objective, "synib.SynIB(weight=1.0)")
    if more := needs_trainer(checked):
        raise ValueError(
            f"{type(checked).__name__} {more}, and here the framework trains by the loss alone: train a FusionModel with "
            "synib.training.solo.fit, which runs on Lightning and has several devices."
        )
    return checked


def processes() -> Any:
    """The group of all processes where several train together, else ``None``."""
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return dist.group.WORLD if several else None
