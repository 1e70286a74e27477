"""Spoken × written digits: synergy with a known truth on real signals, beside cues that make it needless."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from synib.data import Dataset
from synib.measure import calibration, temperature
from synib.models import FusionModel
from synib.studies.base import Experiment, Row, describe_leads, grid, leads, option
from synib.studies.charts import Bars, Figure, Table
from synib.studies.digits.data import DIGITS, digits
from synib.training import Cell, Learner

RIVALS = ("vanilla", "confidence")  # what SynIB has to beat
SPEAKERS = 6  # take turns at test, seed by seed
COMMON = {
    "epochs": 30, "batch_size": 128, "unimodal_weight": 1.0, "weight_decay": 1e-4, "hidden": 256, "latent": 64,
    "detach_heads": True,
}  # fmt: skip
# What is each method's own, and the three values of it that a search tries; those without any search the weight decay.
DECAYS: dict[str, Sequence[Any]] = {"weight_decay": (1e-5, 1e-4, 1e-3)}
OWN: dict[str, dict[str, Sequence[Any]]] = {
    "unimodal-audio": DECAYS,
    "unimodal-image": DECAYS,
    "ensemble": DECAYS,
    "vanilla": DECAYS,
    "masked-random": {"p": (0.3, 0.5, 0.7)},
    "confidence": {"weight": (1.0, 3.0, 10.0)},
    "ogm": {"alpha": (0.1, 0.3, 1.0)},
    "agm": {"alpha": (0.3, 1.0, 3.0)},
    "dnr": {"strength": (1.0, 3.0, 10.0)},
    "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},
    "reconboost": {"reconcile": (0.1, 0.3, 1.0)},
    "mcr": {"game": (0.01, 0.1, 1.0)},
    "synib-random": {"weight": (1.0, 3.0, 10.0)},
    "synib-learned": {"weight": (1.0, 3.0, 10.0)},
    "synib-marginal": {"weight": (1.0, 3.0, 10.0)},
    "experts": {"weight": (3.0, 10.0, 30.0)},
}
FALLING = {"weight_schedule": "anneal", "weight_steps": 768}
FIXED: dict[str, dict[str, Any]] = {
    "dnr": {"every": 7},
    "reconboost": {"stage": 4, "rectify": 2},
    "mmpareto": {"detach_heads": False},  # with detached heads it has nothing to balance
    # By `synib reproduce forms`, on validation data: the weight falls to 0 over four fifths of the training's 960 steps.
    "synib-random": {"p": 1.0, "noise": "shuffled", **FALLING},
    "synib-learned": {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2, "noise": "shuffled", **FALLING},
    "synib-marginal": {"draws": 16, **FALLING},
    "experts": {"draws": 16, "debias": True},
}
# By `synib reproduce search --of digits-scarce` and `--of digits-plenty`, on validation accuracy.
SCARCE: dict[str, dict[str, Any]] = {
    "unimodal-audio": {"lr": 0.003, "dropout": 0.5, "weight_decay": 0.0001},
    "unimodal-image": {"lr": 0.01, "dropout": 0.5, "weight_decay": 1e-05},
    "ensemble": {"lr": 0.01, "dropout": 0.5, "weight_decay": 1e-05},
    "vanilla": {"lr": 0.01, "dropout": 0.0, "weight_decay": 0.0001},
    "masked-random": {"lr": 0.01, "dropout": 0.0, "p": 0.3},
    "confidence": {"lr": 0.003, "dropout": 0.0, "weight": 1.0},
    "ogm": {"lr": 0.01, "dropout": 0.0, "alpha": 1.0},
    "agm": {"lr": 0.01, "dropout": 0.0, "alpha": 0.3},
    "dnr": {"lr": 0.01, "dropout": 0.0, "strength": 10.0},
    "mmpareto": {"lr": 0.003, "dropout": 0.0, "unimodal_weight": 0.1},
    "reconboost": {"lr": 0.003, "dropout": 0.5, "reconcile": 0.3},
    "mcr": {"lr": 0.003, "dropout": 0.5, "game": 0.01},
    "synib-random": {"lr": 0.001, "dropout": 0.0, "weight": 3.0},
    "synib-learned": {"lr": 0.001, "dropout": 0.0, "weight": 3.0},
    "synib-marginal": {"lr": 0.003, "dropout": 0.5, "weight": 10.0},
    "experts": {"lr": 0.001, "dropout": 0.5, "weight": 10.0},
}
PLENTY: dict[str, dict[str, Any]] = {
    "unimodal-audio": {"lr": 0.01, "dropout": 0.5, "weight_decay": 1e-05},
    "unimodal-image": {"lr": 0.01, "dropout": 0.5, "weight_decay": 0.0001},
    "ensemble": {"lr": 0.01, "dropout": 0.5, "weight_decay": 1e-05},
    "vanilla": {"lr": 0.01, "dropout": 0.0, "weight_decay": 0.0001},
    "masked-random": {"lr": 0.003, "dropout": 0.0, "p": 0.5},
    "confidence": {"lr": 0.001, "dropout": 0.0, "weight": 10.0},
    "ogm": {"lr": 0.01, "dropout": 0.0, "alpha": 0.1},
    "agm": {"lr": 0.003, "dropout": 0.0, "alpha": 3.0},
    "dnr": {"lr": 0.003, "dropout": 0.0, "strength": 10.0},
    "mmpareto": {"lr": 0.003, "dropout": 0.0, "unimodal_weight": 0.1},
    "reconboost": {"lr": 0.03, "dropout": 0.0, "reconcile": 0.1},
    "mcr": {"lr": 0.01, "dropout": 0.0, "game": 0.01},
    "synib-random": {"lr": 0.001, "dropout": 0.0, "weight": 10.0},
    "synib-learned": {"lr": 0.001, "dropout": 0.0, "weight": 1.0},
    "synib-marginal": {"lr": 0.003, "dropout": 0.5, "weight": 1.0},
    "experts": {"lr": 0.003, "dropout": 0.0, "weight": 10.0},
}


@dataclass(frozen=True)
class Digits(Experiment):
    """Spoken × written digits: who learns the parity of both, where most examples carry a cue that tells it?"""

    factors: ClassVar[tuple[str, ...]] = ("p_u1", "p_u2", "p_r", "p_s")
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_S": "synergy_accuracy"}
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    group: ClassVar[str] = "digits"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("vanilla", "confidence", "experts")}
    mixture: ClassVar[tuple[float, ...]]
    chosen: ClassVar[Mapping[str, dict[str, Any]]]

    seeds: int = 10
    methods: tuple[str, ...] = tuple(OWN)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {m: COMMON | FIXED.get(m, {}) | chosen for m, chosen in self.chosen.items()}

    def points(self) -> list[dict[str, Any]]:
        return [dict(zip(self.factors, self.mixture, strict=True))]

    def searched_at(self) -> dict[str, Any]:
        return self.points()[0]

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """24 for every method: four learning rates, with dropout or without, three values of what is its own."""
        return {m: grid(lr=(1e-3, 3e-3, 1e-2, 3e-2), dropout=(0.0, 0.5), **own) for m, own in OWN.items()}

    def data(self, cell: Cell) -> Dataset:
        return _data(str(DIGITS.find(self.root or None)), tuple(cell.factors[f] for f in self.factors), cell.seed)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s = cell.settings
        return FusionModel.mlp(
            data.widths,
            hidden=[s["hidden"], s["latent"]],
            head_hidden=[],
            fusion_hidden=[64],
            dropout=s["dropout"],
            detach_heads=s["detach_heads"],
        )

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Calibration at test, as trained and after one temperature was fitted on validation data."""
        if data.test is None:
            return {}
        on_validation, at_test = (
            learner.method.predict(learner.model, split.modalities) for split in (data.validation, data.test)
        )
        t = temperature(on_validation, data.validation.target, self.family)
        found = {"ece": at_test, "ece_calibrated": at_test / t}
        told = {
            name: calibration(logits, data.test.target, family=self.family, resamples=2).error
            for name, logits in found.items()
        }
        return told | {"temperature": t}

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """How far synergy accuracy is above that of vanilla and of the confidence penalty, speaker by speaker.

        Seeds that test the same speaker are averaged first: they are not independent.
        """
        of: dict[tuple[str, int], list[float]] = {}
        for row in results:
            if row["synergy_accuracy"] is not None:
                of.setdefault((row["method"], row["seed"] % SPEAKERS), []).append(row["synergy_accuracy"])
        by_speaker = [
            {"method": method, "seed": speaker, "synergy_accuracy": sum(found) / len(found)}
            for (method, speaker), found in of.items()
        ]
        return [
            self.row(method, self.points()[0], f"synergy_over_{rival}", gains)
            for rival in RIVALS
            for method, gains in leads(by_speaker, "synergy_accuracy", rival).items()
            if gains
        ]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        columns = {"total": "test_accuracy", "synergy": "synergy_accuracy"}
        columns |= {f"synergy above {rival}": f"synergy_over_{rival}" for rival in RIVALS}
        columns |= {"ECE": "ece", "ECE, recalibrated": "ece_calibrated"}
        note = self._leads({(r["method"], r["metric"]): r for r in summary})
        return [
            Table.of_metrics("at test, a speaker that nobody was trained on", columns, summary, self.methods, note=note)
        ]

    def _leads(self, found: Mapping[tuple[str, str], Row]) -> str:
        """SynIB's leads in synergy accuracy, with intervals."""
        said = []
        for rival in RIVALS:
            ours = [m for m in self.methods if m == "experts" or "synib" in m]
            above = describe_leads({m: found.get((m, f"synergy_over_{rival}")) for m in ours})
            said += [f"Above {rival}: {'; '.join(above)}"] if above else []
        n = min(self.seeds, SPEAKERS)
        head = f"Lead in synergy accuracy, speaker by speaker, with 95 % intervals (Student's t, n = {n})"
        return f"{head}. {'. '.join(said)}." if said else ""

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [
            Bars.of(
                file="figure",
                title="Accuracy at test: where only the two digits tell, and of all examples",
                columns={"synergy accuracy": "synergy_accuracy", "total accuracy": "test_accuracy"},
                summary=summary,
                who=self.methods,
                chance={"synergy accuracy": 0.5},
                reading=(
                    "Left, the examples in which only both digits together tell the label; right, all examples. Lines are "
                    f"standard errors over {self.seeds} seed{'s' * (self.seeds != 1)}, and no confidence intervals: seeds that "
                    f"test the same of {SPEAKERS} speakers are not independent. Leads by speaker, with intervals, are below."
                ),
                spread="error",
            )
        ]


