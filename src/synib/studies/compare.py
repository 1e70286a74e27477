"""The table that the paper does not have: all methods on its synthetic tasks, searched and trained alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.data import Dataset
from synib.methods import METHODS
from synib.models import FusionModel, pid_xor_model, spurious_xor_model
from synib.studies.base import Experiment, Row, grid, leads, option, told
from synib.studies.charts import Figure, Table
from synib.studies.pid_xor import simplex as pid_simplex
from synib.studies.spurious_xor import experiment as spurious_xor
from synib.training import Cell

BALANCING = ("ogm", "agm", "dnr", "mmpareto", "reconboost", "mcr")
DECAYS: dict[str, Sequence[Any]] = {"weight_decay": (1e-5, 1e-3, 1e-2)}

# What is each method's own, and what a search on PID-XOR tries of it; those without a coefficient search the weight decay.
OWN: dict[str, dict[str, Sequence[Any]]] = {
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
    "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},  # not its scale, a constant factor, which Adam takes out again
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
    """All methods on one of the paper's synthetic tasks, searched and trained alike."""

    curves: ClassVar[bool] = False
    group: ClassVar[str] = "compare"
    where: ClassVar[Mapping[str, float]]
    shown: ClassVar[Mapping[str, str]] = {"test accuracy": "test_accuracy"}

    seeds: int = 10
    methods: tuple[str, ...] = tuple(OWN)

    def points(self) -> list[dict[str, Any]]:
        return [dict(self.where)]

    @property
    def caution(self) -> str:
        free = ", ".join(method for method in self.methods if method not in OWN)
        return (
            f"Not searched, with vanilla's learning rate and weight decay and otherwise defaults: {free}."
            if free
            else ""
        )

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """How far each method is above the best balancing one, seed by seed."""
        table: list[Row] = []
        for metric in self.shown.values():
            found = {m: [r[metric] for r in results if r["method"] == m and r[metric] is not None] for m in BALANCING}
            means = {m: sum(numbers) / len(numbers) for m, numbers in found.items() if numbers}
            if means:
                best = max(means, key=lambda m: means[m])
                above = leads(results, metric, best)
                table += [self.row(m, self.where, f"{metric}_over_{best}", gains) for m, gains in above.items()]
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        over = [metric for metric in dict.fromkeys(r["metric"] for r in summary) if "_over_" in metric]
        columns = {}
        for words, metric in self.shown.items():
            columns[words] = metric
            columns |= {f"{words}, above {_rival(m)}": m for m in over if m.startswith(f"{metric}_over_")}
        found = {(r["method"], r["metric"]): r for r in summary}
        note = self._leads(list(self.shown.values())[-1], found)
        return [Table.of_metrics("at test", columns, summary, self.methods, note=note)]

    def _leads(self, metric: str, found: Mapping[tuple[str, str], Row]) -> str:
        """SynIB against the best of the balancing methods, in words."""
        over = next((m for _, m in found if m.startswith(f"{metric}_over_")), None)
        ours = told({m: found.get((m, over or "")) for m in self.methods if m.startswith("synib")})
        if over is None or not ours:
            return ""
        best = _rival(over)
        return (
            f"The best of the balancing methods ({', '.join(BALANCING)}) in {metric.replace('_', ' ')} is {best}. "
            f"SynIB's lead over it, seed by seed, with 95 % intervals (Student's t, n = {self.seeds}): {'; '.join(ours)}."
        )

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return []


