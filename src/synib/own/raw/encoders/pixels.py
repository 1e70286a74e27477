"""Images without a network: small pixels, a histogram of colours and one of gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from synib.own.columns import Array
from synib.own.raw.encoders.base import Encoder

SIDE, PIXELS, CELLS, BINS, LEVELS = (
    64,
    8,
    4,
    8,
    4,
)  # image, small pixels, cells of gradients, directions, levels of a colour
WIDTH = 3 * PIXELS**2 + LEVELS**3 + CELLS**2 * BINS


class Pixels(Encoder):
    """384 numbers: 8 x 8 pixels in colour, 64 colours, and 8 directions of gradients in each of 4 x 4 cells."""

    kind = "image"
    side = SIDE  # lets images be decoded at reduced size

    def __init__(self) -> None:
        self.name, self.revision, self.width, self.licence = "pixels", "1", WIDTH, "none needed (no weights)"
        self.about = "8 x 8 pixels, a histogram of colours and histograms of gradients; no network"

    def prepare(self, item: Any) -> Array:
        from PIL import Image

        small = np.asarray(item.resize((SIDE, SIDE), Image.Resampling.BOX), np.float32) / 255
        step = SIDE // PIXELS
        pixels = small.reshape(PIXELS, step, PIXELS, step, 3).mean((1, 3)).reshape(-1)
        levels = np.minimum((small * LEVELS).astype(np.int64), LEVELS - 1).reshape(-1, 3)
        colours = np.bincount(levels @ (LEVELS**2, LEVELS, 1), minlength=LEVELS**3) / SIDE**2
        return np.concatenate([pixels, np.sqrt(colours), _gradients(small.mean(2))]).astype(np.float32)

    def encode(self, items: Sequence[Array]) -> Array:
        return np.stack(list(items))


def _gradients(grey: Array) -> Array:
    """Histograms of gradient directions, weighted by strength, for each cell; normalised to length 1."""
    down, right = np.gradient(grey)
    strength = np.hypot(down, right)
    direction = ((np.arctan2(down, right) % np.pi) * (BINS / np.pi)).astype(np.int64) % BINS
    cell = np.arange(SIDE) * CELLS // SIDE
    place = (cell[:, None] * CELLS + cell[None, :]) * BINS + direction
    sums = np.bincount(place.reshape(-1), strength.reshape(-1), CELLS**2 * BINS)
    return np.asarray(np.sqrt(sums / max(sums.sum(), 1e-6)))
