"""Normal noise with the statistics of the data it replaces."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from synib import keys
from synib.checks import check_number, check_widths
from synib.masks.noise import Noise, real_values
from synib.tokens import Modality, Tokens, values


class MatchedNoise(Noise):
    r"""Normal noise with the modality's running mean and variance (App. "Random masking", matched statistics).

    .. math:: \mu_t = \alpha \mu_{t-1} + (1 - \alpha)\,\mathbb E_B[z], \qquad
              \sigma^2_t = \alpha \sigma^2_{t-1} + (1 - \alpha)\,\mathrm{Var}_B[z]

    divided by :math:`1 - \alpha^t`, which corrects the bias towards the initial zeros. Statistics are kept for each
    coordinate of a vector, each feature of a token, each channel of a map; they update in training mode only and are
    part of ``state_dict``.

    When processes train replicas of one model (the objective receives the model in its DistributedDataParallel or FSDP
    wrapper, or ``group=``), all processes share the statistics of the joint batch, updated before the draw. All
    processes must then call the objective equally often in training mode.

    Args:
        momentum: :math:`\alpha`.
        widths: Modality → number of coordinates, features or channels, if known in advance; otherwise taken from the
            first batch.
    """

    follows_data = True

    def __init__(self, momentum: float = 0.99, widths: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.momentum = check_number("momentum", momentum, least=0, below=1)
        for name, width in check_widths("widths", {} if widths is None else widths).items():
            self._prepare(name, torch.zeros(width))

    def prepare(self, x: Modality, modality: str) -> None:
        self._prepare(modality, _statistics(x)[0])

    def observe(self, x: Modality, modality: str, group: Any = None, sample_weight: Tensor | None = None) -> None:
        if not self.training:
            return
        mean, variance, count = _statistics(x, sample_weight)
        self._prepare(modality, mean)
        self._check_width(modality, len(mean))
        anything = None if sample_weight is None else sample_weight.sum() > 0  # does any row count?
        if group is not None and dist.get_world_size(group) > 1:
            mean, variance, anything = _joint(mean, variance, count, group)
        for kind, new in (("mean", mean), ("variance", variance)):
            buffer = f"{kind}_{modality}"
            before = getattr(self, buffer).to(new.dtype)
            after = torch.lerp(new, before, self.momentum)
            setattr(self, buffer, after if anything is None else torch.where(anything, after, before))
        seen = getattr(self, f"seen_{modality}")
        setattr(self, f"seen_{modality}", seen + 1 if anything is None else seen + anything.to(seen.dtype))

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = real_values(x, modality, self)
        if not hasattr(self, f"mean_{modality}"):
            raise ValueError(
                f"MatchedNoise has not seen a training batch of {modality!r}: call the objective in training mode "
                "first, or load its state dict."
            )
        self._check_width(modality, v.shape[_feature_dim(v)])
        seen = getattr(self, f"seen_{modality}")
        debias = 1.0 - self.momentum ** seen.clamp(min=1).to(torch.float32)
        shape = _feature_shape(v)
        mean = (getattr(self, f"mean_{modality}") / debias).view(shape)
        variance = getattr(self, f"variance_{modality}") / debias
        deviation = torch.where(seen > 0, variance, 1.0).sqrt().view(shape)  # standard noise before the first batch
        draw = keys.normal(key, (draws * v.shape[0], *v.shape[1:]), v.device)
        return torch.addcmul(mean, deviation, draw).to(v.dtype)

    def _prepare(self, modality: str, like: Tensor) -> None:
        if not hasattr(self, f"mean_{modality}"):
            self.register_buffer(f"mean_{modality}", torch.zeros_like(like))
            self.register_buffer(f"variance_{modality}", torch.zeros_like(like))
            self.register_buffer(f"seen_{modality}", torch.zeros((), dtype=torch.int64, device=like.device))

    def _check_width(self, modality: str, width: int) -> None:
        known = len(getattr(self, f"mean_{modality}"))
        if width != known:
            raise ValueError(
                f"MatchedNoise expects {modality!r} with width {known}; got {width}: use a new MatchedNoise for "
                "other data."
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # A fresh object has no buffers before its first batch: make room for the ones that arrive.
        for entry, tensor in state_dict.items():
            if entry.startswith(f"{prefix}mean_"):
                self._prepare(entry.removeprefix(f"{prefix}mean_"), torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _statistics(x: Modality, sample_weight: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | int]:
    """The mean and variance of each feature over the batch in float32, and the number of values; padded tokens are excluded."""
    v = values(x).detach().float()
    around = tuple(d for d in range(v.ndim) if d != _feature_dim(v))
    if sample_weight is None and not isinstance(x, Tokens):
        return v.mean(around), v.var(around, correction=0), v.numel() // v.shape[_feature_dim(v)]
    counts = (~x.padding).unsqueeze(-1).float() if isinstance(x, Tokens) else v.new_ones((1,) * v.ndim)
    if sample_weight is not None:
        counts = counts * sample_weight.float().view(-1, *(1,) * (v.ndim - 1))
    count = counts.expand_as(v).sum(around)
    total = torch.where(count > 0, count, 1.0)
    mean = (v * counts).sum(around) / total
    return mean, ((v - mean.view(_feature_shape(v))).square() * counts).sum(around) / total, count


def _joint(mean: Tensor, variance: Tensor, count: Tensor | int, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The mean and variance over the batches of all processes, from those of each process and its count, and whether
    any row counts.
    """
    own = mean.double()  # the square of a mean is no small number
    moments = torch.stack([torch.ones_like(own), own, variance.double() + own.square()]) * count
    dist.all_reduce(moments, group=group)
    count_of_all, first, second = moments
    total = torch.where(count_of_all > 0, count_of_all, 1.0)
    joint = first / total
    joint_variance = (second / total - joint.square()).clamp(min=0.0)
    return joint.to(mean.dtype), joint_variance.to(mean.dtype), count_of_all.max() > 0


def _feature_dim(v: Tensor) -> int:
    return 1 if v.ndim >= 4 else v.ndim - 1  # channel maps are (batch, channels, height, width)


def _feature_shape(v: Tensor) -> tuple[int, ...]:
    return tuple(v.shape[d] if d == _feature_dim(v) else 1 for d in range(v.ndim))
