"""The fair comparison on the test set: every form with its chosen settings, with ceilings and corrected intervals."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar

from synib.data import Dataset
from synib.measure import calibration, interval
from synib.measure.stats import holm, resampled_p_value
from synib.studies.aggregate import grouped, means
from synib.studies.base import Experiment, Row
from synib.studies.charts import Bars, Figure, Table
from synib.studies.evaluation import predictions
from synib.studies.fair.catalogue import CHEAP_RECIPE, NO_CUES, RECIPE
from synib.studies.fair.forms import SELECTIONS, FairForms
from synib.studies.fair.tasks import FAIRNESS
from synib.training import Cell, Learner

MARGINAL = "SynIB marginal, swapped, annealed"
OURS = (RECIPE, CHEAP_RECIPE, MARGINAL, "SynIB learned, swapped, annealed", "experts, annealed")
RIVALS = (
    "vanilla",
    "confidence, annealed",
    "masked inputs, swapped, annealed",
    "modality dropout, swapped, annealed",
    "stacked",
)
# The claims that are made whatever comes, and corrected together; all other leads are corrected together, too, and secondary.
PRIMARY = [
    (task, form, "confidence, annealed")
    for task in ("digits", "digits-halves", "digits-modulo-3")
    for form in (RECIPE, CHEAP_RECIPE, MARGINAL)
]
COLUMNS = {
    "total": "total",
    "synergy": "synergy",
    "share of the attainable": "share",
    "synergy above annealed confidence": "synergy_over_confidence, annealed",
    "ECE": "ece",
}


@dataclass(frozen=True)
class Fair(FairForms):
    """Every method with the same schedules, fills and search, compared with ceilings: which methods learn the synergy?"""

    name: ClassVar[str] = "fair"
    title: ClassVar[str] = "Fair comparison: which methods learn synergy under equal conditions?"
    about: ClassVar[str] = (
        "Every penalty is used constant and annealed, with Gaussian and with swapped fills, each with an "
        "equal search of settings (fair-search). Ceilings are the same network trained by plain fusion on "
        "as many examples without any cue, and on the cue-free examples alone. Share is (synergy - "
        "chance) / (ceiling without cues - chance). Tasks, grid, selection rule, number of seeds and "
        "analysis were fixed before the first run (PLAN.md)."
    )
    factors: ClassVar[tuple[str, ...]] = ("task", "form", "selection")
    package: ClassVar[str] = __package__  # has the settings that the search chose
    primary: ClassVar[Collection[tuple[str, str, str]]] = PRIMARY  # task, form, rival
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "task": ("pid-xor",), "form": ("vanilla", "SynIB whole, swapped")}

    seeds: int = 12

    @cached_property
    def _chosen(self) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
        """Task → form → selection rule → settings, as written by the search."""
        text = resources.files(self.package).joinpath("settings.json").read_text("utf-8")
        return json.loads(text)  # type: ignore[no-any-return]

    def _settings(self, task: str, form: str) -> dict[str, dict[str, Any]]:
        """Selection rule → settings: those of the search, otherwise the middle of its initial grid."""
        chosen = self._chosen.get(task, {}).get(form)
        if chosen is None:
            tried = self.candidates_of(task, form)
            return dict.fromkeys(SELECTIONS, tried[len(tried) // 2])
        return chosen

    @property
    def caution(self) -> str:
        missing = [f"{t}: {f}" for t in self.task for f in self._forms(t) if f not in self._chosen.get(t, {})]
        if not missing:
            return ""
        some = f"{'; '.join(missing[:3])}{'; ...' * (len(missing) > 3)}"
        return f"Not searched, and trained with the middle of the grid: {len(missing)} forms ({some})."

    def cells(self) -> list[Cell]:
        return self._cells("selection", self._different)

    def _different(self, task: str, form: str) -> dict[str, dict[str, Any]]:
        """The settings of each rule; a rule with the same choice as another is not trained again."""
        settings = self._settings(task, form)
        return {rule: s for i, (rule, s) in enumerate(settings.items()) if s not in list(settings.values())[:i]}

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """Scores at test."""
        assert data.test is not None
        task, _ = self._of_task(cell)
        logits = predictions(learner, data.test.modalities, len(data.test))
        error = calibration(logits, data.test.target, family=task.experiment.family).error
        return self._scores(task, logits, data.test) | {"ece": error}

    def metrics(self, results: Sequence[Row]) -> list[str]:
        return ["total", "synergy", "ece"]

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over seeds, shares of the attainable gain, and leads paired by unit (speaker, fold or seed)."""
        return Experiment.summary(self, [*results, *self._shared(results)])

    def _shared(self, results: Sequence[Row]) -> list[Row]:
        """Rows for selection rules with the same choice as another rule."""
        rows: list[Row] = []
        for (task, form), same in grouped(results, "task", "form").items():
            trained = self._different(task, form)
            for rule, settings in self._settings(task, form).items():
                if rule not in trained:
                    first = next(r for r, s in trained.items() if s == settings)
                    rows += [{**row, "selection": rule} for row in same if row["selection"] == first]
        return rows

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        table: list[Row] = []
        for (task, rule), rows in grouped(results, "task", "selection").items():
            fairness = FAIRNESS[task]
            scores = {form: [r["synergy"] for r in own] for (form,), own in grouped(rows, "form").items()}
            found = [s for s in scores.get(NO_CUES, []) if s is not None]
            attainable = sum(found) / len(found) - fairness.chance if found else 0.0
            method = {row["form"]: row["method"] for row in rows}
            factors = {"task": task, "selection": rule}
            if attainable > 0:
                for form, own in scores.items():
                    shares = [None if s is None else (s - fairness.chance) / attainable for s in own]
                    table.append(
                        self.row(method[form], {"task": task, "form": form, "selection": rule}, "share", shares)
                    )
            units = [{**row, "method": row["form"], "unit": fairness.of_seed(row["seed"])} for row in rows]
            by_unit = means(units, ["synergy"], "unit")
            for rival in RIVALS:
                for lead in self.lead(by_unit, factors, "synergy", rival):
                    form = lead["method"]
                    table.append({**lead, "method": method[form], "form": form})
        return table

    def claims(self, summary: Sequence[Row]) -> list[dict[str, Any]]:
        """Leads of SynIB's forms over rivals, with corrected intervals and p-values, and Holm's adjustment of each family."""
        rows = {(r["task"], r["form"], r["metric"]): r for r in summary if r["selection"] == "accuracy"}
        claims = []
        for task in self.task:
            for form in OURS:
                for rival in RIVALS:
                    row = rows.get((task, form, f"synergy_over_{rival}"))
                    if row is None or row["se"] is None:
                        continue
                    share = FAIRNESS[task].test_share
                    low, high = interval(row["mean"], row["se"], row["n"], test_share=share)
                    p = resampled_p_value(row["mean"], row["se"], row["n"], share)
                    who = {"task": task, "form": form, "rival": rival, "primary": (task, form, rival) in self.primary}
                    lead = {"lead": row["mean"], "low": low, "high": high, "n": row["n"], "unit": FAIRNESS[task].unit}
                    claims.append({**who, **lead, "p": p})
        for primary in (True, False):
            family = [claim for claim in claims if claim["primary"] == primary]
            for claim, p in zip(family, holm([claim["p"] for claim in family]) if family else [], strict=True):
                claim["p_holm"] = float(p)
        return claims

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        return {"claims": self.claims(summary)}

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        claims, tables = self.claims(summary), []
        for task in self.task:
            for rule, meaning in SELECTIONS.items():
                rows = [row for row in summary if row["task"] == task and row["selection"] == rule]
                if not rows:
                    continue
                note = self._note(task, claims) if rule == "accuracy" else ""
                names = dict.fromkeys(row["form"] for row in rows)
                title = f"{task}, settings chosen by {meaning}"
                tables.append(Table.of_metrics(title, COLUMNS, rows, names, by="form", of="form", note=note))
        return tables

    def _note(self, task: str, claims: Sequence[Mapping[str, Any]]) -> str:
        """Chance level, and the claims of a task as text."""
        text = f"Total and synergy: {self._tasks[task].scores}; chance is {FAIRNESS[task].chance:.3g}."
        if FAIRNESS[task].few is None:
            text += " There is no version without cues, and therefore no ceiling."
        own = [c for c in claims if c["task"] == task and c["primary"]]
        if own:
            found = "; ".join(
                f"{c['form']} over {c['rival']} {c['lead']:+.3f} [{c['low']:+.3f}, {c['high']:+.3f}], "
                f"p = {c['p_holm']:.3g} (Holm)"
                for c in own
            )
            text += (
                f" Claims specified before the run, paired by {own[0]['unit']} (n = {own[0]['n']}, 95 % confidence "
                f"intervals): {found}."
            )
        return text

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        figures: list[Figure] = []
        for task in self.task:
            rows = [
                {**row, "method": row["form"]}
                for row in summary
                if row["task"] == task and row["selection"] == "accuracy"
            ]
            kinds = {row["form"]: row["method"] for row in summary if row["task"] == task}
            figures.append(
                Bars.of(
                    f"figure-{task}",
                    f"Synergy and total on {task}",
                    {"synergy": "synergy", "total": "total"},
                    rows,
                    dict.fromkeys(row["method"] for row in rows),
                    chance={"synergy": FAIRNESS[task].chance},
                    reading=(
                        f"Test data; total and synergy are {self._tasks[task].scores}. Lines are ± one standard error over "
                        f"{self.seeds} seed{'s' * (self.seeds != 1)}. Ceilings are plain fusion trained without cues."
                    ),
                    spread="error",
                    kinds=kinds,
                )
            )
        return figures
