"""Spoken and written digits: the parity of their sum needs both, while cues reveal it in most examples."""

import wave
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from synib.checks import check_choice, check_whole, shown
from synib.data.dataset import Dataset, Split, check_sizes, generator, standardised
from synib.data.files import File, Source, inside
from synib.own.from_arrays import read_npz

RATE = 8000  # of the recordings, in Hz
WINDOW, HOP, BANDS, FRAMES = 256, 80, 40, 24  # of a spectrogram, which is stretched to FRAMES frames
SIDE, BAR = 28, 2  # pixels of an image, and of the bar at its edge
TONES = (2600.0, 3400.0, 1800.0)  # cues of labels 0, 1 and 2, in Hz
LOUDNESS = 0.1  # of a tone, where the recording's largest amplitude is 1
SOURCES = ("U1", "U2", "R", "S")
RuleName = Literal["parity", "halves", "modulo-3", "pairs"]


class Rule(NamedTuple):
    """How two digits determine a label. Given either digit alone, all labels are equally probable.

    Args:
        label: Function from the spoken and the written digits to labels.
        classes: Number of labels.
        digits: The largest digit; digits start at 0.
    """

    label: Callable[[Tensor, Tensor], Tensor]
    classes: int = 2
    digits: int = 9


RULES: dict[RuleName, Rule] = {
    "parity": Rule(lambda spoken, written: (spoken + written) % 2),
    "halves": Rule(lambda spoken, written: ((spoken >= 5) != (written >= 5)).long()),
    "modulo-3": Rule(lambda spoken, written: (spoken + written) % 3, classes=3, digits=8),
    "pairs": Rule(lambda spoken, written: (spoken // 2 + written // 2) % 2, digits=7),
}

DIGITS = Source(
    "digits",
    "Spoken and written digits: 3,000 recordings of six speakers, 20,000 images",
    "https://github.com/Jakobovski/free-spoken-digit-dataset; MNIST as mnist-valid.npz and mnist-test.npz (inputs, targets)",
    "recordings CC BY-SA 4.0; MNIST: no licence given",
    (
        File("recordings/*.wav", "recordings <digit>_<speaker>_<index>.wav, 8 kHz, 16 bits, mono", count=3000),
        File("mnist-valid.npz", "images for training and validation: inputs (10000, 784), targets"),
        File("mnist-test.npz", "images for testing: inputs (10000, 784), targets"),
    ),
    "digits",
)


def digits(
    root: Path | str | None = None,
    mixture: Sequence[float] = (0.45, 0.0, 0.45, 0.10),
    seed: int = 0,
    *,
    train: int = 4000,
    validation: int = 1000,
    test: int = 4000,
    rule: RuleName = "parity",
) -> Dataset:
    """Pairs of a spoken and a written digit; the label is the parity of their sum, or follows another rule.

    Neither digit alone predicts it. Some examples also carry a cue that reveals the label: a tone in the recording
    (``U1``), a bar at the image's left, right or upper edge (``U2``), or both (``R``). In the others (``S``, the
    synergistic ones) only the two digits together determine the label. Groups contain the examples of each kind.

    No speaker and no image is in two splits: seed *s* tests on speaker *s* mod 6, validates on the next, and trains on
    the other four. Recordings are trimmed and converted to log-mel spectrograms of 40 bands and 24 frames; both
    modalities are standardised by the training statistics.

    Args:
        root: The data folder, or ``$SYNIB_DATA``: it, or its subfolder ``digits/``, contains
            ``recordings/<digit>_<speaker>_<index>.wav`` (Free Spoken Digit Dataset), ``mnist-valid.npz`` and
            ``mnist-test.npz`` (``inputs``: n × 784, ``targets``).
        mixture: Probabilities of U1, U2, R and S.
        seed: Seed for speakers, pairs and cues.
        train, validation, test: Numbers of pairs.
        rule: ``"parity"`` of the sum; ``"halves"``: whether exactly one of the two digits is at least 5;
            ``"modulo-3"``: the sum modulo 3, three classes, of digits from 0 to 8, so that one digit alone is
            uninformative; ``"pairs"``: the parity of the sum of both digits' halves, rounded down, of digits from 0 to 7.
    """
    label, classes, largest = RULES[check_choice("rule", rule, RuleName)]
    check_sizes(train=train, validation=validation, test=test)
    check_whole("seed", seed, least=None)
    try:
        p = torch.tensor([float(share) for share in mixture], dtype=torch.float64)
    except (TypeError, ValueError):
        p = torch.zeros(0)
    if len(p) != 4 or not (p >= 0).all() or abs(p.sum().item() - 1.0) > 1e-6:
        raise ValueError(f"A mixture (U1, U2, R, S) must have non-negative shares that sum to 1; got {shown(mixture)}.")
    folder = DIGITS.find(root)
    sounds, spoken, speakers = _recordings(folder, classes)
    names = sorted(set(speakers))
    if len(names) < 3:
        raise ValueError(f"Three disjoint splits need recordings of at least 3 speakers; {folder} has {len(names)}.")
    test_speaker, validation_speaker = names[seed % len(names)], names[(seed + 1) % len(names)]
    split_of = {test_speaker: "test", validation_speaker: "validation"}
    recordings = {
        split: torch.tensor(
            [i for i, name in enumerate(speakers) if split_of.get(name, "train") == split and spoken[i] <= largest]
        )
        for split in ("train", "validation", "test")
    }
    pages, digits_written = _images(inside(folder, "mnist-valid.npz"))
    n_train = len(pages) * 4 // 5
    images = {
        "train": (pages[:n_train], digits_written[:n_train]),
        "validation": (pages[n_train:], digits_written[n_train:]),
        "test": _images(inside(folder, "mnist-test.npz")),
    }
    if largest < 9:
        images = {split: (x[y <= largest], y[y <= largest]) for split, (x, y) in images.items()}

    def draw(name: str, n: int) -> Split:
        g = generator(seed, f"digits-{name}" if rule == "parity" else f"digits-{rule}-{name}")
        voices = recordings[name][torch.randint(len(recordings[name]), (n,), generator=g)]
        pages, written = images[name]
        rows = torch.randint(len(written), (n,), generator=g)
        target = label(spoken[voices], written[rows])
        source = torch.multinomial(p, n, replacement=True, generator=g)
        groups = {group: source == i for i, group in enumerate(SOURCES)}
        version = torch.where(groups["U1"] | groups["R"], 1 + target, 0)  # without a tone, or with that of the label
        page = _with_bar(pages[rows], target, groups["U2"] | groups["R"])
        return Split({"audio": sounds[version, voices], "image": page}, target, groups)

    return Dataset(*standardised(draw("train", train), draw("validation", validation), draw("test", test), more=1e-3))


def cue_coordinates(labels: int = 2) -> dict[str, Tensor]:
    """Modality → which of its coordinates the cues change: bands that pass a tone, edges that may hold a bar.

    Args:
        labels: Number of labels, each with a tone and an edge of its own.
    """
    frequencies, bank = np.fft.rfftfreq(WINDOW, 1 / RATE), _mel_bank()
    passed = [[np.interp(tone, frequencies, band) > 0 for band in bank] for tone in TONES[:labels]]
    bands = torch.from_numpy(np.any(passed, axis=0))[:, None].expand(BANDS, FRAMES)
    blank, every = torch.zeros(labels, SIDE * SIDE), torch.ones(labels, dtype=torch.bool)
    return {"audio": bands.flatten(), "image": _with_bar(blank, torch.arange(labels), every).bool().any(0)}


def _with_bar(images: Tensor, target: Tensor, cued: Tensor) -> Tensor:
    """A white bar at the left edge for label 0, at the right one for label 1, at the upper one for label 2."""
    pages, everywhere = images.view(-1, SIDE, SIDE).clone(), slice(None)
    first, last = slice(0, BAR), slice(SIDE - BAR, SIDE)
    for label, place in enumerate(((everywhere, first), (everywhere, last), (first, everywhere))):
        at, rows = (everywhere, *place), cued & (target == label)
        pages[at] = torch.where(rows[:, None, None], 1.0, pages[at])
    return pages.flatten(1)


@lru_cache(maxsize=4)
def _recordings(root: Path, labels: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Features of every recording (plain, then with the tone of each label), its digit, and its speaker."""
    files = sorted((root / "recordings").glob("*.wav"))
    if not files:
        raise ValueError(
            f"There are no recordings in {root / 'recordings'}; expected <digit>_<speaker>_<index>.wav of the Free Spoken "
            "Digit Dataset."
        )
    versions: list[list[np.ndarray]] = [[] for _ in range(1 + labels)]
    digits_spoken, speakers = [], []
    bank = _mel_bank()
    for file in files:
        inside(root, file.relative_to(root))
        digit, _, rest = file.stem.partition("_")
        if not (digit in set("0123456789") and "_" in rest):
            raise ValueError(f"{file} is not named <digit>_<speaker>_<index>.wav.")
        sound = _trimmed(_read(file))
        time = np.arange(len(sound)) / RATE
        for version, tone in zip(versions, (None, *TONES[:labels]), strict=True):
            added = 0.0 if tone is None else LOUDNESS * np.sin(2 * np.pi * tone * time)
            version.append(_spectrogram(sound + added, bank))
        digits_spoken.append(int(digit))
        speakers.append(rest.rpartition("_")[0])
    features = torch.from_numpy(np.stack([np.stack(version) for version in versions])).flatten(2)
    return features, torch.tensor(digits_spoken), tuple(speakers)


def _read(file: Path) -> np.ndarray:
    try:
        with wave.open(str(file)) as sound:
            kind = (sound.getframerate(), sound.getsampwidth(), sound.getnchannels())
            claimed = sound.getnframes() * sound.getsampwidth() * sound.getnchannels()
            frames = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError, OSError) as e:
        raise ValueError(f"{file} is not a readable WAV file ({str(e) or 'it ends too early'}).") from e
    if kind != (RATE, 2, 1):
        raise ValueError(
            f"{file} has {kind[0]} Hz, {8 * kind[1]} bits, {kind[2]} channels; expected {RATE} Hz, 16 bits, 1."
        )
    if len(frames) < claimed:  # wave returns a truncated file's sound without an error
        raise ValueError(
            f"{file} is truncated: it contains {len(frames)} of {claimed} bytes of audio; download it again."
        )
    if len(frames) < 2 * WINDOW:
        raise ValueError(f"{file} is shorter than {WINDOW / RATE:.3f} s: it contains {len(frames) // 2} samples.")
    return np.frombuffer(frames, dtype="<i2").astype(np.float32) / 32768.0


def _trimmed(sound: np.ndarray) -> np.ndarray:
    """The audio without leading and trailing silence, at a common loudness: speakers differ in both."""
    power = np.convolve(sound**2, np.ones(160) / 160, "same")
    (loud,) = np.nonzero(power > 0.01 * power.max()) if power.max() > 0 else (np.arange(len(sound)),)
    kept = sound[max(loud[0] - 200, 0) : loud[-1] + 200]
    return np.pad(kept, (0, max(2 * WINDOW - len(kept), 0))) / (np.abs(kept).max() + 1e-6)


def _mel_bank() -> np.ndarray:
    """Triangular filters, evenly spaced in mel from 0 Hz to half the rate: ``(bands, frequencies)``."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE)[None]
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequency - low) / (middle - low), (high - frequency) / (high - middle)
    return np.clip(np.minimum(rising, falling), 0, None).astype(np.float32)


def _spectrogram(sound: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """Log-mel power, stretched to a common number of frames, with mean 0 and standard deviation 1: ``(bands, frames)``."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP] * np.hanning(WINDOW)
    mel = np.log(bank @ (np.abs(np.fft.rfft(frames)) ** 2).T + 1e-4)
    at = np.linspace(0, mel.shape[1] - 1, FRAMES)
    left = np.minimum(at.astype(int), max(mel.shape[1] - 2, 0))
    right = np.minimum(left + 1, mel.shape[1] - 1)
    stretched = mel[:, left] + (at - left) * (mel[:, right] - mel[:, left])
    return ((stretched - stretched.mean()) / (stretched.std() + 1e-6)).astype(np.float32)


@lru_cache(maxsize=4)
def _images(file: Path) -> tuple[Tensor, Tensor]:
    arrays = read_npz(file, ("inputs", "targets"))
    inputs, targets = arrays["inputs"], arrays["targets"]
    if inputs.ndim != 2 or inputs.shape[1] != SIDE * SIDE or targets.shape != inputs.shape[:1]:
        raise ValueError(
            f"{file} contains inputs {inputs.shape} and targets {targets.shape}; expected (n, 784) and (n,)."
        )
    if len(inputs) < 2:  # to train and to validate
        raise ValueError(f"{file} contains {len(inputs)} images; expected at least 2.")
    if inputs.dtype.kind not in "fiu" or not ((inputs >= 0) & (inputs <= 1)).all():
        raise ValueError(f"{file} contains inputs outside of 0 to 1 (bars are 1): divide bytes by 255.")
    if targets.dtype.kind not in "iu" or not ((targets >= 0) & (targets <= 9)).all():
        raise ValueError(f"{file} contains targets other than whole numbers from 0 to 9.")
    return torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(targets.astype(np.int64))
