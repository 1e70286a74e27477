"""Adam for stacked models: torch's fused one, and on CUDA a kernel with the same bits that reaches the memory's speed."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.optim.adam import adam

from synib.fused.device import is_usable, usable

NAME = "synib::adam"
BLOCK = 1024
LARGE = 1 << 20  # numbers of a parameter from which on it has a kernel of its own; torch updates all others at once
BETAS, EPSILON = (0.9, 0.999), 1e-8
ROUNDED = 0  # of four neighbours, the one whose weight decay torch's kernel rounds before it adds


class Adam:
    """Adam with a learning rate and a weight decay for each model.

    Args:
        parameters: Name → parameters of all models, one row each; changed in place.
        lr, weight_decay: For each model.

    Attributes:
        large: The parameters that have a kernel of their own.
        groups: Rows of neighbours with the same settings, which torch updates at once, with these settings.
    """

    def __init__(self, parameters: Mapping[str, Tensor], lr: Sequence[float], weight_decay: Sequence[float]) -> None:
        device = next(iter(parameters.values())).device
        has_kernel = prepare(device)
        self.large = {
            name: p for name, p in parameters.items() if has_kernel and _is_large(p) and p[0].numel() % 4 == 0
        }
        self.rest = {name: p for name, p in parameters.items() if name not in self.large}
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.steps = torch.zeros(len(self.large), device=device)  # of each large parameter
        self.betas = torch.tensor(BETAS, device=device)
        self.lr, self.decay = (
            torch.tensor(list(each), dtype=torch.float32, device=device) for each in (lr, weight_decay)
        )
        self.groups: list[tuple[slice, float, float]] = []
        at = 0
        for (rate, decay), same in groupby(zip(lr, weight_decay, strict=True)):
            self.groups.append((slice(at, at := at + len(list(same))), rate, decay))
        self.group_steps: dict[tuple[str, int], Tensor] = {}

    def step(self, gradient: Mapping[str, Tensor]) -> None:
        """One step of the parameters that have a gradient; the others stay as they are."""
        with torch.no_grad():
            if self.large:
                self._step_large(gradient)
            names = [name for name in self.rest if name in gradient]
            for number, (rows, lr, decay) in enumerate(self.groups) if names else ():
                self._step_group(number, names, gradient, rows, lr, decay)

    def _step_large(self, gradient: Mapping[str, Tensor]) -> None:
        trained = [name in gradient for name in self.large]
        for steps in [self.steps] if all(trained) else [self.steps[i] for i, now in enumerate(trained) if now]:
            steps.add_(1)
        corrections = 1.0 - self.betas.pow(self.steps[:, None])
        for (name, p), of_parameter in zip(self.large.items(), corrections, strict=True):
            if name in gradient:
                _step(p, gradient[name].contiguous(), *self._moments(name, p), self.lr, self.decay, of_parameter)

    def _step_group(
        self, number: int, names: Sequence[str], gradient: Mapping[str, Tensor], rows: slice, lr: float, decay: float
    ) -> None:
        for name in names:
            if (name, number) not in self.group_steps:
                self.group_steps[name, number] = torch.zeros((), device=self.steps.device)
        moments = [self._moments(name, self.rest[name]) for name in names]
        adam(
            [self.rest[name][rows] for name in names],
            [gradient[name][rows].contiguous() for name in names],  # the fused kernel does not look at strides
            [first[rows] for first, _ in moments],
            [second[rows] for _, second in moments],
            [],
            [self.group_steps[name, number] for name in names],
            fused=True,
            capturable=self.steps.is_cuda,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=lr,
            weight_decay=decay,
            eps=EPSILON,
            maximize=False,
        )

    def _moments(self, name: str, p: Tensor) -> tuple[Tensor, Tensor]:
        if name not in self.moments:
            self.moments[name] = torch.zeros_like(p), torch.zeros_like(p)
        return self.moments[name]


def prepare(device: torch.device) -> bool:
    """Compile the kernel for a device, and compare it with torch's; whether it can be used."""
    return usable(NAME, device, _check)


def _is_large(p: Tensor) -> bool:
    return p.numel() >= LARGE and p.dtype == torch.float32 and p.is_contiguous()


def _step(
    p: Tensor, gradient: Tensor, first: Tensor, second: Tensor, lr: Tensor, decay: Tensor, corrections: Tensor
) -> None:
    from synib.fused import kernels

    per = p[0].numel()
    blocks = -(-per // BLOCK)
    with torch.cuda.device_of(p):
        kernels.adam[(len(p) * blocks,)](
            p, gradient, first, second, lr, decay, corrections, per, blocks,
            BETA_1=BETAS[0], BETA_2=BETAS[1], EPSILON=EPSILON, ROUNDED=ROUNDED, BLOCK=BLOCK,
            enable_fp_fusion=False,
        )  # fmt: skip


def keep_finite(now: Tensor, good: Tensor, failed: Tensor) -> None:
    """Restore the rows of failed models from their last good state, and remember the others; in place."""
    if _is_large(now) and is_usable(NAME, now.device):
        from synib.fused import kernels

        per = now[0].numel()
        blocks = -(-per // BLOCK)
        with torch.cuda.device_of(now):
            kernels.keep_finite[(len(now) * blocks,)](now, good, failed.view(torch.uint8), per, blocks, BLOCK=BLOCK)
        return
    torch.where(failed.view(-1, *[1] * (now.ndim - 1)), good, now, out=now)
    good.copy_(now)


def _check(device: torch.device) -> bool:
    """Compares some steps of a few models with torch's."""
    generator = torch.Generator().manual_seed(0)
    start, *gradients = (torch.randn(3, 5000, generator=generator).to(device) for _ in range(9))
    lr, decay = [1e-2, 3e-4, 1e-3], [1e-3, 0.0, 1e-5]
    rates, decays, betas = (torch.tensor(each, device=device) for each in (lr, decay, BETAS))
    ours, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    theirs = [row.clone() for row in start]
    groups = [{"params": [p], "lr": rate, "weight_decay": d} for p, rate, d in zip(theirs, lr, decay, strict=True)]
    reference = torch.optim.Adam(groups, fused=True, capturable=True)
    for step, gradient in enumerate(gradients, 1):
        gradient = 1e-2 * gradient
        for p, own in zip(theirs, gradient, strict=True):
            p.grad = own.clone()
        reference.step()
        _step(
            ours, gradient, first, second, rates, decays, 1.0 - betas.pow(torch.full((1,), float(step), device=device))
        )
    return torch.equal(ours, torch.stack(theirs))
