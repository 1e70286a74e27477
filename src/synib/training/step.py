"""The gradient of one batch: for a plain loop, for many models at once, and for several devices.

:func:`step` is a pure function of parameters, buffers, batch and key, which the fleet runs under ``torch.func.vmap``.
:func:`backward` does the same for a module and fills in ``.grad``. Both train the parameters that require a gradient
and that the method trains in this epoch.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

from synib import keys
from synib.methods.hooks import TrainsInStages, WeighsGradients
from synib.objective import Batch, Objective, Parts
from synib.objective.checks import check_batch, explain
from synib.objective.wrappers import is_sharded, replicas, unwrap
from synib.tokens import Modality
from synib.training.cells import Learner


class Step(NamedTuple):
    """The result of one batch.

    Args:
        gradient: Parameter → gradient for the optimiser, for the parameters that are currently trained.
        buffers: All buffers after the step.
        parts: The losses to log.
    """

    gradient: dict[str, Tensor]
    buffers: dict[str, Tensor]
    parts: Parts


def losses(method: Objective, model: Any, batch: Batch, key: Tensor) -> tuple[dict[str, Tensor], Parts]:
    """The losses of a batch whose gradients form the step, and the parts to log; most methods have one loss."""
    if isinstance(method, WeighsGradients):
        return method.losses(model, batch, key)
    total, parts = method.loss(model, batch, key)
    if not isinstance(total, Tensor) or total.ndim:
        kind = f"shape {tuple(total.shape)}" if isinstance(total, Tensor) else type(total).__name__
        raise ValueError(
            f"{type(method).__name__}.loss must return a single number as its total; got {kind}: take the mean."
        )
    return {"total": total}, parts


def trained(method: Objective, parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """The parameters that change in this epoch: not frozen, and trained by the method."""
    stages = method if isinstance(method, TrainsInStages) else None
    return {name: p for name, p in parameters if p.requires_grad and (stages is None or stages.trains(name))}


def step(
    learner: Learner, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], batch: Batch, key: Tensor
) -> Step:
    """The gradient of a batch as a pure function; the learner provides the code but none of its own values.

    Args:
        learner: A model and its method.
        parameters, buffers: All parameters and buffers, by the learner's names.
        batch: The examples.
        key: Key of random draws.
    """
    changing = {name: parameters[name] for name in trained(learner.method, learner.named_parameters())}
    fixed = {name: p for name, p in parameters.items() if name not in changing}
    names: list[str] = []

    def run(learner: Learner) -> tuple[Tensor, tuple[Parts, dict[str, Tensor]]]:
        each_loss, parts = losses(learner.method, learner.model, batch, key)
        names[:] = each_loss
        return torch.stack(list(each_loss.values())), (parts, dict(learner.named_buffers()))

    def of_changing(values: Mapping[str, Tensor]) -> Any:
        return functional_call(learner, {**fixed, **values, **buffers}, (run,))

    values, pull, (parts, left) = cast(Any, torch.func.vjp(of_changing, changing, has_aux=True))
    each = torch.eye(len(names), dtype=values.dtype, device=values.device)
    gradients = [pull(row)[0] for row in each]
    if not isinstance(learner.method, WeighsGradients):
        return Step(gradients[0], left, parts)
    # One loss needs no copy of its gradient, which is as large as all the models.
    stacked = {n: torch.stack([g[n] for g in gradients]) if len(names) > 1 else gradients[0][n][None] for n in changing}
    return Step(learner.method.direction(stacked, names, parts, keys.fold(key, "direction")), left, parts)


def backward(
    method: Objective,
    model: nn.Module,
    modalities: Mapping[str, Modality],
    target: Tensor,
    *,
    key: Tensor | None = None,
    examples: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> tuple[Tensor, Parts]:
    """The loss of a batch, with the gradients of the parameters filled in: ``loss.backward()`` for every method.

    Methods that combine the gradients of several losses need this function instead of ``loss.backward()``; parameters
    that a method does not train in this epoch get no gradient. Gradients accumulate until they are set to zero. For a
    model in DistributedDataParallel, each process gets the mean of all processes' gradients.

    Args:
        method: The method.
        model: The model to train, possibly inside a wrapper that does not shard its parameters.
        modalities, target, key, examples, sample_weight: As in a call of the method.

    Example:
        >>> import torch, synib
        >>> from synib.methods import MMPareto
        >>> from synib.training import backward
        >>> model = synib.FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3, head_hidden=[])
        >>> batch = {"image": torch.randn(32, 8), "text": torch.randn(32, 4)}
        >>> loss, parts = backward(MMPareto(), model, batch, torch.randint(3, (32,)))
    """
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"backward fills in the gradients of a module's parameters, but got {type(model).__name__}: call "
            "the objective, then loss.backward()."
        )
    if not torch.is_grad_enabled():
        raise ValueError("backward needs gradients, but torch.no_grad() disables them: call it outside.")
    if is_sharded(model):
        raise ValueError(
            f"backward needs unsharded parameters, but FSDP has sharded those of {type(model).__name__}: call "
            "the objective, then loss.backward()."
        )
    inner, group = unwrap(model), replicas(model)
    names = getattr(inner, "names", None)
    look = check_batch(modalities, target, names, examples, sample_weight, key, method.value_check())
    key = keys.fresh() if key is None else key
    owned = (("model", inner), ("method", method))
    named = ((f"{who}.{name}", p) for who, module in owned for name, p in module.named_parameters())
    changing = trained(method, named)
    if not changing:
        raise ValueError(
            "There is nothing to train: no parameter of the model or the method currently requires a gradient."
        )
    batch = Batch(modalities, target, examples, sample_weight, group=group, check_values=look)
    try:
        each_loss, parts = losses(method, inner, batch, key)
    except (RuntimeError, TypeError) as mistake:
        explain(mistake, inner, modalities)
        raise
    several = len(each_loss) > 1
    gradients = [
        torch.autograd.grad(loss, list(changing.values()), retain_graph=several, materialize_grads=True)
        if loss.requires_grad  # else it reaches frozen parameters only
        else tuple(map(torch.zeros_like, changing.values()))
        for loss in each_loss.values()
    ]
    if isinstance(method, WeighsGradients):
        stacked = {n: torch.stack(each) for n, each in zip(changing, zip(*gradients, strict=True), strict=True)}
        direction = method.direction(stacked, list(each_loss), parts, keys.fold(key, "direction"))
    else:
        direction = dict(zip(changing, gradients[0], strict=True))
    for name, gradient in direction.items():
        p = changing[name]
        if group is not None:
            dist.all_reduce(gradient, group=group)
            gradient /= dist.get_world_size(group)
        # Of a sum, autograd gives both terms one tensor; what is changed in place later must be each parameter's own.
        p.grad = gradient.clone() if p.grad is None else p.grad + gradient
    return torch.stack(list(each_loss.values())).sum().detach(), parts