ABOUT = (
    "A recording of a digit and an image of a digit; the label is the parity of their sum. In {} of the examples a tone in the "
    "recording gives it away, in {} a tone and a bar at the image's edge; in {} only the two digits tell. No speaker and no "
    "image is in two splits. All methods start from the same weights, see the same batches, and had the same number of "
    "candidate settings, compared on validation accuracy over 10 seeds. A speaker who validates in one seed is tested in "
    "another."
)


@dataclass(frozen=True)
class DigitsScarce(Digits):
    """Spoken × written digits where one example in ten is synergistic."""

    name: ClassVar[str] = "digits-scarce"
    title: ClassVar[str] = "Spoken × written digits: who learns what only both together tell?"
    about: ClassVar[str] = ABOUT.format("45 %", "45 %", "10 %")
    mixture: ClassVar[tuple[float, ...]] = (0.45, 0.0, 0.45, 0.10)
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SCARCE


@dataclass(frozen=True)
class DigitsPlenty(Digits):
    """Spoken × written digits where three examples in ten are synergistic."""

    name: ClassVar[str] = "digits-plenty"
    title: ClassVar[str] = "Spoken × written digits, with synergistic examples in plenty"
    about: ClassVar[str] = ABOUT.format("35 %", "35 %", "30 %")
    mixture: ClassVar[tuple[float, ...]] = (0.35, 0.0, 0.35, 0.30)
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = PLENTY


@lru_cache(maxsize=64)
def _data(root: str, mixture: tuple[float, ...], seed: int) -> Dataset:
    return digits(root, mixture, seed)
