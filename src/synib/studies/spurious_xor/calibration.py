"""Is a model uncertain when it should be? Calibration on intact data and without a modality."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.data import Dataset
from synib.masks import StandardNoise
from synib.measure import scores_under_corruption
from synib.studies.base import Row, option
from synib.studies.charts import Figure, Panel, Panels, Series, Table, band, label
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.training import Cell, Learner

CONDITIONS = {"intact": "intact", "x1": "x1 is noise", "x2": "x2 is noise"}
BINS = 15
ENOUGH = 100  # a bin is shown if it has so many of the 30,000 predictions


@dataclass(frozen=True)
class Calibration(SpuriousXOR):
    """Is a model uncertain without one of its modalities? Scores and calibration on the test set, intact and corrupted."""

    name: ClassVar[str] = "calibration"
    title: ClassVar[str] = "Calibration: is a model uncertain without one of its modalities?"
    about: ClassVar[str] = (
        "Spurious XOR with a full shortcut in the first modality (β = 1). Without one of the modalities "
        "the label is undetermined, and an appropriately uncertain model predicts one half. At test, each "
        "modality in turn is replaced by standard normal noise. (If it were swapped with another "
        "example's, the pair would look real, and no model could notice.)"
    )
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1}

    seeds: int = 10
    beta: tuple[float, ...] = option((1.0,), "Strength of the shortcut; a single value.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.beta) != 1:
            raise ValueError(f"calibration needs a single strength of the shortcut; got beta={list(self.beta)}.")

    def check(self) -> None:
        """The standard check; also raises an error before training if a required package is missing."""
        super().check()
        if importlib.util.find_spec("torchmetrics") is None:
            raise ValueError("calibration needs torchmetrics: pip install 'synib[audit]'")

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Scores under each condition, and the bins of its calibration plot."""
        assert data.test is not None
        corruption = scores_under_corruption(
            learner.model,
            data.test.modalities,
            data.test.target,
            StandardNoise(),
            family=self.family,
            draws=1,
            resamples=2,
        )
        metrics: dict[str, float] = {}
        for name, scores in {"intact": corruption.intact, **corruption.corrupted}.items():
            metrics |= {f"{name}_{score}": getattr(scores, score).value for score in ("ece", "confidence", "auroc")}
            metrics[f"{name}_right"] = scores.accuracy.value
            bins = corruption.calibration["" if name == "intact" else name]
            for b, (confidence, accuracy, count) in enumerate(
                zip(bins.confidence, bins.accuracy, bins.count, strict=True)
            ):
                if count >= ENOUGH:
                    metrics[f"{name}_bin_{b}_confidence"] = float(confidence)
                    metrics[f"{name}_bin_{b}_accuracy"] = accuracy.value
        return metrics

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        shown = {"accuracy": "right", "mean confidence": "confidence", "expected calibration error": "ece"}
        return [
            Table.of_metrics(
                title, {words: f"{name}_{score}" for name, words in CONDITIONS.items()}, summary, self.methods
            )
            for title, score in shown.items()
        ]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        rows = {(r["method"], r["metric"]): r for r in summary}

        def line(method: str, name: str) -> Series:
            points = []
            for b in range(BINS):
                confidence, accuracy = (
                    rows.get((method, f"{name}_bin_{b}_{what}")) for what in ("confidence", "accuracy")
                )
                # A bin that is full in some seeds only would be a point of those seeds.
                if confidence and accuracy and confidence["n"] == accuracy["n"] == self.seeds:
                    points.append((confidence["mean"], accuracy["mean"], accuracy["se"] or 0.0))
            x, mean, se = ([p[i] for p in points] for i in range(3))
            return Series(name, CONDITIONS[name], x, mean, se)

        ideal = Series("ideal", "perfect calibration", [0.5, 1.0], [0.5, 1.0], [0.0, 0.0], dashed=True)
        return [
            Panels(
                file="figure",
                title="Accuracy of predictions by confidence",
                x="confidence",
                y="accuracy",
                panels=[Panel(label(m), [*(line(m, name) for name in CONDITIONS), ideal]) for m in self.methods],
                columns=3,
                limits=(0.3, 1.03),
                reading=(
                    f"Test predictions in confidence bins that contain at least {ENOUGH} predictions in every seed. On "
                    "the dashed line, accuracy equals confidence; below it, a model is overconfident. Without one of "
                    "the modalities no model can be correct more often than half of the time, and an appropriately "
                    "uncertain model has no points far to the right. "
                    f"{band(self.seeds)}"
                ),
            )
        ]
