"""Sounds without a network: statistics of a log-mel spectrogram over time."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from synib.own.columns import Array
from synib.own.raw.encoders.base import Encoder
from synib.own.raw.sounds import RATE, Wave

WINDOW, HOP, BANDS = 400, 160, 40  # samples of a window, samples between windows, and mel bands
FRAMES = 4096  # windows at a time
FLOOR = 1e-8
STATISTICS = 5


class LogMel(Encoder):
    """200 numbers: mean, deviation, 10th and 90th percentile, and mean change over time of 40 mel bands (25 ms windows)."""

    kind = "audio"

    def __init__(self) -> None:
        self.name, self.revision, self.licence = "logmel", "1", "none needed (no weights)"
        self.width = STATISTICS * BANDS
        self.about = "mean, deviation, percentiles and change over time of 40 log-mel bands; no network"

    def prepare(self, item: Wave) -> Array:
        bands = log_mel(item.samples)
        change = np.abs(np.diff(bands, axis=0)).mean(0) if len(bands) > 1 else np.zeros(BANDS, np.float32)
        low, high = np.quantile(bands, (0.1, 0.9), axis=0)
        return np.concatenate([bands.mean(0), bands.std(0), low, high, change]).astype(np.float32)

    def encode(self, items: Sequence[Array]) -> Array:
        return np.stack(list(items))


def log_mel(samples: Array) -> Array:
    """(windows, 40): the logarithm of the power in each band, for a wave at 16,000 samples a second."""
    padded = np.pad(samples, (0, max(0, WINDOW - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    hann = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    parts = [
        np.abs(np.fft.rfft(windows[at : at + FRAMES] * hann)) ** 2 @ filters() for at in range(0, len(windows), FRAMES)
    ]
    return np.log(np.concatenate(parts) + FLOOR).astype(np.float32)


@cache
def filters() -> Array:
    """(frequencies, 40): triangular filters, equidistant in mel, 2595 log10(1 + f / 700), from 20 Hz to 8 kHz."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (20.0, RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return np.asarray(np.maximum(0, np.minimum(rising, falling)))
