"""Figure "Test accuracy vs. spurious correlation strength": does a model fall for a shortcut that vanishes at test?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, get_args

from synib.data import Dataset, parity
from synib.data.parity import TestShortcut
from synib.engines import Cell
from synib.experiments.base import Experiment, Row
from synib.experiments.charts import Chart, Figure, Series
from synib.methods import check_method
from synib.models import FusionModel, spurious_xor_model

LABELS = {
    "vanilla": "vanilla fusion",
    "confidence": "confidence penalty",
    "synib-random": "SynIB, random masks",
    "synib-learned": "SynIB, learned masks",
    "synib-marginal": "SynIB, marginal",
    "synib-oracle": "SynIB, oracle masks",
}
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0)

# App. "Spurious XOR", Training Configuration and Mask Variants; the marginal form is ours.
COMMON = {"epochs": 100, "batch_size": 128, "unimodal_weight": 0.05}
PLAIN = COMMON | {"lr": 1e-2, "weight_decay": 1e-3}
PENALISED = COMMON | {"lr": 3e-4, "weight_decay": 1e-5, "weight": 10.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "vanilla": PLAIN,
    "confidence": PENALISED,
    "synib-random": PENALISED | {"p": 0.4},
    "synib-learned": PENALISED | {"steps": 50, "mask_lr": 3.0, "sparsity": 0.03, "init": -4.0},
    "synib-marginal": PENALISED | {"lr": 1e-3, "draws": 16},
    "synib-oracle": PENALISED | {"blocks": ["signal"]},
}
PAPER_AT_1 = {"vanilla": 0.50, "synib-random": 0.68, "synib-learned": 0.83, "synib-oracle": 1.00}


@dataclass(frozen=True)
class SpuriousXOR(Experiment):
    """Two bits, their XOR, and a shortcut of strength β that is gone at test.

    Args:
        seeds: How many seeds, counted from 0.
        beta: Strengths of the shortcut.
        methods: Which methods.
        test_shortcut: ``"independent"`` of the label at test, or ``"constant"`` (the paper's literal text).
        epochs: Passes over the training data.
        overrides: For some methods, settings other than the default ones.
    """

    name: ClassVar[str] = "spurious-xor"
    title: ClassVar[str] = "Spurious XOR: who falls for the shortcut?"
    about: ClassVar[str] = (
        "The label is the XOR of two bits, one in each modality, so neither modality alone says anything about it. "
        "The first modality also carries a shortcut: in training it gives the label away with strength β, at test it "
        "is pure noise. A model that takes the shortcut is right in training and guesses at test."
    )
    factors: ClassVar[tuple[str, ...]] = ("beta",)
    modalities: ClassVar[int] = 2
    examples: ClassVar[int] = 300

    seeds: int = 3
    beta: tuple[float, ...] = BETAS
    methods: tuple[str, ...] = tuple(SETTINGS)
    test_shortcut: TestShortcut = "independent"
    epochs: int = 100
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse options that make no experiment."""
        object.__setattr__(self, "beta", tuple(float(b) for b in self.beta))  # 1 and 1.0 are one cell, with one id
        if self.seeds < 1:
            raise ValueError(f"An experiment needs at least one seed; got {self.seeds}.")
        if self.epochs < 1:
            raise ValueError(f"Training takes at least one epoch; got {self.epochs}.")
        if not self.beta or not all(0 <= b < math.inf for b in self.beta):
            raise ValueError(f"beta is one or more finite strengths of at least 0; got {list(self.beta)}.")
        if self.test_shortcut not in get_args(TestShortcut):
            raise ValueError(f"test_shortcut is 'independent' or 'constant'; got {self.test_shortcut!r}.")
        if not self.methods:
            raise ValueError(f"An experiment needs at least one method; {self.name} has {', '.join(self.settings())}.")
        for option, given in (("beta", self.beta), ("methods", self.methods)):
            if len(set(given)) < len(given):  # the same model twice would pass for two seeds
                raise ValueError(f"{option} names each value once; got {list(given)}.")
        for method in self.methods:
            if check_method(method) not in self.settings():
                raise ValueError(f"{self.name} has no settings for {method!r}; it has {', '.join(self.settings())}.")

    @classmethod
    def defaults(cls) -> dict[str, dict[str, Any]]:
        """How each method is trained."""
        return SETTINGS

    def cells(self) -> list[Cell]:
        fixed = {"epochs": self.epochs, "data": {"test_shortcut": self.test_shortcut}}
        settings = self.settings()
        return [
            Cell(self.name, method, {"beta": beta}, settings[method] | fixed, seed)
            for method in self.methods
            for beta in self.beta
            for seed in range(self.seeds)
        ]

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
        rows = [row for row in summary if row["metric"] == "test_accuracy"]
        lines = []
        for method in self.methods:
            mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row["beta"])
            lines.append(
                Series(
                    method,
                    LABELS[method],
                    [row["beta"] for row in mine],
                    [row["mean"] for row in mine],
                    [row["se"] or 0.0 for row in mine],
                    dashed=method == "synib-oracle",
                )
            )
        return Chart(
            file="figure",
            title="Test accuracy, once the shortcut is gone",
            x="strength β of the shortcut in training",
            y="test accuracy",
            series=lines,
            reading=(
                "Every line is one way of training the same network from the same initial weights; the band is ± one "
                f"standard error over seeds (n = {self.seeds}). Chance is 0.5. The oracle (dashed) is told which coordinates "
                "hold the bits; nobody else is."
            ),
            chance=0.5,
            limits=(0.45, 1.02),
            ticks=self.beta,
        )

    def _over_training(self, summary: Sequence[Row], curves: Sequence[Row]) -> Chart:
        final = {r["method"]: r["mean"] for r in summary if r["metric"] == "test_accuracy" and r["beta"] == 1.0}
        lines = []
        for method in self.methods:
            wanted = [("validation_accuracy", f"{LABELS[method]} (test {final[method]:.2f})", False)]
            if method == "vanilla":
                wanted.append(("train_accuracy", "vanilla fusion, training accuracy", True))
            for metric, label, dashed in wanted:
                lines.append(_curve(method, label, metric, curves, dashed))
        return Chart(
            file="validation",
            title="Validation accuracy over training at β = 1: everyone looks fine",
            x="epoch",
            y="validation accuracy",
            series=lines,
            reading=(
                "Validation data still has the shortcut, so a model that relies on it looks as good as one that does not; "
                "the test accuracies in the legend tell them apart. Nothing can be selected on this curve."
            ),
            limits=(0.45, 1.02),
        )


def _curve(method: str, label: str, metric: str, curves: Sequence[Row], dashed: bool) -> Series:
    mine = [r for r in curves if (r["method"], r["beta"], r["metric"]) == (method, 1.0, metric)]
    return Series(
        method, label, [r["epoch"] for r in mine], [r["mean"] for r in mine], [r["se"] or 0.0 for r in mine], dashed
    )


@lru_cache(maxsize=256)
def _data(modalities: int, examples: int, beta: float, seed: int, test_shortcut: TestShortcut) -> Dataset:
    made = parity(modalities, beta, seed, train=examples, test_shortcut=test_shortcut)
    if test_shortcut == "constant" or beta == 0:
        return made
    # The independent test set is the same whatever β is: keep it once.
    return replace(made, test=_data(modalities, examples, 0.0, seed, test_shortcut).test)
