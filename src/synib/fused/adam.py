"""Adam for stacked models: torch's fused one, and on CUDA a kernel with the same bits that reaches the memory's speed."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor

from synib.fused.device import usable

BLOCK = 1024
LARGE = 1 << 20  # numbers of a parameter from which on it has a kernel of its own; torch updates all others at once
BETAS, EPSILON = (0.9, 0.999), 1e-8
ROUNDED = 0  # of four neighbours, the one whose weight decay torch's kernel rounds before it adds


class Adam:
    """Adam with a learning rate and a weight decay for each model.

    Args:
        parameters: Name → parameters of all models, one row each; changed in place.
        lr, weight_decay: For each model.
    """

    def __init__(self, parameters: Mapping[str, Tensor], lr: Sequence[float], weight_decay: Sequence[float]) -> None:
        device = next(iter(parameters.values())).device
        own = prepare(device)
        large = [name for name, p in parameters.items() if own and p.numel() >= LARGE and p[0].numel() % 4 == 0]
        self.large = {name: parameters[name] for name in large}
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.steps = torch.zeros(len(self.large), device=device)  # of each large parameter
        self.betas = torch.tensor(BETAS, device=device)
        self.lr, self.decay = (
            torch.tensor(list(each), dtype=torch.float32, device=device) for each in (lr, weight_decay)
        )
        groups, at = [], 0
        rest = {name: p for name, p in parameters.items() if name not in self.large}
        for (rate, decay), same in groupby(zip(lr, weight_decay, strict=True)):  # neighbours with the same settings
            rows = slice(at, at := at + len(list(same)))
            of_rows = [(name, p[rows]) for name, p in rest.items()]
            groups.append({"params": of_rows, "lr": rate, "weight_decay": decay, "rows": rows})
        fused = torch.optim.Adam(groups, fused=True, capturable=device.type == "cuda") if rest else None
        self.torch: torch.optim.Adam | None = fused

    def step(self, gradient: Mapping[str, Tensor]) -> None:
        """One step of the parameters that have a gradient; Adam leaves the others alone."""
        if self.large:
            self._large(gradient)
        if self.torch is None:
            return
        for group in self.torch.param_groups:
            for name, p in zip(group["param_names"], group["params"], strict=True):
                if name in gradient:
                    p.grad = gradient[name][group["rows"]].contiguous()  # the fused kernel does not look at strides
        self.torch.step()
        self.torch.zero_grad()

    def _large(self, gradient: Mapping[str, Tensor]) -> None:
        trained = [name in gradient for name in self.large]
        for steps in [self.steps] if all(trained) else [self.steps[i] for i, now in enumerate(trained) if now]:
            steps.add_(1)
        corrections = 1.0 - self.betas.pow(self.steps[:, None])
        for (name, p), of_parameter in zip(self.large.items(), corrections, strict=True):
            if name in gradient:
                if name not in self.moments:
                    self.moments[name] = torch.zeros_like(p), torch.zeros_like(p)
                _step(p, gradient[name].contiguous(), *self.moments[name], self.lr, self.decay, of_parameter)

    def clear(self) -> None:
        """Free the moments; a torch optimiser leads back to itself, and would keep them for a while."""
        self.moments.clear()
        self.large = {}
        if self.torch is not None:
            self.torch.state.clear()
            self.torch.param_groups.clear()


def prepare(device: torch.device) -> bool:
    """Compile the kernel for a device, and compare it with torch's; whether it can be used."""
    return usable("synib::adam", device, _check)


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


def _check(device: torch.device) -> bool:
    """Compares some steps of a few models with torch's."""
    generator = torch.Generator().manual_seed(0)
    start, *gradients = (torch.randn(3, 5000, generator=generator).to(device) for _ in range(9))
    lr, decay = [1e-2, 3e-4, 1e-3], [1e-3, 0.0, 1e-5]
    rates, decays, betas = (torch.tensor(each, device=device) for each in (lr, decay, BETAS))
    ours, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    theirs = [row.clone() for row in start]
    groups = [{"params": [p], "lr": rate, "weight_decay": d} for p, rate, d in zip(theirs, lr, decay, strict=True)]
    adam = torch.optim.Adam(groups, fused=True, capturable=True)
    for step, gradient in enumerate(gradients, 1):
        gradient = 1e-2 * gradient
        for p, own in zip(theirs, gradient, strict=True):
            p.grad = own.clone()
        adam.step()
        _step(
            ours, gradient, first, second, rates, decays, 1.0 - betas.pow(torch.full((1,), float(step), device=device))
        )
    return torch.equal(ours, torch.stack(theirs))
