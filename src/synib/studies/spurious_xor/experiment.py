"""Figure "Test accuracy vs. spurious correlation strength": does a model rely on a shortcut that vanishes at test?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel, spurious_xor_model
from synib.studies.base import Experiment, Row, option, settings_of
from synib.studies.charts import Chart, Figure, Series, band, label
from synib.studies.spurious_xor.data import TestShortcut, parity
from synib.training import Cell

BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0)

# App. "Spurious XOR", Training Configuration and Mask Variants; the marginal form is ours.
SETTINGS = settings_of(__package__)["spurious-xor"]
PAPER_AT_1 = {"vanilla": 0.50, "synib-random": 0.68, "synib-learned": 0.83, "synib-oracle": 1.00}


@dataclass(frozen=True)
class SpuriousXOR(Experiment):
    """Two bits, their XOR, and a shortcut of strength β that is absent at test.

    Plain fusion relies on it, SynIB does not: every method at every strength, and test accuracy against β.
    """

    name: ClassVar[str] = "spurious-xor"
    title: ClassVar[str] = "Spurious XOR: which methods rely on the shortcut?"
    about: ClassVar[str] = (
        "The label is the XOR of two bits, one in each modality, so neither modality alone carries "
        "information about it. The first modality also carries a shortcut: in training it reveals the "
        "label with strength β, at test it is pure noise. A model that uses the shortcut is correct in "
        "training and at chance at test."
    )
    factors: ClassVar[tuple[str, ...]] = ("beta",)
    modalities: ClassVar[int] = 2
    examples: ClassVar[int] = 300

    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "beta": (0.0, 0.6, 1.0)}

    methods: tuple[str, ...] = tuple(SETTINGS)
    beta: tuple[float, ...] = option(BETAS, "Strength of the shortcut; may be repeated.")
    test_shortcut: TestShortcut = option(
        "independent",
        "At test, whether the shortcut is 'independent' of the label or 'constant' (the paper's literal text).",
    )
    epochs: int = option(100, "Number of passes over the training data.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= b < math.inf for b in self.beta):
            raise ValueError(f"beta must be one or more finite strengths of at least 0; got {list(self.beta)}.")

    def points(self) -> list[dict[str, Any]]:
        return [{"beta": beta} for beta in self.beta]

    def fixed(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "data": {"test_shortcut": self.test_shortcut}}

    def data(self, cell: Cell) -> Dataset:
        shortcut = cell.settings["data"]["test_shortcut"]
        return _data(self.modalities, self.examples, cell.factors["beta"], cell.seed, shortcut)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return spurious_xor_model(data.widths)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        at_1 = metric == "test_accuracy" and factors["beta"] == 1.0
        return PAPER_AT_1.get(method) if at_1 else None

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [self._against_beta(summary), *([self._over_training(summary, curves)] if 1.0 in self.beta else [])]

    def _against_beta(self, summary: Sequence[Row]) -> Chart:
        lines = [
            Series.of(summary, "beta", m, label(m), m == "synib-oracle", method=m, metric="test_accuracy")
            for m in self.methods
        ]
        return Chart(
            file="figure",
            title="Test accuracy without the shortcut",
            x="strength β of the shortcut in training",
            y="test accuracy",
            series=lines,
            reading=(
                "Every line is one way of training the same network from the same initial weights. "
                f"{band(self.seeds)} Chance is 0.5. Only the oracle (dashed) knows "
                "which coordinates carry the bits."
            ),
            chance=0.5,
            limits=(0.45, 1.02),
            ticks=self.beta,
        )

    def _over_training(self, summary: Sequence[Row], curves: Sequence[Row]) -> Chart:
        final = {r["method"]: r["mean"] for r in summary if r["metric"] == "test_accuracy" and r["beta"] == 1.0}

        def line(method: str, metric: str, text: str, dashed: bool = False) -> Series:
            return Series.of(curves, "epoch", method, text, dashed, method=method, beta=1.0, metric=metric)

        lines = []
        for m in self.methods:
            lines.append(line(m, "validation_accuracy", f"{label(m)} (test {final[m]:.2f})"))
            if m == "vanilla":
                lines.append(line(m, "train_accuracy", "vanilla fusion, training accuracy", dashed=True))
        return Chart(
            file="validation",
            title="Validation accuracy over training at β = 1: all methods look good",
            x="epoch",
            y="validation accuracy",
            series=lines,
            reading=(
                "Validation data still contain the shortcut, so a model that relies on it looks as good as one "
                "that does not; only the test accuracies in the legend show the difference. Nothing can be "
                "selected on this curve."
            ),
            limits=(0.45, 1.02),
        )


@lru_cache(maxsize=256)
def _data(modalities: int, examples: int, beta: float, seed: int, test_shortcut: TestShortcut) -> Dataset:
    data = parity(modalities, beta, seed, train=examples, test_shortcut=test_shortcut)
    if test_shortcut == "constant" or beta == 0:
        return data
    # The independent test set is the same whatever β is: keep it once.
    return replace(data, test=_data(modalities, examples, 0.0, seed, test_shortcut).test)
