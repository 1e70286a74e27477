"""A comparison that the paper does not have: all methods on its synthetic tasks, with equal searches and equal training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.methods import METHODS
from synib.studies.aggregate import describe_leads
from synib.studies.base import Experiment, Row
from synib.studies.candidates import own_values
from synib.studies.charts import Table

BALANCING = ("ogm", "agm", "dnr", "mmpareto", "reconboost", "mcr")
DECAYS = (1e-5, 1e-3, 1e-2)
COEFFICIENTS = own_values(("x1", "x2"), weight=(1.0, 3.0, 10.0), weight_decay=DECAYS, oracle=True)


@dataclass(frozen=True)
class Compare(Experiment):
    """All methods on one of the paper's synthetic tasks, with equal searches and equal training.

    Attributes:
        point: The values of the factors, equal for all cells.
        columns: Heading of the table → metric.
    """

    curves: ClassVar[bool] = False
    group: ClassVar[str] = "compare"
    point: ClassVar[Mapping[str, float]]
    columns: ClassVar[Mapping[str, str]] = {"test accuracy": "test_accuracy"}

    seeds: int = 10
    methods: tuple[str, ...] = tuple(COEFFICIENTS)

    def defaults(self) -> dict[str, dict[str, Any]]:
        """The settings of the search; a method that was not searched uses vanilla's."""
        others = (method for method in METHODS if method not in self.chosen and method != "unimodal")
        unsearched = dict.fromkeys(others, self.chosen["vanilla"])
        if "detach_heads" in self.chosen["vanilla"]:  # heads that do not reach the encoders have nothing to blend
            unsearched["gradient-blending"] = self.chosen["vanilla"] | {"detach_heads": False}
        return super().defaults() | unsearched

    def points(self) -> list[dict[str, Any]]:
        return [dict(self.point)]

    @property
    def caution(self) -> str:
        unsearched = ", ".join(method for method in self.methods if method not in COEFFICIENTS)
        if not unsearched:
            return ""
        return (
            f"Not searched, with vanilla's learning rate and weight decay and otherwise default settings: {unsearched}."
        )

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """The difference of each method from the best balancing method, paired by seed."""
        table: list[Row] = []
        for metric in self.columns.values():
            scores = {m: [r[metric] for r in results if r["method"] == m and r[metric] is not None] for m in BALANCING}
            means = {m: sum(numbers) / len(numbers) for m, numbers in scores.items() if numbers}
            if means:
                best = max(means, key=lambda m: means[m])
                table += self.lead(results, self.point, metric, best)
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
        """SynIB compared with the best of the balancing methods, as text."""
        rows = {row["method"]: row for row in summary if row["metric"] == over}
        ours = describe_leads({m: rows.get(m) for m in self.methods if m.startswith("synib")})
        if not ours:
            return ""
        return (
            f"The best of the balancing methods ({', '.join(BALANCING)}) in {metric.replace('_', ' ')} is "
            f"{_rival(over)}. SynIB's lead over it, paired by seed, with 95 % confidence intervals (Student's "
            f"t, n = {self.seeds}): {'; '.join(ours)}."
        )


def _rival(metric: str) -> str:
    return metric.rpartition("_over_")[2]
