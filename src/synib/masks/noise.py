"""What replaces the corrupted coordinates."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from synib import keys
from synib.checks import check_number, check_widths
from synib.tokens import Modality, Tokens, values, with_values


class Noise(nn.Module):
    """Base of all fills: draws replacements for a modality's values, independent of the target.

    Attributes:
        shuffles: Whether a replacement is another row of the same batch, the one that :meth:`rows` names. Together with a
            mask over the whole modality this lets the objective reuse what it has already encoded.
        within_classes: Whether :meth:`rows` wants to know which class each row's own values predict.
        counts: Whether what :meth:`observe` is shown counts. An engine says no of rows that only keep other processes company.
    """

    shuffles: bool = False
    within_classes: bool = False
    counts: bool = True

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        """``draws`` replacements for every row, one draw after the other: ``(draws * batch, ...)``."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, key, modality, draws).")

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        """Which row fills which, one draw after the other: ``(draws * batch,)``; for noise that shuffles.

        Args:
            key: Decides the draw.
            batch: Number of rows.
            draws: How many fills each row gets.
            device: Where the result is to be.
            classes: What each row's own values predict, for noise that is ``within_classes``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define rows(key, batch, draws, device, classes), since it shuffles."
        )

    def prepare(self, x: Modality, modality: str) -> None:
        """Make room for what :meth:`observe` will keep, where the first batch cannot (under ``vmap``)."""

    def observe(self, x: Modality, modality: str) -> None:
        """Take note of a training batch, for fills that follow the data."""

    def corrupt(self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1) -> Modality:
        r"""The gate :math:`\tilde x = (1 - M) \odot x + M \odot \epsilon` (Eq. gate-app), ``draws`` times."""
        rows = draws * values(x).shape[0]
        original, mask = _for_each_draw(values(x), rows), _for_each_draw(mask, rows)
        return with_values(x, torch.where(mask, self(x, key, modality, draws), original))


class StandardNoise(Noise):
    r"""Standard normal fill, :math:`\epsilon \sim \mathcal N(0, I)`: the paper's choice for its synthetic tasks.

    On real data a network can learn to recognise it and keep its shortcut for inputs that look real; prefer
    :class:`ShuffledNoise` there.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = _real(x, modality, self)
        return keys.normal(key, (draws * v.shape[0], *v.shape[1:]), v.device).to(v.dtype)


