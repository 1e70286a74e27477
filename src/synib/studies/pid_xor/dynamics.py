"""Figures "PID-XOR training dynamics" and "Validation accuracy over training": which source is learned when?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.studies.base import Row, option
from synib.studies.charts import Chart, Figure, Panel, Panels, Series, Table, band, label
from synib.studies.pid_xor.data import pid_xor
from synib.studies.pid_xor.simplex import PAPER, REFERENCE, TOTAL_AND_SYNERGY, PIDExperiment

CONTROL = "confidence"  # what SynIB has to beat
SOURCES = {"p_u1": "U1", "p_u2": "U2", "p_r": "R", "p_s": "S"}


@dataclass(frozen=True)
class PIDDynamics(PIDExperiment):
    """Accuracy on each source over training, with few synergistic examples."""

    name: ClassVar[str] = "pid-dynamics"
    title: ClassVar[str] = "PID-XOR over training: which source is learned, and which memorised?"
    about: ClassVar[str] = (
        "The label of every example comes from exactly one source: a modality alone (U1, U2), either "
        "modality (R), or only both together (S). If synergistic examples are scarce, a network can "
        "memorise them: it is correct on those it was trained on and at chance on others."
    )
    factors: ClassVar[tuple[str, ...]] = tuple(SOURCES)

    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3, "width": 64}

    seeds: int = 10
    mixture: tuple[float, float, float, float] = option((0.45, 0.0, 0.45, 0.1), "Proportions of U1, U2, R and S.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.mixture) != 4:
            raise ValueError(f"mixture must be four proportions, of U1, U2, R and S; got {list(self.mixture)}.")
        pid_xor(*self.mixture, train=2, validation=1, test=1)  # it says what is wrong with a mixture

    def points(self) -> list[dict[str, Any]]:
        return [dict(zip(SOURCES, self.mixture, strict=True))]

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        at_reference = metric in TOTAL_AND_SYNERGY and factors == REFERENCE
        return PAPER.get(method, (None, None))[TOTAL_AND_SYNERGY.index(metric)] if at_reference else None

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """The gain in synergy accuracy over the confidence penalty, paired by seed."""
        return self.lead(results, self.points()[0], "synergy_accuracy", CONTROL, "synergy_over_confidence")

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        columns = {"total": "test_accuracy", "S": "synergy_accuracy", "S above confidence": "synergy_over_confidence"}
        columns |= {s: f"test_accuracy_{s}" for s in self._present() if s != "S"}
        title = f"test accuracy at ({', '.join(f'{p:g}' for p in self.mixture)})"
        return [Table.of_metrics(title, columns, summary, self.methods)]

    def _present(self) -> list[str]:
        return [s for s, p in zip(SOURCES.values(), self.mixture, strict=True) if p]

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        final = {r["method"]: r["mean"] for r in summary if r["metric"] == "synergy_accuracy"}
        present = self._present()
        regime = " (plain regime)" if self.regime == "plain" else ""
        mixture = ", ".join(f"{p:g}" for p in self.mixture)

        def line(method: str, metric: str, name: str, text: str, dashed: bool = False) -> Series:
            return Series.of(curves, "epoch", name, text, dashed, method=method, metric=metric)

        panels = [
            Panel(
                label(method),
                [
                    line(
                        method, f"{split}_accuracy_{source}", source, f"{source}, {text}", dashed=split == "validation"
                    )
                    for source in present
                    for split, text in (("train", "training"), ("validation", "validation"))
                ],
                remark=f"synergy at test: {final[method]:.2f}" if final.get(method) is not None else "",
            )
            for method in self.methods
        ]
        figures: list[Figure] = [
            Panels(
                file="figure",
                title=f"Accuracy on each source over training at (U1, U2, R, S) = ({mixture}){regime}",
                x="epoch",
                y="accuracy",
                panels=panels,
                reading=(
                    "Training (solid) and validation (dashed) accuracy on the examples of each source. "
                    f"{band(self.seeds)} A solid red line far above a dashed one is "
                    "memorised synergy."
                ),
                chance=0.5,
                limits=(0.3, 1.03),
            )
        ]
        if "S" in present:
            lines = [
                line(m, "validation_accuracy_S", m, f"{label(m)} (test {final[m]:.2f})", m == "synib-oracle")
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
                        "The same network from the same initial weights. "
                        f"{band(self.seeds)} Settings were chosen by ordinary validation accuracy, not by this curve."
                    ),
                    chance=0.5,
                    limits=(0.3, 1.03),
                )
            )
        return figures
