"""Learned masking: for each example, search the fewest coordinates without which one modality predicts nothing."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from synib import keys
from synib.masks.base import Mask, Over, Probe, check_fraction, check_over, mask_shape
from synib.tokens import Modality, values

Norm = Literal["sum", "mean"]


class LearnedMask(Mask):
    r"""Per-example masks found by an inner loop against the unimodal predictor (Eq. mask-loss, App. "Synthetic").

    Starting from logits :math:`\ell`, Adam minimises, with fresh noise :math:`\epsilon` in every step,

    .. math:: -\mathrm{CE}\big(f_i((1 - m) \odot x_i + m \odot \epsilon),\, y\big) + \lambda_M \lVert m \rVert_1,
              \qquad m = \sigma(\ell / \tau),

    thresholds :math:`m`, and corrupts the complement: what the unimodal predictor relies on stays, the rest goes.

    Only the unimodal path runs in the inner loop, in evaluation mode; no gradient of a parameter is computed, and the
    model's gradients, buffers and modes are as they were.

    Args:
        steps: Inner Adam steps.
        lr: Their learning rate.
        sparsity: :math:`\lambda_M`.
        norm: Whether :math:`\lVert m \rVert_1` sums over coordinates, as the text has it, or averages.
        temperature: :math:`\tau`.
        init: Where the logits start.
        threshold: Above it a coordinate counts as found.
        complement: Corrupt what was *not* found (the paper); otherwise corrupt what was found.
        over: What is kept or corrupted together, as in :class:`RandomMask`.
        remember: Keep logits and Adam's moments for that many training examples and go on from them at each visit, so
            that a step or two per visit do the work of many. The objective must then be told which examples a batch
            holds (``examples=``). 0 starts anew every time, as in the paper.
    """

    probes = True
    sparsity: Tensor

    def __init__(
        self,
        steps: int = 20,
        lr: float = 0.1,
        sparsity: float = 1e-3,
        norm: Norm = "sum",
        temperature: float = 1.0,
        init: float = 0.0,
        threshold: float = 0.5,
        complement: bool = True,
        over: Over = "coordinates",
        remember: int = 0,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f"LearnedMask needs at least one step; got steps={steps}.")
        if lr <= 0 or temperature <= 0:
            raise ValueError(f"lr and temperature are positive; got lr={lr}, temperature={temperature}.")
        if sparsity < 0:
            raise ValueError(f"sparsity is a weight of at least 0; got {sparsity}.")
        if remember < 0:
            raise ValueError(f"remember is a number of training examples; got {remember}.")
        if norm not in ("sum", "mean"):
            raise ValueError(f"norm is 'sum' or 'mean'; got {norm!r}.")
        self.steps, self.lr, self.norm = steps, lr, norm
        # A buffer, so that models trained at once may each have their own.
        self.register_buffer("sparsity", torch.tensor(float(sparsity)), persistent=False)
        self.cost = 0.6 * steps
        self.temperature, self.init, self.complement = temperature, init, complement
        self.threshold = check_fraction("threshold", threshold)
        self.over = check_over(over)
        self.remember = remember

    def prepare(self, x: Modality, modality: str) -> None:
        if self.remember and not hasattr(self, f"logits_{modality}"):
            shape, device = (self.remember, *mask_shape(x, self.over)[1:]), values(x).device
            self.register_buffer(f"logits_{modality}", torch.full(shape, self.init, device=device))
            for kind in ("first", "second"):
                self.register_buffer(f"{kind}_{modality}", torch.zeros(shape, device=device))
            self.register_buffer(f"visits_{modality}", torch.zeros(self.remember, device=device))

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        v = values(x).detach()
        unimodal_loss = required_loss(self, probe)
        # The slope of the unimodal likelihood at the corrupted values; parameters are constants to torch.func.grad, and
        # autograd's own recording is off. The rest of the chain rule is short enough to write out, and cheaper so.
        slope = torch.func.grad(lambda corrupted: -unimodal_loss(corrupted).sum())
        with torch.no_grad():
            logits, first, second, before = self._recall(x, probe)
            price = self.sparsity.to(v.device) / (1 if self.norm == "sum" else math.prod(logits.shape[1:]))
            for step, step_key in enumerate(keys.split(key, self.steps).unbind(), 1):
                gate = torch.sigmoid(logits if self.temperature == 1.0 else logits / self.temperature)
                toward = probe.fill(step_key) - v
                gradient = slope(torch.addcmul(v, gate.to(v.dtype), toward)).mul(toward)
                gradient = _sum_to(gradient.to(gate.dtype), gate).add_(price).mul_(gate)
                gradient.mul_(gate.neg_().add_(1.0))  # d gate / d logit = gate (1 - gate), up to the temperature
                if self.temperature != 1.0:
                    gradient.div_(self.temperature)
                if step == 1:  # under vmap the first gradient decides what is batched; from then on all change in place
                    nothing = 0.0 * gradient
                    first, second, logits = first + nothing, second + nothing, logits + nothing
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient.square(), alpha=0.001)
                taken = step + before
                scale = torch.sqrt(second).mul_(_debias(0.999, taken) ** -0.5).add_(1e-8)
                change, rate = first.div(scale), self.lr / _debias(0.9, taken)
                if isinstance(rate, Tensor):
                    logits.sub_(change.mul_(rate))
                else:
                    logits.sub_(change, alpha=rate)
            if self.remember and self.training:
                self._keep(probe, logits, first, second)
            found = torch.sigmoid(logits / self.temperature) > self.threshold
        return ~found if self.complement else found

    def _recall(self, x: Modality, probe: Probe) -> tuple[Tensor, Tensor, Tensor, Tensor | int]:
        """Logits, moments and steps taken so far of the batch's examples; zeros where nothing is remembered."""
        shape, device = mask_shape(x, self.over), values(x).device
        if not self.remember:
            nothing = torch.zeros(shape, device=device)
            return torch.full(shape, self.init, device=device), nothing, nothing, 0
        if probe.examples is None:
            raise ValueError(
                f"LearnedMask(remember={self.remember}) must know which training examples a batch holds: pass "
                "examples=<their row numbers> to the objective."
            )
        self.prepare(x, probe.modality)
        kept = (getattr(self, f"{kind}_{probe.modality}")[probe.examples] for kind in ("logits", "first", "second"))
        visits = getattr(self, f"visits_{probe.modality}")[probe.examples]
        return (*kept, self.steps * visits.view(-1, *(1,) * (len(shape) - 1)))  # type: ignore[return-value]

    def _keep(self, probe: Probe, *state: Tensor) -> None:
        assert probe.examples is not None
        visits = getattr(self, f"visits_{probe.modality}")
        for kind, new in zip(
            ("logits", "first", "second", "visits"), (*state, visits[probe.examples] + 1), strict=True
        ):
            name = f"{kind}_{probe.modality}"
            setattr(self, name, getattr(self, name).index_put((probe.examples,), new))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # A fresh object has no memory before its first batch: make room for the one that arrives.
        for entry, tensor in state_dict.items():
            if self.remember and entry.startswith(f"{prefix}logits_"):
                self.prepare(tensor, entry.removeprefix(f"{prefix}logits_"))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return (
            f"steps={self.steps}, lr={self.lr}, sparsity={self.sparsity.item():g}, norm={self.norm!r}, init={self.init}, "
            f"over={self.over!r}"
        )


def _debias(decay: float, steps: Tensor | int) -> Any:
    """1 - decayᵗ, for a number or, through expm1 which keeps its digits in float32, for a tensor."""
    return 1 - decay**steps if isinstance(steps, int) else -torch.expm1(steps * math.log(decay))


def _sum_to(x: Tensor, like: Tensor) -> Tensor:
    """Sum over the dimensions in which ``like`` is 1 wide."""
    around = [d for d in range(x.ndim) if like.shape[d] == 1 and x.shape[d] != 1]
    return x.sum(around, keepdim=True) if around else x


def required_loss(mask: Mask, probe: Probe) -> Callable[[Tensor], Tensor]:
    """The unimodal loss that a searching mask descends, or the sentence that says it is missing."""
    if probe.loss is None:
        raise ValueError(
            f"{type(mask).__name__} searches against a unimodal predictor of {probe.modality!r}, and the model has none: "
            "give the FusionModel unimodal heads, or pass unimodal={name: predictor} to the objective."
        )
    return probe.loss
