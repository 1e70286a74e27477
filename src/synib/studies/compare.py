"""The table that the paper does not have: all methods on its synthetic tasks, with equal searches and equal training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.methods import METHODS
from synib.studies.base import Experiment, Row, describe_leads, leads
from synib.studies.charts import Figure, Table

BALANCING = ("ogm", "agm", "dnr", "mmpareto", "reconboost", "mcr")
DECAYS: dict[str, Sequence[Any]] = {"weight_decay": (1e-5, 1e-3, 1e-2)}

# Each method's own coefficient and the values of it that the search on PID-XOR tries; a method without one searches the
# weight decay.
COEFFICIENTS: dict[str, dict[str, Sequence[Any]]] = {
    "unimodal-x1": DECAYS,
    "unimodal-x2": DECAYS,
    "ensemble": DECAYS,
    "vanilla": DECAYS,
    "masked-random": {"p": (0.3, 0.5, 0.7)},
    "masked-oracle": DECAYS,
    "confidence": {"weight": (1.0, 3.0, 10.0)},
    "ogm": {"alpha": (0.1, 0.3, 1.0)},
    "agm": {"alpha": (0.3, 1.0, 3.0)},
    "dnr": {"strength": (1.0, 3.0, 10.0)},
    "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},  # not its scale: Adam cancels a constant factor
    "reconboost": {"reconcile": (0.1, 0.3, 1.0)},
    "mcr": {"game": (0.01, 0.1, 1.0)},
    "synib-random": {"weight": (1.0, 3.0, 10.0)},
    "synib-learned": {"weight": (1.0, 3.0, 10.0)},
    "synib-marginal": {"weight": (1.0, 3.0, 10.0)},
    "synib-oracle": {"weight": (1.0, 3.0, 10.0)},
    "experts": {"weight": (1.0, 3.0, 10.0)},
}


@dataclass(frozen=True)
class Compare(Experiment):
    """All methods on one of the paper's synthetic tasks, searched and trained alike.

    Attributes:
        point: The values of the factors, the same for all cells.
        columns: Heading of the table → metric.
        chosen: Settings of every searched method.
    """

    curves: ClassVar[bool] = False
    group: ClassVar[str] = "compare"
    point: ClassVar[Mapping[str, float]]
    columns: ClassVar[Mapping[str, str]] = {"test accuracy": "test_accuracy"}
    chosen: ClassVar[Mapping[str, dict[str, Any]]]

    seeds: int = 10
    methods: tuple[str, ...] = tuple(COEFFICIENTS)

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Those of the search; a method that was not searched takes vanilla's."""
        others = (method for method in METHODS if method not in COEFFICIENTS and method != "unimodal")
        return {method: self.chosen.get(method, self.chosen["vanilla"]) for method in (*COEFFICIENTS, *others)}

    def points(self) -> list[dict[str, Any]]:
        return [dict(self.point)]

    @property
    def caution(self) -> str:
        unsearched = ", ".join(method for method in self.methods if method not in COEFFICIENTS)
        if not unsearched:
            return ""
        return f"Not searched, with vanilla's learning rate and weight decay and otherwise defaults: {unsearched}."

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """How far each method is above the best balancing one, seed by seed."""
        table: list[Row] = []
        for metric in self.columns.values():
            scores = {m: [r[metric] for r in results if r["method"] == m and r[metric] is not None] for m in BALANCING}
            means = {m: sum(numbers) / len(numbers) for m, numbers in scores.items() if numbers}
            if means:
                best = max(means, key=lambda m: means[m])
                above = leads(results, metric, best)
                table += [self.row(m, self.point, f"{metric}_over_{best}", gains) for m, gains in above.items()]
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        over = [metric for metric in dict.fromkeys(r["metric"] for r in summary) if "_over_" in metric]
        columns = {}
        for heading, metric in self.columns.items():
            columns[heading] = metric
            columns |= {f"{heading}, above {_rival(m)}": m for m in over if m.startswith(f"{metric}_over_")}
        last = list(self.columns.values())[-1]
        note = next((self._note(last, m, summary) for m in over if m.startswith(f"{last}_over_")), "")
        return [Table.of_metrics("at test", columns, summary, self.methods, note=note)]

    def _note(self, metric: str, over: str, summary: Sequence[Row]) -> str:
        """SynIB against the best of the balancing methods, in words."""
        rows = {row["method"]: row for row in summary if row["metric"] == over}
        ours = describe_leads({m: rows.get(m) for m in self.methods if m.startswith("synib")})
        if not ours:
            return ""
        return (
            f"The best of the balancing methods ({', '.join(BALANCING)}) in {metric.replace('_', ' ')} is {_rival(over)}. "
            f"SynIB's lead over it, seed by seed, with 95 % intervals (Student's t, n = {self.seeds}): {'; '.join(ours)}."
        )

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return []


def _rival(metric: str) -> str:
    return metric.rpartition("_over_")[2]
