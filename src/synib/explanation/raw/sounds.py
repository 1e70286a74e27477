"""Blocks of time and frequency of a sound, exchanged with the same blocks of another sound's Fourier transform."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.explanation import pictures
from synib.explanation.parts import Numbers, PartScores
from synib.explanation.raw.base import Mask, RawParts
from synib.explanation.views import overlays
from synib.own.raw.encoders.logmel import BANDS, log_mel
from synib.own.raw.sounds import RATE, Wave

TIMES, PITCHES = 8, 4  # blocks along time and along the mel scale
SECONDS = 30  # length of a sound that is explained, at most
WINDOW, HOP = 512, 128  # samples of the Fourier transform
FRAMES = 160  # pixels of the picture along time
LOWEST = 20.0  # Hz, lower end of the picture's mel bands


class SoundBlocks(RawParts):
    """Blocks of a spectrogram, laid over it."""

    part_name = "blocks of the spectrogram (time to the right, frequency upwards)"

    @staticmethod
    def decoded(item: Wave) -> NDArray[np.float32]:
        return np.pad(item.samples, (0, max(0, WINDOW - len(item.samples))))[: SECONDS * RATE]

    def count(self, row: int) -> int:
        return TIMES * PITCHES

    def mixed(self, row: NDArray[np.float32], fill: NDArray[np.float32], own: Mask) -> list[Wave]:
        own_blocks, other_blocks = (_transformed(wave) for wave in (row, np.resize(fill, len(row))))
        label = _labels(*own_blocks.shape)
        window = torch.hann_window(WINDOW)
        waves = []
        for mask in torch.from_numpy(own):
            block = torch.where(mask[label], own_blocks, other_blocks)
            wave = torch.istft(block, WINDOW, HOP, window=window, length=len(row))
            waves.append(Wave(wave.numpy(), RATE))
        return waves

    def drawn(self, row: int, parts: PartScores, at: int) -> str:
        wave = self.content.row(row)
        seconds, edges = np.linspace(0, len(wave) / RATE, TIMES + 1), _edges()
        names = [
            f"{seconds[t]:.2g}-{seconds[t + 1]:.2g} s, {edges[p]:.0f}-{edges[p + 1]:.0f} Hz"
            for p in reversed(range(PITCHES))
            for t in range(TIMES)
        ]
        long = f" The first {SECONDS} s are explained." if len(wave) == SECONDS * RATE else ""
        caption = f"Time to the right, {LOWEST:.0f} Hz to {RATE / 2000:.0f} kHz upwards (mel scale).{long}"
        label = f"{self.name} of row {row}"
        return overlays(_picture(wave), (2 * BANDS, BANDS), (PITCHES, TIMES), label, names, parts, at, caption)

    def highlighted(self, row: int, scores: Numbers) -> str:
        picture, label = _picture(self.content.row(row)), f"{self.name} of row {row}, highlighted"
        return pictures.overlay(picture, (2 * BANDS, BANDS), scores.reshape(PITCHES, TIMES), label)


def _picture(wave: NDArray[np.float32]) -> str:
    """The spectrogram as a data URI."""
    bands = log_mel(wave)
    ends = np.unique(np.linspace(0, len(bands), min(FRAMES, len(bands)) + 1).astype(int))
    return pictures.grey(np.add.reduceat(bands, ends[:-1], 0).T[::-1] / np.diff(ends))  # low bands at the bottom


def _transformed(wave: NDArray[np.float32]) -> Tensor:
    samples = torch.from_numpy(np.ascontiguousarray(wave, dtype=np.float32))
    return torch.stft(samples, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True)


def _edges() -> NDArray[np.float64]:
    """The frequencies at the edges of the blocks, equidistant in mel."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (LOWEST, RATE / 2))
    mel = np.linspace(low, high, PITCHES + 1)
    return np.asarray(700 * (10 ** (mel / 2595) - 1))


def _labels(frequencies: int, frames: int) -> Tensor:
    """The block number of each frequency and frame, with rows from high to low frequencies, as drawn."""
    hertz = np.fft.rfftfreq(WINDOW, 1 / RATE)
    pitch = PITCHES - 1 - np.clip(np.searchsorted(_edges(), hertz, side="right") - 1, 0, PITCHES - 1)
    assert len(pitch) == frequencies
    return torch.from_numpy(pitch[:, None] * TIMES + np.arange(frames) * TIMES // frames)