class MatchedNoise(Noise):
    r"""Normal fill with the modality's own running mean and variance (App. "Random masking", matched statistics).

    .. math:: \mu_t = \alpha \mu_{t-1} + (1 - \alpha)\,\mathbb E_B[z], \qquad
              \sigma^2_t = \alpha \sigma^2_{t-1} + (1 - \alpha)\,\mathrm{Var}_B[z]

    divided by :math:`1 - \alpha^t`, so that the first batch counts fully instead of a hundredth. Statistics are kept for
    each coordinate of a vector, each feature of a token, each channel of a map; they update in training mode only and
    are part of ``state_dict``.

    Where processes train together (``torch.distributed``), a batch is what all of them hold: every process has the statistics
    of the joint batch, before it draws. All must then call the objective equally often in training mode.

    Args:
        momentum: :math:`\alpha`.
        widths: For each modality the number of coordinates, features or channels, if known beforehand; otherwise taken
            from the first batch.
    """

    def __init__(self, momentum: float = 0.99, widths: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.momentum = check_number("momentum", momentum, least=0, below=1)
        for name, width in check_widths("widths", {} if widths is None else widths).items():
            self._prepare(name, torch.zeros(width))

    def prepare(self, x: Modality, modality: str) -> None:
        self._prepare(modality, _statistics(x)[0])

    def observe(self, x: Modality, modality: str) -> None:
        if not self.training:
            return
        mean, variance = _statistics(x)
        self._prepare(modality, mean)
        self._check_width(modality, len(mean))
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            mean, variance = _joint(mean, variance, _count(x) if self.counts else 0)
        for kind, new in (("mean", mean), ("variance", variance)):
            buffer = f"{kind}_{modality}"
            setattr(self, buffer, torch.lerp(new, getattr(self, buffer).to(new.dtype), self.momentum))
        setattr(self, f"seen_{modality}", getattr(self, f"seen_{modality}") + 1)

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = _real(x, modality, self)
        if not hasattr(self, f"mean_{modality}"):
            raise ValueError(
                f"MatchedNoise has seen no training batch of {modality!r} yet: call the objective in training mode first, "
                "or load its state."
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
                f"MatchedNoise knows {modality!r} as {known} wide; got {width}: other data need another noise."
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # A fresh object has no buffers before its first batch: make room for the ones that arrive.
        for entry, tensor in state_dict.items():
            if entry.startswith(f"{prefix}mean_"):
                self._prepare(entry.removeprefix(f"{prefix}mean_"), torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return f"momentum={self.momentum}"


class ShuffledNoise(Noise):
    """Another example's values: a fill that looks like data because it is data.

    Rows are put on a random circle and each takes the values of the next ones, so that no row is ever filled with
    itself, and several draws of one row differ as long as the batch has enough others.
    """

    shuffles = True

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = values(x)
        return v[self.rows(key, v.shape[0], draws, v.device)]

    def corrupt(self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1) -> Modality:
        corrupted = super().corrupt(x, mask, key, modality, draws)
        if isinstance(x, Tokens) and isinstance(corrupted, Tokens) and mask.shape[-1] == 1:
            # A whole token that came from another example brings its padding along.
            swapped = _for_each_draw(mask, corrupted.values.shape[0]).squeeze(-1)
            theirs = x.padding[self.rows(key, x.padding.shape[0], draws, x.padding.device)]
            return Tokens(corrupted.values, torch.where(swapped, theirs, corrupted.padding))
        return corrupted

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        if batch < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 rows in a batch, since a single one has no other to take values from; "
                f"got {batch}. Drop the last batch (drop_last=True) if it is that small."
            )
        order = keys.permutation(key, batch, device)
        place = order.argsort()
        shift = torch.arange(draws, device=order.device) % (batch - 1) + 1
        return order[(place + shift[:, None]) % batch].reshape(-1)


class ClassShuffledNoise(ShuffledNoise):
    """Another example's values that say the same on their own: the modality's unimodal head predicts the same class.

    What the modality tells alone stays, and whatever else it holds is exchanged. A row that is alone in its class is filled
    as by :class:`ShuffledNoise`. For masks over the whole modality, ``RandomMask(1.0)``, and models with unimodal heads.
    """

    within_classes = True

    def corrupt(self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1) -> Modality:
        raise ValueError(
            "ClassShuffledNoise swaps whole modalities by what they predict: use it in SynIB with RandomMask(1.0), or "
            "ShuffledNoise() here."
        )

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        anybody = super().rows(key, batch, draws, device).view(draws, batch)
        if classes is None:
            raise ValueError("ClassShuffledNoise needs classes: what each row's own values predict.")
        order = keys.permutation(keys.fold(key, "classes"), batch, device)
        order = order[classes[order].argsort(stable=True)]  # one class after the other, each in random order
        alike = classes[order][:, None] == classes[order]
        first, size = alike.int().argmax(1), alike.sum(1)
        shift = torch.arange(draws, device=order.device)[:, None] % (size - 1).clamp(min=1) + 1
        at = first + (torch.arange(batch, device=order.device) - first + shift) % size
        place = order.argsort()
        return torch.where(size[place] > 1, order[at][:, place], anybody).reshape(-1)


class HideTokens(Noise):
    """Corrupted tokens are hidden from attention instead of replaced (the key-padding form of a token mask).

    For modalities given as :class:`~synib.Tokens`. The model sees them only through its ``key_padding_mask``, so it must
    attend to something else besides (a class token, the other modality), or hidden rows have nothing to attend to.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        raise ValueError(
            "HideTokens hides tokens and has no values to mix in, which a mask that searches would need; use "
            "StandardNoise, MatchedNoise or ShuffledNoise with learned and amortised masks."
        )

    def corrupt(self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1) -> Modality:
        if not isinstance(x, Tokens):
            raise ValueError(
                f"HideTokens needs {modality!r} as synib.Tokens(values, padding); got a tensor of shape {tuple(x.shape)}."
            )
        if mask.ndim != 3 or mask.shape[-1] != 1:
            raise ValueError(
                f"HideTokens hides whole tokens: use a mask over 'tokens' or 'modality'; got a mask shaped {tuple(mask.shape)}."
            )
        rows = draws * x.padding.shape[0]
        hidden = _for_each_draw(x.padding, rows) | _for_each_draw(mask.squeeze(-1), rows)
        return Tokens(_for_each_draw(x.values, rows).expand(rows, -1, -1), hidden.expand(rows, -1))


def _real(x: Modality, modality: str, noise: Noise) -> Tensor:
    """The values, if normal draws can replace them."""
    v = values(x)
    if not v.is_floating_point():
        kind = "truth values" if v.dtype == torch.bool else "whole numbers"
        raise ValueError(
            f"{modality!r} holds {kind} ({v.dtype}), and {type(noise).__name__} draws real ones: embed them first, or "
            "swap them with ShuffledNoise()."
        )
    return v


def _for_each_draw(t: Tensor, rows: int) -> Tensor:
    """The tensor once for each draw, unless it already has all rows or the same single row serves them all."""
    return t if t.shape[0] in (1, rows) else t.repeat(rows // t.shape[0], *(1,) * (t.ndim - 1))


def _statistics(x: Modality) -> tuple[Tensor, Tensor]:
    """Mean and variance of each feature over the batch, in float32, padded tokens left out."""
    v = values(x).detach().float()
    if isinstance(x, Tokens):
        here = (~x.padding).unsqueeze(-1).float()
        count = here.sum((0, 1)).clamp(min=1.0)
        mean = (v * here).sum((0, 1)) / count
        return mean, ((v - mean).square() * here).sum((0, 1)) / count
    around = tuple(d for d in range(v.ndim) if d != _feature_dim(v))
    return v.mean(around), v.var(around, correction=0)


def _count(x: Modality) -> Tensor | int:
    """Of how many numbers each feature's statistics are."""
    if isinstance(x, Tokens):
        return (~x.padding).sum()
    return x.numel() // x.shape[_feature_dim(x)]


def _joint(mean: Tensor, variance: Tensor, count: Tensor | int) -> tuple[Tensor, Tensor]:
    """Mean and variance over the batches of all processes, from those of each and its count; in one message."""
    own = mean.double()  # the square of a mean is no small number
    moments = torch.stack([torch.ones_like(own), own, variance.double() + own.square()]) * count
    dist.all_reduce(moments)
    total, first, second = moments
    joint = first / total.clamp(min=1.0)
    return joint.to(mean.dtype), (second / total.clamp(min=1.0) - joint.square()).clamp(min=0.0).to(mean.dtype)


def _feature_dim(v: Tensor) -> int:
    return 1 if v.ndim >= 4 else v.ndim - 1  # channel maps are (batch, channels, height, width)


def _feature_shape(v: Tensor) -> tuple[int, ...]:
    return tuple(v.shape[d] if d == _feature_dim(v) else 1 for d in range(v.ndim))
