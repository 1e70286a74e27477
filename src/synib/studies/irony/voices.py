"""Matched irony from the recordings: log-mel spectrograms of the voices, through a convolutional network."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data import Dataset
from synib.data.files import inside
from synib.data.media import read_audio
from synib.models import ConcatFusion, FusionModel, mlp
from synib.models.convolution import TemporalCNN
from synib.own.from_arrays import read_npz
from synib.studies import features
from synib.studies.irony.data import IronyData, ravdess_features
from synib.studies.irony.matched import ACTORS, MatchedIrony, matched_assignment
from synib.training import Cell

RATE, WINDOW, HOP = 16_000, 512, 400  # 32 ms, every 25 ms
FRAMES, BANDS = 96, 40  # 2.4 s from the first loud frame
LOUD = 35.0  # decibels below the loudest frame
FLOOR = 1e-6
CACHE = "voices-logmel.npz"  # beside features.npz, if written by write_voices


def log_mel(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-mel power of a recording from its first to its last loud frame, at most 2.4 s, filled with silence: ``(96, 40)``."""
    padded = np.pad(samples, (0, max(WINDOW - len(samples), 0)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    level = 10 * np.log10((frames**2).mean(1) + 1e-10)
    loud = np.flatnonzero(level > level.max() - LOUD)
    spoken = frames[loud[0] : min(loud[-1] + 1, loud[0] + FRAMES)] * np.hanning(WINDOW)
    mel = np.log((np.abs(np.fft.rfft(spoken)) ** 2) @ _mel_bank().T + FLOOR)
    return np.pad(mel, ((0, FRAMES - len(mel)), (0, 0)), constant_values=np.log(FLOOR)).astype(np.float32)


@lru_cache(maxsize=1)
def _mel_bank() -> NDArray[np.float64]:
    """Triangular filters, evenly spaced in mel from 50 Hz to half the rate: ``(bands, frequencies)``."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (50, RATE / 2))
    edges = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE)[None]
    rising = (frequency - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequency) / (edges[2:] - edges[1:-1])[:, None]
    return np.clip(np.minimum(rising, falling), 0, None)


def read_voices(folder: Path, ids: list[str]) -> NDArray[np.float32]:
    """The spectrograms of recordings: from ``voices-logmel.npz`` if it exists, otherwise from ``audio_opus16k/<id>.opus``."""
    cache = folder / CACHE
    if not cache.is_file():
        files = [inside(folder, Path("audio_opus16k") / f"{name}.opus") for name in ids]
        return np.stack([log_mel(read_audio(file, RATE)) for file in files])
    arrays = read_npz(cache, ("id", "log_mel"))
    place = {name: i for i, name in enumerate(arrays["id"].tolist())}
    if missing := [name for name in ids if name not in place]:
        raise ValueError(f"{cache} does not contain the recording {missing[0]!r}: remove it, or write it again.")
    return arrays["log_mel"][[place[name] for name in ids]].astype(np.float32)


def write_voices(root: str | Path, out: str | Path) -> None:
    """Write the spectrograms of all recordings to a file, for a machine without the recordings."""
    folder = features.RAVDESS.find(root)
    ids = ravdess_features(str(folder)).ids
    np.savez_compressed(out, id=np.array(ids), log_mel=read_voices(folder, ids).astype(np.float16))


@lru_cache(maxsize=1)
def voices(folder: str) -> Tensor:
    """Spectrograms in the order of :func:`ravdess_features`, each band standardised for each actor without labels."""
    clips = ravdess_features(folder)
    x = (
        read_voices(Path(folder), clips.ids).astype(np.float16).astype(np.float32)
    )  # the same from the file and from the sounds
    for actor in np.unique(clips.columns["actor"]):
        own = clips.columns["actor"] == actor
        x[own] = (x[own] - x[own].mean((0, 1))) / (x[own].std((0, 1)) + 1e-3)
    return torch.from_numpy(x)


@lru_cache(maxsize=ACTORS)
def voice_irony(folder: str, alpha: float, tested: int) -> IronyData:
    """The matched irony of :func:`~synib.studies.irony.matched.matched_irony`, with spectrograms of the voices."""
    irony = matched_assignment(folder, alpha, tested)
    return IronyData(irony, irony.dataset(ravdess_features(folder).video, voices(folder)))


@dataclass(frozen=True)
class VoiceIrony(MatchedIrony):
    """Matched irony from spectrograms: the voice's encoder is a small convolutional network, trained with the rest."""

    of_model: ClassVar[tuple[str, ...]] = (*MatchedIrony.of_model, "channels")

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {method: own | {"channels": 64} for method, own in super().defaults().items()}

    def searched_at(self) -> dict[str, Any]:
        return {"alpha": 0.1}

    def irony_data(self, cell: Cell) -> IronyData:
        folder = str(features.RAVDESS.find(self.root or None))
        return voice_irony(folder, float(cell.factors["alpha"]), cell.seed + 1)  # type: ignore[arg-type]

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s, widths = cell.settings, data.widths
        latent, dropout = s["latent"], s["dropout"]
        encoders = {
            "video": mlp([widths["video"], s["hidden"], latent], dropout=dropout, last_activation=True),
            "audio": TemporalCNN(widths["audio"], [s["channels"]] * 3, latent, dropout=dropout),
        }
        fusion = ConcatFusion(dict.fromkeys(encoders, latent), [64, self.classes], dropout=dropout)
        heads = {name: mlp([latent, self.classes]) for name in encoders}
        return FusionModel(encoders, fusion, heads, s["detach_heads"])
