"""Spoken × written digits: synergy with a known ground truth on real signals, with cues that make it unnecessary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from synib.data import Dataset
from synib.models import FusionModel
from synib.studies.aggregate import means, rule_of_intervals, synib_leads
from synib.studies.base import Experiment, Row, option, settings_of
from synib.studies.candidates import own_values
from synib.studies.charts import Bars, Figure, Table
from synib.studies.digits.data import DIGITS, RULES, RuleName, digits
from synib.studies.evaluation import calibration_scores, predictions, vector_model
from synib.training import Cell, Learner

# settings.json: learning rate, dropout and each method's own setting were chosen on validation accuracy by `synib reproduce
# search --of digits-scarce` and `--of digits-plenty`. By `synib reproduce forms`, also on validation data, the weight of
# SynIB's term falls to 0 over four fifths of the 960 training steps, and the experts' draws are unbiased. MMPareto's heads
# are not detached: with detached ones it has nothing to balance.
SETTINGS = settings_of(__package__)
RIVALS = ("vanilla", "confidence")
SPEAKERS = 6  # take turns at test, seed by seed


@dataclass(frozen=True)
class Digits(Experiment):
    """Spoken × written digits: which methods learn the parity of both, when most examples carry a cue that reveals it?"""

    factors: ClassVar[tuple[str, ...]] = ("p_u1", "p_u2", "p_r", "p_s")
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_S": "synergy_accuracy"}
    of_model: ClassVar[tuple[str, ...]] = ("hidden", "latent", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    group: ClassVar[str] = "digits"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("vanilla", "confidence", "experts")}
    # 24 candidates for every method.
    tried: ClassVar[Mapping[str, Sequence[Any]]] = {"lr": (1e-3, 3e-3, 1e-2, 3e-2), "dropout": (0.0, 0.5)}
    own: ClassVar[Mapping[str, Any]] = own_values(
        ("audio", "image"), weight=(1.0, 3.0, 10.0), experts_weight=(3.0, 10.0, 30.0)
    )
    mixture: ClassVar[tuple[float, ...]]
    label_rule: ClassVar[RuleName] = "parity"

    seeds: int = 10
    methods: tuple[str, ...] = tuple(own)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")

    def points(self) -> list[dict[str, Any]]:
        return [dict(zip(self.factors, self.mixture, strict=True))]

    def data(self, cell: Cell) -> Dataset:
        mixture = tuple(float(cell.factors[f]) for f in self.factors)  # type: ignore[arg-type]
        return digits_data(str(DIGITS.find(self.root or None)), mixture, cell.seed, self.label_rule)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        classes = RULES[self.label_rule].classes
        return vector_model(data.widths, cell.settings, 1 if classes == 2 else classes)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Calibration at test, before and after temperature scaling on validation data."""
        if data.test is None:
            return {}
        splits = (data.validation, data.test)
        on_validation, on_test = (predictions(learner, split.modalities, len(split)) for split in splits)
        return calibration_scores(on_validation, on_test, data, self.family)

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """Leads in synergy accuracy over vanilla fusion and over the confidence penalty, paired by test speaker.

        Seeds that test the same speaker are averaged first, because they are dependent.
        """
        rows = [{**row, "speaker": row["seed"] % SPEAKERS} for row in results]
        by_speaker = means(rows, ["synergy_accuracy"], "speaker")
        return [
            row
            for rival in RIVALS
            for row in self.lead(by_speaker, self.points()[0], "synergy_accuracy", rival, f"synergy_over_{rival}")
        ]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        columns = {"total": "test_accuracy", "synergy": "synergy_accuracy"}
        columns |= {f"synergy above {rival}": f"synergy_over_{rival}" for rival in RIVALS}
        columns |= {"ECE": "ece", "ECE, recalibrated": "ece_calibrated"}
        return [
            Table.of_metrics(
                "at test, on a speaker that is not in the training data",
                columns,
                summary,
                self.methods,
                note=self._leads({(r["method"], r["metric"]): r for r in summary}),
            )
        ]

    def _leads(self, rows: Mapping[tuple[str, str], Row]) -> str:
        """SynIB's leads in synergy accuracy, with intervals."""
        texts = {rival: synib_leads(rows, self.methods, f"synergy_over_{rival}", 1 / SPEAKERS) for rival in RIVALS}
        sentences = [f"Above {rival}: {text}." for rival, text in texts.items() if text]
        n = min(self.seeds, SPEAKERS)
        rule = rule_of_intervals(1 / SPEAKERS)
        head = f"Lead in synergy accuracy, paired by speaker, with 95 % confidence intervals ({rule}, n = {n})."
        return " ".join([head, *sentences]) if sentences else ""

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [
            Bars.of(
                file="figure",
                title="Test accuracy: on examples that only the two digits together determine, and on all examples",
                columns={"synergy accuracy": "synergy_accuracy", "total accuracy": "test_accuracy"},
                summary=summary,
                who=self.methods,
                chance={"synergy accuracy": 0.5},
                reading=(
                    "Left: the examples in which only both digits together determine the label; right: all examples. "
                    f"Lines are standard errors over {self.seeds} seed{'s' * (self.seeds != 1)}, not confidence "
                    f"intervals: seeds that test the same of {SPEAKERS} speakers are dependent. Leads by speaker, with "
                    "confidence intervals, are below."
                ),
                spread="error",
            )
        ]


ABOUT = (
    "A recording of a digit and an image of a digit; the label is the parity of their sum. In {} of "
    "the examples a tone in the recording reveals it, in {} a tone and a bar at the image's edge; in "
    "{} only the two digits together determine it. No speaker and no image is in two splits. All "
    "methods start from the same weights, see the same batches, and had the same number of candidate "
    "settings, compared by validation accuracy over 10 seeds. A speaker who is in the validation set "
    "of one seed is in the test set of another."
)


@dataclass(frozen=True)
class DigitsScarce(Digits):
    """Spoken × written digits where one example in ten is synergistic."""

    name: ClassVar[str] = "digits-scarce"
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS["digits-scarce"]
    title: ClassVar[str] = "Spoken × written digits: which methods learn the synergy of both digits?"
    about: ClassVar[str] = ABOUT.format("45 %", "45 %", "10 %")
    mixture: ClassVar[tuple[float, ...]] = (0.45, 0.0, 0.45, 0.10)


@dataclass(frozen=True)
class DigitsPlenty(Digits):
    """Spoken × written digits where three examples in ten are synergistic."""

    name: ClassVar[str] = "digits-plenty"
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = SETTINGS["digits-plenty"]
    title: ClassVar[str] = "Spoken × written digits, with many synergistic examples"
    about: ClassVar[str] = ABOUT.format("35 %", "35 %", "30 %")
    mixture: ClassVar[tuple[float, ...]] = (0.35, 0.0, 0.35, 0.30)


@lru_cache(maxsize=64)
def digits_data(root: str, mixture: tuple[float, ...], seed: int, rule: RuleName, **sizes: int) -> Dataset:
    """The data of :func:`~synib.studies.digits.data.digits`, cached for the next cell with the same arguments."""
    return digits(root, mixture, seed, rule=rule, **sizes)