# App. "Spurious XOR"; learning rate and weight decay by `synib reproduce search --of compare-spurious-xor`. What is each
# method's own stays as its authors have it: without a shortcut, validation cannot say how strongly one must be resisted.
XOR = {"epochs": 100, "batch_size": 128, "unimodal_weight": 0.05, "weight_decay": 1e-5}
XOR_OWN: dict[str, dict[str, Any]] = {
    "reconboost": {"stage": 4, "rectify": 2},  # rounds of 10 epochs: training ends with the rectification of one
    "mmpareto": {"unimodal_weight": 1.0},
    "masked-oracle": {"blocks": ["shortcut", "noise"]},
    "masked-random": {"p": 0.4},
    "confidence": {"weight": 10.0},
    "synib-random": {"weight": 10.0, "p": 0.4},
    "synib-learned": {"weight": 10.0, "steps": 20, "mask_lr": 3.0, "sparsity": 0.03, "init": -4.0},
    "synib-marginal": {"weight": 10.0, "draws": 16},
    "synib-oracle": {"weight": 10.0, "blocks": ["signal"]},
    "experts": {"weight": 10.0, "draws": 16},
}
XOR_CHOSEN: dict[str, dict[str, Any]] = {
    "unimodal-x1": {"lr": 3e-4, "weight_decay": 1e-3},
    "unimodal-x2": {"lr": 3e-3, "weight_decay": 1e-3},
    "ensemble": {"lr": 1e-2, "weight_decay": 1e-2},
    "vanilla": {"lr": 1e-3, "weight_decay": 1e-3},
    "masked-random": {"lr": 1e-3, "weight_decay": 1e-5},
    "masked-oracle": {"lr": 1e-3, "weight_decay": 1e-5},
    "confidence": {"lr": 1e-3, "weight_decay": 1e-2},
    "ogm": {"lr": 1e-3, "weight_decay": 1e-5},
    "agm": {"lr": 1e-3, "weight_decay": 1e-3},
    "dnr": {"lr": 1e-3, "weight_decay": 1e-3},
    "mmpareto": {"lr": 1e-2, "weight_decay": 1e-5},
    "reconboost": {"lr": 1e-2, "weight_decay": 1e-2},
    "mcr": {"lr": 1e-3, "weight_decay": 1e-2},
    "synib-random": {"lr": 1e-3, "weight_decay": 1e-2},
    "synib-learned": {"lr": 1e-3, "weight_decay": 1e-5},
    "synib-marginal": {"lr": 1e-3, "weight_decay": 1e-2},
    "synib-oracle": {"lr": 1e-3, "weight_decay": 1e-5},
    "experts": {"lr": 1e-3, "weight_decay": 1e-5},
}


@dataclass(frozen=True)
class CompareXOR(Compare):
    """All methods on Spurious XOR, searched and trained alike."""

    name: ClassVar[str] = "compare-spurious-xor"
    title: ClassVar[str] = "All methods on Spurious XOR: does balancing modalities help against a shortcut?"
    about: ClassVar[str] = (
        "The label is the XOR of two bits, one in each modality; the first modality also carries a shortcut that gives it away "
        "in training (β = 1) and is noise at test. All methods start from the same weights, see the same batches, and had the "
        "same number of candidate settings, compared on validation accuracy where there is no shortcut (β = 0): with one, "
        "validation cannot tell who falls for it."
    )
    factors: ClassVar[tuple[str, ...]] = ("beta",)
    where: ClassVar[Mapping[str, float]] = {"beta": 1.0}

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {m: XOR | XOR_OWN.get(m, {}) | XOR_CHOSEN.get(m, XOR_CHOSEN["vanilla"]) for m in all_methods()}

    def fixed(self) -> dict[str, Any]:
        return {"data": {"test_shortcut": "independent"}}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """Twelve for every method: four learning rates, three weight decays."""
        return dict.fromkeys(OWN, grid(lr=(1e-3, 3e-3, 1e-2, 3e-4), **DECAYS))

    def searched_at(self) -> dict[str, Any]:
        return {"beta": 0.0}

    def data(self, cell: Cell) -> Dataset:
        return spurious_xor.SpuriousXOR().data(cell)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return spurious_xor_model(data.widths)


