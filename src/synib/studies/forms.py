"""Forms of SynIB side by side: fills, draws, spaces, masks, references, schedules; on development data, test data untouched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch

from synib.checks import shown
from synib.data import Dataset, Split
from synib.measure import auc, calibration, correct, f1_by_class, temperature
from synib.models import FusionModel
from synib.objective import Batch, Objective
from synib.studies.base import Experiment, Row, grid, option
from synib.studies.charts import Bars, Figure, Table
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.irony.experiment import IronyRates
from synib.studies.pid_xor.compare import ComparePID
from synib.studies.search import describe
from synib.tokens import take
from synib.training import Cell, Learner

WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)
METRICS = {
    "total": "total",
    "synergy": "synergy",
    "ECE": "ece",
    "ECE, recalibrated": "ece_calibrated",
}


class Task(NamedTuple):
    """Where forms are compared.

    Args:
        experiment: Gives data and model.
        words: What total and synergy mean there.
        modalities: Their names.
        steps: Of a training.
        rates: Learning rates to try.
        dropouts: Rates of dropout to try.
        last: The synergistic class, where it is one; else examples of the group S are the synergistic ones.
    """

    experiment: Experiment
    words: str
    modalities: tuple[str, str]
    steps: int
    rates: tuple[float, float]
    dropouts: tuple[float, ...] = (0.0, 0.5)
    last: bool = False


class Form(NamedTuple):
    """A method and its settings."""

    method: str
    settings: Mapping[str, Any]


def tasks(root: str) -> dict[str, Task]:
    """All tasks, by name."""
    return {
        "digits": Task(
            DigitsScarce(root=root), "accuracy, and on synergistic examples", ("audio", "image"), 960, (1e-3, 1e-2)
        ),
        "irony": Task(
            IronyRates(root=root), "macro F1, and AUC of irony", ("audio", "video"), 840, (3e-4, 1e-3), last=True
        ),
        "pid-xor": Task(ComparePID(), "accuracy, and on synergistic examples", ("x1", "x2"), 450, (3e-4, 1e-3), (0.5,)),
    }


def forms(task: Task, batch_size: int) -> dict[str, Form]:
    """What is compared, by name. "All draws" are all other examples of a batch."""
    whole: dict[str, Any] = {"p": 1.0}
    half: dict[str, Any] = {"p": 0.5}
    learned = {"steps": 4, "mask_lr": 0.5, "sparsity": 1e-2, "noise": "shuffled"}
    first, second = task.modalities
    warm = {"weight_schedule": "warmup", "weight_steps": task.steps // 2}
    falling = {"weight_schedule": "anneal", "weight_steps": 4 * task.steps // 5}

    def masked(**more: Any) -> Form:
        return Form("synib-random", more)

    def marginal(draws: int, **more: Any) -> Form:
        return Form("synib-marginal", {"draws": draws, **more})

    def experts(draws: int, **more: Any) -> Form:
        return Form("experts", {"draws": draws, **more})

    return {
        "vanilla": Form("vanilla", {}),
        "confidence": Form("confidence", {}),
        "Gaussian": masked(**whole),
        "Gaussian, latents": masked(**whole, space="latents"),
        "Gaussian, half": masked(**half),
        "Gaussian, 16 draws": masked(**whole, draws=16),
        "matched": masked(**whole, noise="matched"),
        "matched, latents": masked(**whole, noise="matched", space="latents"),
        "matched, half, latents": masked(**half, noise="matched", space="latents"),
        "matched, latents, 16 draws": masked(**whole, noise="matched", space="latents", draws=16),
        "shuffled": masked(**whole, noise="shuffled"),
        "shuffled, half": masked(**half, noise="shuffled"),
        "shuffled, half, latents": masked(**half, noise="shuffled", space="latents"),
        "shuffled within class": masked(**whole, noise="class-shuffled"),
        "shuffled within class, 16 draws": masked(**whole, noise="class-shuffled", draws=16),
        "learned": Form("synib-learned", learned),
        "learned, annealed": Form("synib-learned", learned | falling),
        "learned, latents": Form("synib-learned", learned | {"space": "latents"}),
        "amortised": Form("synib-amortized", {"sparsity": 1e-2, "noise": "shuffled"}),
        "4 draws": marginal(4),
        "16 draws": marginal(16),
        "16 draws, unbiased": marginal(16, debias=True),
        "all draws": marginal(batch_size - 1),
        "shuffled, unimodal reference": masked(**whole, noise="shuffled", reference="unimodal"),
        "16 draws, unimodal reference": marginal(16, reference="unimodal"),
        "shuffled, warmed up": masked(**whole, noise="shuffled", **warm),
        "shuffled, annealed": masked(**whole, noise="shuffled", **falling),
        "16 draws, annealed": marginal(16, **falling),
        "16 draws, unbiased, annealed": marginal(16, debias=True, **falling),
        f"16 draws, {first} only": marginal(16, shares={second: 0.0}),
        f"16 draws, {second} only": marginal(16, shares={first: 0.0}),
        "experts, 1 draw": experts(1),
        "experts, 4 draws": experts(4),
        "experts, 16 draws": experts(16),
        "experts, 16 draws, unbiased": experts(16, debias=True),
        "experts, 16 draws, annealed": experts(16, **falling),
        "experts, all draws": experts(batch_size - 1),
    }


@dataclass(frozen=True)
class Forms(Experiment):
    """Which fill, how many draws, which space, mask and schedule: forms of SynIB on development data of three tasks."""

    name: ClassVar[str] = "forms"
    title: ClassVar[str] = (
        "Forms of SynIB: which fill, how many draws, which mask, and how to keep what one modality tells"
    )
    about: ClassVar[str] = (
        "Every form of SynIB, vanilla fusion and the confidence penalty had equally many candidate settings on each task. "
        "Nothing here looks at test data: candidates are chosen on the validation data of the first half of the seeds, and "
        "what is shown is measured on those of the other half (digits: other speakers; irony: the same actors, other clips "
        "being ironic; PID-XOR: other data). What is fitted after training (the experts' weights, the temperature of the "
        "recalibrated ECE) is fitted on one half of the validation examples and measured on the other."
    )
    factors: ClassVar[tuple[str, ...]] = ("task", "form", "candidate")
    headline: ClassVar[str] = "synergy"
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "task": ("pid-xor",), "form": ("vanilla", "shuffled", "16 draws")}

    seeds: int = 6
    methods: tuple[str, ...] = ()
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    task: tuple[str, ...] = option(("digits", "irony", "pid-xor"), "Only this task; may be repeated.")
    form: tuple[str, ...] = option(("all",), "Only this form; may be repeated.")

    def __post_init__(self) -> None:
        if not (self.task and self.form):
            raise ValueError("task and form name one value or more each; got none.")
        known = tasks("")
        if strange := [one for one in self.task if one not in known]:
            raise ValueError(f"task is one of {', '.join(known)}; got {shown(strange[0])}.")
        names = dict.fromkeys(name for task in self.task for name in self._all(task))
        if strange := [one for one in self.form if one not in names and self.form != ("all",)]:
            raise ValueError(f"form is one of {', '.join(names)}; got {shown(strange[0])}.")
        used = dict.fromkeys(form.method for task in self.task for form in self._forms(task).values())
        object.__setattr__(self, "methods", self.methods or tuple(used))
        super().__post_init__()
        if self.seeds < 2:
            raise ValueError(
                f"Forms are chosen on one half of the seeds and measured on the other: seeds is at least 2; got {self.seeds}."
            )

    @property
    def repeats(self) -> tuple[int, str]:
        """What is shown: not those on which settings were chosen."""
        return self.seeds - self.seeds // 2, "seed"

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return tasks(self.root)

    def _all(self, task: str) -> dict[str, Form]:
        return forms(self._tasks[task], self._common(task)["batch_size"])

    def _forms(self, task: str) -> dict[str, Form]:
        every = self._all(task)
        return every if self.form == ("all",) else {name: every[name] for name in self.form if name in every}

    def _common(self, task: str) -> dict[str, Any]:
        experiment = self._tasks[task].experiment
        return {**experiment.defaults()["vanilla"], "weight_decay": 1e-4, **experiment.fixed(), "data": {"task": task}}

    def defaults(self) -> dict[str, dict[str, Any]]:
        """A form has its own settings: what methods share is all there is."""
        return {form.method: {} for task in self.task for form in self._all(task).values()}

    def points(self) -> list[dict[str, Any]]:
        return [cell.factors for cell in self.cells() if cell.seed == 0]  # type: ignore[misc]

    def _candidates(self, task: Task, form: Form) -> list[dict[str, Any]]:
        """As many for every form."""
        if form.method == "vanilla":
            low, high = task.rates
            return grid(
                dropout=task.dropouts, lr=(low / 3, low, (low * high) ** 0.5, high, 3 * high), weight_decay=(1e-5, 1e-3)
            )
        return grid(dropout=task.dropouts, lr=task.rates, weight=WEIGHTS)

    def cells(self) -> list[Cell]:
        overrides = self.settings()
        return [
            Cell(
                self.name,
                form.method,
                {"task": task, "form": name, "candidate": describe(candidate)},
                {**self._common(task), **candidate, **form.settings, **overrides[form.method]},
                seed,
            )
            for task in self.task
            for name, form in self._forms(task).items()
            if form.method in self.methods
            for candidate in self._candidates(self._tasks[task], form)
            for seed in range(self.seeds)
        ]

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {f"{task}: {name}": form.settings for task in self.task for name, form in self._forms(task).items()}

    def _at(self, cell: Cell) -> tuple[Task, Cell]:
        """The task, and the cell as the task's experiment knows it."""
        task = self._tasks[str(cell.factors["task"])]
        fixed = task.experiment.fixed().get("data")
        settings = {k: v for k, v in cell.settings.items() if k != "data"} | ({"data": fixed} if fixed else {})
        return task, replace(cell, factors=task.experiment.searched_at(), settings=settings)

    def data(self, cell: Cell) -> Dataset:
        task, own = self._at(cell)
        return replace(task.experiment.data(own), test=None)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        task, own = self._at(cell)
        return task.experiment.model(own, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        task, own = self._at(cell)
        return task.experiment.method(own, data)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Everything on validation examples that nothing was fitted to."""
        task, _ = self._at(cell)
        family, split = task.experiment.family, data.validation
        halves = torch.arange(len(split)) % 2 == 0
        raw, scaled = (torch.zeros(0) for _ in range(2))
        for fitted in (halves, ~halves):
            known, asked = ({n: take(x, rows) for n, x in split.modalities.items()} for rows in (fitted, ~fitted))
            with torch.no_grad():
                learner.method.settle(learner.model, Batch(known, split.target[fitted]))
                on_known, on_asked = (learner.method.predict(learner.model, m) for m in (known, asked))
            if not len(raw):
                raw, scaled = (on_asked.new_zeros((len(split), *on_asked.shape[1:])) for _ in range(2))
            raw[~fitted] = on_asked
            scaled[~fitted] = on_asked / temperature(on_known, split.target[fitted], family)
        told = self._scores(task, raw, split)
        for name, logits in (("ece", raw), ("ece_calibrated", scaled)):
            told[name] = calibration(logits, split.target, family=family, resamples=2).error
        return told

    @staticmethod
    def _scores(task: Task, logits: torch.Tensor, split: Split) -> dict[str, float]:
        hits = correct(task.experiment.family, logits, split.target)
        if not task.last:
            members = split.groups["S"].bool()
            return {"total": hits.mean().item(), "synergy": hits[members].mean().item()}
        last = logits.shape[1] - 1
        each = f1_by_class(logits.argmax(1), split.target, last + 1)
        return {
            "total": float(each[each == each].mean()),  # a class that does not occur has none
            "synergy": auc(logits.log_softmax(1)[:, last], split.target == last),
        }

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """For each task and form the candidate chosen on one half of the seeds, and its means over the other half."""
        half = self.seeds // 2
        groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
        for row in results:
            groups.setdefault((row["task"], row["form"]), {}).setdefault(row["candidate"], []).append(row)
        table = []
        for (task, form), candidates in groups.items():
            scores = []
            for rows in candidates.values():
                first = [row for row in rows if row["seed"] < half]
                means = {m: sum(row[m] for row in first) / len(first) for m in ("total", "synergy")}
                names = {
                    "validation_accuracy": "total",
                    "validation_macro_f1": "total",
                    "validation_irony_auc": "synergy",
                }
                scores.append({metric: means[name] for metric, name in names.items()})
            chosen = list(candidates)[self._tasks[task].experiment.prefer(scores)]
            rows = [row for row in candidates[chosen] if row["seed"] >= half]
            factors = {"task": task, "form": form, "candidate": chosen}
            for metric in METRICS.values():
                numbers = [row[metric] for row in rows if row[metric] is not None]
                if numbers:
                    table.append(self.row(rows[0]["method"], factors, metric, numbers))
        return table

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        note = f"n counts seeds: those after the first {self.seeds // 2}, on which settings were chosen."
        made = []
        for task in self.task:
            mine = [row for row in summary if row["task"] == task]
            who = dict.fromkeys(row["form"] for row in mine)
            words = f"Total and synergy: {self._tasks[task].words}. {note}"
            made.append(Table.of_metrics(task, METRICS, mine, who, by="form", of="form", note=words))
        return made

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        made: list[Figure] = []
        for task in self.task:
            mine = [{**row, "method": row["form"]} for row in summary if row["task"] == task]
            who = dict.fromkeys(row["method"] for row in mine)
            made.append(
                Bars.of(
                    f"figure-{task}",
                    f"Forms of SynIB on {task}",
                    {"synergy": "synergy", "total": "total"},
                    mine,
                    who,
                    reading=(
                        f"Validation data; total and synergy are {self._tasks[task].words}. Bars are ± one standard error over "
                        f"{(n := self.seeds - self.seeds // 2)} seed{'s' * (n != 1)} that had no part in choosing settings."
                    ),
                    spread="error",
                    kinds={row["form"]: row["method"] for row in summary if row["task"] == task},
                )
            )
        return made
