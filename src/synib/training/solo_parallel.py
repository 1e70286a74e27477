"""What training on several devices takes: strategies of Lightning, sums over devices, parameters spread over them."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor, nn

from synib.training.learner import Learner

BUCKET = 1 << 23  # numbers that devices add up in one message


def strategy_of(name: str, devices: int) -> Strategy | str:
    """Lightning's strategy of a name of ours."""
    if name == "ddp":
        return Processes()
    if name == "fsdp":
        return ModelParallelStrategy(data_parallel_size=devices, tensor_parallel_size=1)
    return "auto"


def by_kind(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters that one operation can take together: the sharded ones apart from the others."""
    kinds: dict[bool, list[nn.Parameter]] = {}
    for p in parameters:
        kinds.setdefault(hasattr(p, "full_tensor"), []).append(p)
    return list(kinds.values())


def clip(trained: Sequence[nn.Parameter], most: float) -> None:
    """Shorten the gradient of all parameters together to a norm of at most so much."""
    kinds = by_kind(trained)
    norms: list[Any] = [nn.utils.get_total_norm([cast(Tensor, p.grad) for p in same]) for same in kinds]
    whole = torch.stack([n.full_tensor() if hasattr(n, "full_tensor") else n for n in norms]).norm()
    for same in kinds:
        nn.utils.clip_grads_with_norm_(same, most, whole)


class Processes(DDPStrategy):
    """A process for each device and nothing more: gradients of methods do not pass through DDP's hooks."""

    def configure_ddp(self) -> None:
        pass


def agree(module: nn.Module, device: torch.device) -> None:
    """Give every device the parameters and buffers of the first."""
    for tensor in [*module.parameters(), *module.buffers()]:
        there = tensor.detach().to(device, copy=True)
        dist.broadcast(there, 0)
        with torch.no_grad():
            tensor.copy_(there)


def add_up(tensors: Sequence[Tensor], times: float = 1.0) -> None:
    """Add tensors up over devices in place, in few messages."""
    by_kind: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        by_kind.setdefault(tensor.dtype, []).append(tensor)
    for same in by_kind.values():
        waiting: list[Tensor] = []
        for i, tensor in enumerate(same):
            waiting.append(tensor)
            if i == len(same) - 1 or sum(t.numel() for t in waiting) >= BUCKET:
                flat = torch.cat([t.reshape(-1) for t in waiting])
                dist.all_reduce(flat)
                for t, value in zip(waiting, flat.split([t.numel() for t in waiting]), strict=True):
                    t.copy_(value.view_as(t) * times if times != 1.0 else value.view_as(t))
                waiting = []


def shard(learner: Learner, mesh: Any) -> None:
    """Spread the parameters of every encoder, head and fusion over the devices (FSDP2)."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for model in (m for m in learner.modules() if hasattr(m, "encoders") and hasattr(m, "fusion")):
        for part in (*model.encoders.values(), *model.heads.values(), model.fusion):  # type: ignore[operator, union-attr]
            if part is None or not any(True for _ in part.parameters()):
                continue
            fully_shard(part, mesh=mesh)
            for name in ("project", "combine"):
                if hasattr(part, name):
                    register_fsdp_forward_method(part, name)
