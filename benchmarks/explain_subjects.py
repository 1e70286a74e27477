"""Models that ``explain.py`` explains, and what is known of them: which coordinates hold the synergy, which the cues."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import synib
from synib.data import Dataset
from synib.explanation import patches
from synib.studies.base import Experiment
from synib.studies.digits import data as digits_data
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.pid_xor.dynamics import PIDDynamics
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.tokens import values
from synib.training import Cell
from synib.training.fleet import train

Truth = NDArray[np.bool_]
FAMILY = synib.Bernoulli()
ROWS = 20  # explained by each method
TEST = 1000  # rows that stand for what is absent
MAP = 400  # rows of a map
INK = 0.05  # mean brightness from which on a patch holds a part of the digit

METHODS = {
    "spurious-xor": ("vanilla", "synib-oracle", "synib-marginal"),
    "permuted labels": ("synib-marginal",),
    "pid-xor": ("synib-oracle", "vanilla"),
    "digits": ("vanilla", "synib-learned"),
}


class PermutedLabels(SpuriousXOR):
    """The same with training labels that have nothing to do with their rows."""

    def data(self, cell: Cell) -> Dataset:
        data = super().data(cell)
        order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(cell.seed))
        return replace(data, train=replace(data.train, target=data.train.target[order]))


class WithoutCues(DigitsScarce):
    """Digits of which no example has a cue: a model that predicts the label must use both digits."""

    mixture: ClassVar[tuple[float, ...]] = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Subject:
    """A trained model with rows to explain."""

    data: str
    method: str
    seed: int
    model: nn.Module
    modalities: dict[str, Tensor]
    target: NDArray[np.int64]
    groups: dict[str, Truth]
    accuracy: dict[str, float]
    synergistic: tuple[
        dict[str, Tensor], Tensor
    ]  # rows of the whole split whose label only both modalities say, targets

    def rows(self, group: str) -> list[int]:
        chosen = self.groups.get(group, np.ones(len(self.target), bool))
        return [int(row) for row in np.flatnonzero(chosen)[:ROWS]]


@dataclass(frozen=True)
class Question:
    """Where something should be: the parts of each modality, those of one that hold it, the rows, and what is explained."""

    name: str
    modality: str
    parts: Mapping[str, Any]
    truth: Truth
    group: str
    score: str  # "together" or "alone"


def subjects(data: str, methods: Sequence[str], seeds: int) -> Iterator[Subject]:
    """Models of each method and seed, trained one after the other, each once."""
    for method in methods:
        for seed in range(seeds):
            yield _trained(data, method, seed)


@cache
def _trained(data: str, method: str, seed: int) -> Subject:
    kinds: dict[str, Callable[..., Experiment]] = {
        "spurious-xor": SpuriousXOR,
        "permuted labels": PermutedLabels,
        "pid-xor": PIDDynamics,
        "digits": DigitsScarce,
        "digits without cues": WithoutCues,
    }
    more: dict[str, Any] = {"beta": (1.0,)} if data in ("spurious-xor", "permuted labels") else {}
    experiment = kinds[data](seeds=seed + 1, methods=(method,), **more)
    cell = next(cell for cell in experiment.cells() if cell.seed == seed)
    start = time.perf_counter()
    trained = train(experiment, [cell])
    dataset = experiment.data(cell)
    # The shortcut of Spurious XOR is gone at test: rows of the validation part have it.
    split = dataset.validation if "beta" in cell.factors else dataset.test
    assert split is not None
    count = min(TEST, len(split))
    only_both = split.groups.get("S", torch.ones(len(split), dtype=torch.bool)).nonzero().flatten()[:MAP]
    accuracy = {k: v for k, v in trained.metrics[0].items() if k.startswith("test_accuracy")}
    print(f"{data} {method} {seed}: {accuracy} in {time.perf_counter() - start:.0f} s", flush=True)
    return Subject(
        data, method, seed, trained.learners[0].model,
        {name: values(x)[:count] for name, x in split.modalities.items()},
        split.target[:count].numpy(), {name: g[:count].numpy() for name, g in split.groups.items()}, accuracy,
        ({name: values(x)[only_both] for name, x in split.modalities.items()}, split.target[only_both]),
    )  # fmt: skip


def questions(data: str, method: str) -> list[Question]:
    """What is known: synergy of models that use it, cues of models that take the shortcut."""
    single = dict.fromkeys(("x1", "x2"), "coordinates")
    if data in ("spurious-xor", "permuted labels"):
        if method == "vanilla":
            return [Question("shortcut", "x1", single, _at(64, range(4, 10)), "", "alone")]
        return [Question("signal", m, single, _at(64, range(4)), "", "together") for m in ("x1", "x2")]
    if data == "pid-xor":
        from synib.studies.pid_xor.data import BLOCKS

        named, blocks = np.array([*BLOCKS]), dict.fromkeys(("x1", "x2"), BLOCKS)
        if method == "vanilla":
            return [
                Question("unique block", "x1", blocks, named == "unique", "U1", "alone"),
                Question("redundant block", "x1", blocks, named == "redundant", "R", "alone"),
                Question("redundant block", "x2", blocks, named == "redundant", "R", "alone"),
            ]
        of_blocks = [Question("synergy block", m, blocks, named == "synergy", "S", "together") for m in ("x1", "x2")]
        at = _at(32, BLOCKS["synergy"])
        return of_blocks + [Question("synergy coordinates", m, single, at, "S", "together") for m in ("x1", "x2")]
    bar, tone = _cues()
    parts = {"image": patches((28, 28), 4), "audio": patches((40, 24), (1, 24))}
    if method == "vanilla" and data == "digits":
        return [
            Question("bar", "image", parts, bar, "R", "alone"),
            Question("tone", "audio", parts, tone, "R", "alone"),
        ]
    return [Question("digit", "image", parts, ink() > INK, "S", "together")]


@cache
def ink() -> NDArray[np.float64]:
    """The mean brightness of each patch of 4 x 4 pixels, over the written digits of the training and validation part."""
    patch = patches((28, 28), 4).ravel()
    images, _ = digits_data._images(digits_data.DIGITS.find(None) / "mnist-valid.npz")
    mean = images.mean(0).numpy()
    return np.array([mean[patch == k].mean() for k in range(patch.max() + 1)])


@cache
def _cues() -> tuple[Truth, Truth]:
    """Patches of 4 x 4 pixels with the bars, and mel bands with the tones."""
    patch = patches((28, 28), 4).ravel()
    columns = np.zeros((28, 28), bool)
    columns[:, : digits_data.BAR] = columns[:, -digits_data.BAR :] = True
    frequency = np.fft.rfftfreq(digits_data.WINDOW, 1 / digits_data.RATE)
    bank = digits_data._mel_bank()
    tone = np.zeros(digits_data.BANDS, bool)
    for hertz in digits_data.TONES:
        tone |= bank[:, np.argmin(np.abs(frequency - hertz))] > 0.3
    count = patch.max() + 1
    bar = np.array([columns.ravel()[patch == k].any() for k in range(count)])
    return bar, tone


def _at(width: int, where: Any) -> Truth:
    truth = np.zeros(width, bool)
    truth[list(where)] = True
    return truth


def reset(model: nn.Module) -> nn.Module:
    """A model of the same shape that was never trained."""
    torch.manual_seed(0)
    fresh = copy.deepcopy(model)
    for parameter in fresh.parameters():
        nn.init.normal_(parameter, std=1 / np.sqrt(parameter.shape[-1])) if parameter.ndim > 1 else nn.init.zeros_(
            parameter
        )
    return fresh
