"""Figures "Gradient geometry across PID sources", under vanilla fusion and under SynIB: where does the gradient go?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from torch import Tensor

from synib.data import Split
from synib.measure import group_losses
from synib.measure.arrays import Of
from synib.measure.ntk import Parameters, Predict, tangents
from synib.studies.base import Row
from synib.studies.charts import Figure, Panel, Panels, Series, Table, band, label
from synib.studies.pid_xor.simplex import REFERENCE, PIDExperiment, Regime

SOURCES = ("U1", "R", "S")
PAIRS = tuple(combinations(SOURCES, 2))
MOST = 128  # examples of each source


@dataclass(frozen=True)
class GradientGeometry(PIDExperiment):
    """Gradient geometry: strength, alignment and loss of each source over training."""

    name: ClassVar[str] = "ntk"
    title: ClassVar[str] = "Gradient geometry: is synergy under-trained, dominated by other sources, or memorised?"
    about: ClassVar[str] = (
        "PID-XOR at (.45, 0, .45, .10). After every epoch, in evaluation mode: the strength λ of each "
        f"source, that is, how much a unit of its error moves the parameters (up to {MOST} training "
        "examples of each); the cosine between the updates of two sources; and the loss on each source's "
        "training and validation examples."
    )
    factors: ClassVar[tuple[str, ...]] = tuple(REFERENCE)

    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3, "width": 64}

    seeds: int = 10
    methods: tuple[str, ...] = ("vanilla", "confidence", "synib-random", "synib-learned", "synib-oracle")
    regime: Regime = "plain"  # in which vanilla fusion leaves synergy at chance

    def watch(self, predict: Predict, parameters: Parameters, train: Split, validation: Split) -> dict[str, Tensor]:
        """Gradient geometry on training data, losses on training and validation data."""
        measures = self.geometry(predict, parameters, train)
        measures |= {
            f"probability_{k}": v for k, v in self.geometry(predict, parameters, train, "probabilities").items()
        }
        for split, name in ((train, "train_loss"), (validation, "validation_loss")):
            members = {source: split.groups[source] for source in SOURCES}
            measures |= group_losses(self.family, predict(parameters, split.modalities), split.target, members, name)
        return measures

    def geometry(self, predict: Predict, parameters: Parameters, split: Split, of: Of = "logits") -> dict[str, Tensor]:
        """Strength and alignment of the sources."""
        groups = {source: split.groups[source] for source in SOURCES}
        reaching = {name: p for name, p in parameters.items() if ".heads." not in name}  # the others have no gradient
        return tangents(predict, reaching, self.family, split.modalities, split.target, groups, MOST, of)

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        def table(title: str, columns: Mapping[str, str]) -> Table:
            return Table.of_metrics(title, columns, summary, self.methods)

        strengths = {f"λ {s}": f"strength_{s}" for s in SOURCES}
        strengths |= {f"λ {s}, of probabilities": f"probability_strength_{s}" for s in SOURCES}
        cosines = {f"{g}·{h}": f"cosine_{g}_{h}" for g, h in PAIRS}
        cosines |= {f"{g}·{h}, of probabilities": f"probability_cosine_{g}_{h}" for g, h in PAIRS}
        losses = {
            f"{source}, {text}": f"{split}_loss_{source}"
            for source in SOURCES
            for split, text in (("train", "training"), ("validation", "validation"))
        }
        return [
            table("strength after the last epoch", strengths),
            table("cosine after the last epoch", cosines),
            table("loss after the last epoch, nats", losses),
            table("accuracy at test", {"total": "test_accuracy", "synergy": "synergy_accuracy"}),
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [self._figure(method, curves) for method in self.methods]

    def _figure(self, method: str, curves: Sequence[Row]) -> Figure:
        """The paper's three panels for one method."""

        def line(metric: str, name: str, text: str, dashed: bool = False) -> Series:
            return Series.of(curves, "epoch", name, text, dashed, method=method, metric=metric)

        panels = [
            Panel("strength", [line(f"strength_{s}", s, s) for s in SOURCES], y="λ", logarithmic=True),
            Panel(
                "strength, probabilities",
                [line(f"probability_strength_{s}", s, s) for s in SOURCES],
                y="λ of probabilities",
                logarithmic=True,
            ),
            Panel(
                "alignment",
                [line(f"cosine_{g}_{h}", f"{g}·{h}", f"{g}·{h}") for g, h in PAIRS],
                y="cosine",
                limits=(-1.0, 1.0),
                level=0.0,
            ),
            Panel(
                "loss",
                [
                    line(f"{split}_loss_{s}", s, s if split == "train" else f"{s}, validation", split == "validation")
                    for s in SOURCES
                    for split in ("train", "validation")
                ],
                y="nats",
            ),
        ]
        return Panels(
            file="figure" if method == self.methods[0] else method,
            title=label(method)[0].upper() + label(method)[1:],
            x="epoch",
            y="",
            panels=panels,
            reading=(
                "Strength: how much a unit of each source's error moves the parameters, through the logits and "
                "through the probabilities (logarithmic). Alignment: whether the updates of two sources point in "
                "the same direction (1), in opposite directions (-1), or are orthogonal (0). Loss: training "
                "(solid) and validation (dashed) examples of each source. "
                f"{band(self.seeds)}"
            ),
        )
