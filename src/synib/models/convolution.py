"""A small convolutional network on spectrograms, written in matrix products, so that a fleet can train it."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from synib.checks import check_whole
from synib.models.mlp import Dropout, check_layers
from synib.tokens import Tokens, describe


class TemporalCNN(nn.Module):
    """Maps a spectrogram, ``(batch, frames, bands)``, to a vector: strided convolutions over time, then mean and maximum.

    Args:
        bands: Width of a frame.
        channels: Output channels of the convolutions.
        width: Width of the vector.
        kernel, stride: Frames that a convolution sees, and frames from one output to the next.
        dropout: Dropout rate after every activation, drawn by keys.
    """

    def __init__(
        self,
        bands: int,
        channels: Sequence[int] = (64, 64, 64),
        width: int = 64,
        kernel: int = 5,
        stride: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_layers("channels", channels, "the channels of the convolutions")
        self.kernel, self.stride = check_whole("kernel", kernel), check_whole("stride", stride)
        widths = [check_whole("bands", bands), *channels]
        self.maps = nn.ModuleList(nn.Linear(kernel * a, b) for a, b in pairwise(widths))
        self.out = nn.Linear(2 * widths[-1], width)
        self.drops = nn.ModuleList(Dropout(dropout) for _ in range(len(channels) + 1))

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tokens) or x.ndim != 3 or x.shape[-1] * self.kernel != self.maps[0].in_features:
            bands = self.maps[0].in_features // self.kernel  # type: ignore[operator]
            raise ValueError(f"Spectrograms must have shape (batch, frames, {bands}); got {describe(x)}.")
        for linear, drop in zip(self.maps, self.drops, strict=False):
            x = drop(linear(self._windows(x)).relu())
        pooled = torch.cat([x.mean(-2), x.amax(-2)], -1)
        return self.drops[-1](self.out(pooled).relu())

    def _windows(self, x: Tensor) -> Tensor:
        """The frames under each place of a convolution, next to each other."""
        count = (x.shape[-2] - self.kernel) // self.stride + 1
        if count < 1:
            raise ValueError(f"A spectrogram of {x.shape[-2]} frames is too short for these convolutions.")
        last = self.stride * (count - 1) + 1
        return torch.cat([x[..., k : k + last : self.stride, :] for k in range(self.kernel)], -1)