# App. "PID-Controlled XOR", with the dropout that every method of the simplex chose; the rest by
# `synib reproduce search --of compare-pid-xor`.
PID = {"epochs": 30, "batch_size": 120, "unimodal_weight": 1.0, "dropout": 0.5, "weight_decay": 1e-5}
PID_OWN: dict[str, dict[str, Any]] = {
    "dnr": {"every": 7},
    "reconboost": {"stage": 4, "rectify": 2},
    "masked-oracle": {"blocks": ["unique", "redundant"]},
    "synib-random": {"p": 0.5},
    "synib-learned": {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2},
    "synib-marginal": {"draws": 4},
    "synib-oracle": {"blocks": ["synergy"]},
    "experts": {"draws": 4},
}
PID_CHOSEN: dict[str, dict[str, Any]] = {
    "unimodal-x1": {"detach_heads": True, "lr": 0.0003, "weight_decay": 0.01},
    "unimodal-x2": {"detach_heads": True, "lr": 0.0003, "weight_decay": 0.01},
    "ensemble": {"detach_heads": True, "lr": 0.003, "weight_decay": 0.01},
    "vanilla": {"detach_heads": True, "lr": 0.003, "weight_decay": 0.001},
    "masked-random": {"detach_heads": True, "lr": 0.003, "weight_decay": 1e-05, "p": 0.3},
    "masked-oracle": {"detach_heads": True, "lr": 0.003, "weight_decay": 0.001},
    "confidence": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "weight": 10.0},
    "ogm": {"detach_heads": True, "lr": 0.003, "weight_decay": 1e-05, "alpha": 1.0},
    "agm": {"detach_heads": True, "lr": 0.003, "weight_decay": 1e-05, "alpha": 1.0},
    "dnr": {"detach_heads": True, "lr": 0.003, "weight_decay": 1e-05, "strength": 10.0},
    "mmpareto": {"detach_heads": False, "lr": 0.002, "weight_decay": 1e-05, "unimodal_weight": 0.1},
    "reconboost": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "reconcile": 0.1},
    "mcr": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "game": 0.1},
    "synib-random": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "weight": 3.0},
    "synib-learned": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "weight": 1.0},
    "synib-marginal": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "weight": 1.0},
    "synib-oracle": {"detach_heads": True, "lr": 0.0003, "weight_decay": 1e-05, "weight": 10.0},
    "experts": {"detach_heads": True, "lr": 0.001, "weight_decay": 1e-05, "weight": 3.0},
}


@dataclass(frozen=True)
class ComparePID(Compare):
    """All methods on PID-XOR, searched and trained alike."""

    name: ClassVar[str] = "compare-pid-xor"
    title: ClassVar[str] = "All methods on PID-XOR: does balancing modalities bring synergy?"
    about: ClassVar[str] = (
        "Every example's label comes from one source: the first modality alone (45 %), both alike (45 %), or only both "
        "together (10 %). All methods start from the same weights, see the same batches, and had the same number of candidate "
        "settings, compared on validation accuracy."
    )
    factors: ClassVar[tuple[str, ...]] = tuple(pid_simplex.REFERENCE)
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_S": "synergy_accuracy"}
    of_model: ClassVar[tuple[str, ...]] = ("width", "dropout", "detach_heads")
    where: ClassVar[Mapping[str, float]] = pid_simplex.REFERENCE
    shown: ClassVar[Mapping[str, str]] = {"total": "test_accuracy", "synergy": "synergy_accuracy"}

    width: int = option(pid_simplex.WIDTH, "Width of encoders and heads; the paper's is 1024.")

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {m: PID | PID_OWN.get(m, {}) | PID_CHOSEN.get(m, PID_CHOSEN["vanilla"]) for m in all_methods()}

    def fixed(self) -> dict[str, Any]:
        return {"width": self.width, "data": {"projections": "own"}}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """Eighteen for every method: three learning rates, three values of what is its own, heads attached or not."""
        made = {}
        for method, own in OWN.items():
            # Without attached heads MMPareto has nothing to balance; it gets more learning rates instead.
            rates = (3e-5, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3) if method == "mmpareto" else (3e-4, 1e-3, 3e-3)
            heads = (False,) if method == "mmpareto" else (True, False)
            made[method] = grid(detach_heads=heads, lr=rates, **{"weight_decay": (1e-5,), **own})
        return made

    def searched_at(self) -> dict[str, Any]:
        return dict(pid_simplex.REFERENCE)

    def data(self, cell: Cell) -> Dataset:
        return pid_simplex.PIDSimplex().data(cell)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        return pid_xor_model(data.widths, **{k: v for k, v in cell.settings.items() if k in self.of_model})


def all_methods() -> list[str]:
    """Those that were searched, and every other that there is."""
    return [*OWN, *(method for method in METHODS if method not in OWN and method != "unimodal")]


def _rival(metric: str) -> str:
    return metric.rpartition("_over_")[2]
