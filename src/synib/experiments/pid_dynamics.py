"""Figures "PID-XOR training dynamics" and "Validation accuracy over training": which source is learned when, and kept?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.data import pid_xor
from synib.experiments.base import Row
from synib.experiments.charts import Chart, Figure, Panel, Panels, Series, Table
from synib.experiments.pid_simplex import LABELS, PAPER, REFERENCE, TOTAL_AND_SYNERGY, PIDExperiment
from synib.measure import statistics

CONTROL = "confidence"  # what SynIB has to beat
SOURCES = {"p_u1": "U1", "p_u2": "U2", "p_r": "R", "p_s": "S"}


@dataclass(frozen=True)
class PIDDynamics(PIDExperiment):
    """Accuracy on each source over training, at one mixture.

    Args:
        seeds, methods, width, epochs, projections, regime, overrides: As in :class:`PIDSimplex`.
        mixture: Proportions of U1, U2, R and S.
    """

    name: ClassVar[str] = "pid-dynamics"
    title: ClassVar[str] = "PID-XOR over training: which source is learned, and which memorised?"
    about: ClassVar[str] = (
        "Every example's label comes from exactly one source: a modality alone (U1, U2), both alike (R), or only both "
        "together (S). Where synergistic examples are scarce, a network can learn them by heart: it is right on those it "
        "was trained on and guesses on others."
    )
    factors: ClassVar[tuple[str, ...]] = tuple(SOURCES)

    seeds: int = 10
    mixture: tuple[float, ...] = tuple(REFERENCE.values())

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mixture) != 4:
            raise ValueError(f"mixture is four proportions, of U1, U2, R and S; got {list(self.mixture)}.")
        object.__setattr__(self, "mixture", tuple(float(p) for p in self.mixture))
        pid_xor(*self.mixture, train=2, validation=1, test=1)  # it says what is wrong with a mixture

    def mixtures(self) -> list[dict[str, float]]:
        return [dict(zip(SOURCES, self.mixture, strict=True))]

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        there = metric in TOTAL_AND_SYNERGY and factors == REFERENCE
        return PAPER.get(method, (None, None))[TOTAL_AND_SYNERGY.index(metric)] if there else None

    def summary(self, results: Sequence[Row]) -> list[dict[str, Any]]:
        """Besides every metric, how far synergy accuracy is above that of the confidence penalty, seed by seed."""
        return super().summary(results) + self._gains(results)

    def _gains(self, results: Sequence[Row]) -> list[dict[str, Any]]:
        found = {(r["method"], r["seed"]): r.get("test_accuracy_S") for r in results}
        table = []
        for method in (m for m in dict.fromkeys(r["method"] for r in results) if m != CONTROL):
            pairs = [(found.get((method, s)), found.get((CONTROL, s))) for s in range(self.seeds)]
            table.append(
                {
                    "experiment": self.name,
                    "method": method,
                    **self.mixtures()[0],
                    "metric": "synergy_over_confidence",
                    **statistics(
                        [ours - control for ours, control in pairs if ours is not None and control is not None]
                    ),
                    "paper": None,
                }
            )
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        wanted = {"total": "test_accuracy", "S": "synergy_accuracy", "S above confidence": "synergy_over_confidence"}
        wanted |= {
            s: f"test_accuracy_{s}" for s, p in zip(SOURCES.values(), self.mixture, strict=True) if p and s != "S"
        }
        found = {(r["method"], r["metric"]): r for r in summary}
        rows = {m: [found.get((m, metric)) for metric in wanted.values()] for m in self.methods}
        return [Table(f"test accuracy at ({', '.join(f'{p:g}' for p in self.mixture)})", list(wanted), rows)]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        final = {r["method"]: r["mean"] for r in summary if r["metric"] == "synergy_accuracy"}
        present = [s for s, p in zip(SOURCES.values(), self.mixture, strict=True) if p]
        regime = " (plain regime)" if self.regime == "plain" else ""
        where = ", ".join(f"{p:g}" for p in self.mixture)

        def line(method: str, metric: str, name: str, label: str, dashed: bool = False) -> Series:
            mine = [r for r in curves if (r["method"], r["metric"]) == (method, metric) and r["mean"] is not None]
            return Series(
                name,
                label,
                [r["epoch"] for r in mine],
                [r["mean"] for r in mine],
                [r["se"] or 0.0 for r in mine],
                dashed,
            )

        panels = [
            Panel(
                LABELS[method],
                [
                    line(
                        method, f"{split}_accuracy_{source}", source, f"{source}, {words}", dashed=split == "validation"
                    )
                    for source in present
                    for split, words in (("train", "training"), ("validation", "validation"))
                ],
                remark=f"synergy at test: {final[method]:.2f}" if final.get(method) is not None else "",
            )
            for method in self.methods
        ]
        figures: list[Figure] = [
            Panels(
                file="figure",
                title=f"Accuracy on each source over training at (U1, U2, R, S) = ({where}){regime}",
                x="epoch",
                y="accuracy",
                panels=panels,
                reading=(
                    "Training (solid) and validation (dashed) accuracy on the examples of each source; the band is ± one "
                    f"standard error over seeds (n = {self.seeds}). A solid red line far above a dashed one is synergy "
                    "learned by heart."
                ),
                chance=0.5,
                limits=(0.3, 1.03),
            )
        ]
        if "S" in present:
            lines = [
                line(m, "validation_accuracy_S", m, f"{LABELS[m]} (test {final[m]:.2f})", m == "synib-oracle")
                for m in self.methods
                if final.get(m) is not None
            ]
            figures.append(
                Chart(
                    file="synergy",
                    title=f"Validation accuracy on synergistic examples{regime}",
                    x="epoch",
                    y="synergy accuracy",
                    series=lines,
                    reading=(
                        "The same network from the same initial weights; the band is ± one standard error over seeds "
                        f"(n = {self.seeds}). Settings were chosen on ordinary validation accuracy, not on this curve."
                    ),
                    chance=0.5,
                    limits=(0.3, 1.03),
                )
            )
        return figures
