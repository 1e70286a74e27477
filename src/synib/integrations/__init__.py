"""SynIB in other training frameworks: one thin file for each, not imported by the rest of the package."""

from typing import Any

import torch.distributed as dist

from synib.checks import check_kind
from synib.methods.hooks import needs_trainer
from synib.objective import Objective


def check_objective(name: str, objective: Any) -> Objective:
    """Return the objective if it consists of a loss only, because the framework computes the gradient."""
    checked = check_kind(name, objective, Objective, "synib.SynIB(weight=1.0)")
    if more := needs_trainer(checked):
        raise ValueError(
            f"{type(checked).__name__} {more}, but here the framework uses only the loss: train a FusionModel "
            "with synib.training.solo.fit, which uses Lightning and supports several devices."
        )
    return checked


def processes() -> Any:
    """The group of all processes if several train together, otherwise ``None``."""
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return dist.group.WORLD if several else None
