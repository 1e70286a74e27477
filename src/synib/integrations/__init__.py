"""SynIB inside other people's training: one thin file for each framework, imported by nobody here."""

from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist
from torch import Tensor

from synib import keys
from synib.checks import check_kind
from synib.objective import Objective, Parts
from synib.tokens import Modality

HOOKS = ("losses", "direction", "trains", "begin", "attach", "revises", "settle", "predict")


def check_objective(name: str, given: Any) -> Objective:
    """The objective, if its loss says all that it does, since the framework takes the gradient."""
    objective = check_kind(name, given, Objective, "synib.SynIB(weight=1.0)")
    more = [hook for hook in HOOKS if getattr(type(objective), hook) is not getattr(Objective, hook)]
    if more:
        raise ValueError(
            f"{type(objective).__name__} does more than a loss can say ({', '.join(more)}), and here the framework trains by "
            "the loss alone: train a FusionModel with synib.training.solo.fit, which runs on Lightning and has several devices."
        )
    return objective


def loss_of(
    objective: Objective,
    predict: Any,
    modalities: Mapping[str, Modality],
    target: Tensor,
    *,
    examples: Tensor | None = None,
    unimodal: Mapping[str, Callable[[Modality], Tensor]] | None = None,
) -> tuple[Tensor, Parts]:
    """What calling the objective gives; where several processes train together, right for them.

    Their generators usually have one seed: each process gets draws of its own. What the objective remembers of the data
    (the statistics of ``MatchedNoise``) becomes the mean over all processes.

    Args:
        objective: The objective.
        predict, modalities, target, examples, unimodal: As for calling it.
    """
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    key = keys.fold(keys.fresh(), "process", dist.get_rank()) if several else None
    found = objective(predict, modalities, target, key=key, examples=examples, unimodal=unimodal)
    if several and objective.training:
        _average(objective)
    return found


def _average(objective: Objective) -> None:
    kept = objective.state_dict().keys() - dict(objective.named_parameters()).keys()
    for name in sorted(kept):
        owner, _, buffer = name.rpartition(".")
        module = objective.get_submodule(owner)
        mine = getattr(module, buffer)
        if mine.is_floating_point():
            total = mine.clone()  # the loss's graph may hold the buffer itself
            dist.all_reduce(total)
            setattr(module, buffer, total / dist.get_world_size())
