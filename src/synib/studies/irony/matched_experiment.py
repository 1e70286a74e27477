"""Matched irony at test: every form with its chosen settings, one actor left out at a time, leads with corrected intervals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar

from synib.data import Dataset
from synib.measure import interval
from synib.measure.stats import holm, resampled_p_value
from synib.studies.aggregate import grouped
from synib.studies.base import Experiment, Row, option
from synib.studies.charts import Bars, Figure, Table
from synib.studies.forms.catalogue import Task
from synib.studies.irony.matched import ACTORS, VALIDATING
from synib.studies.irony.matched_search import BALANCERS, SEARCHED_AT, TASK, MatchedForms
from synib.training import Cell, Learner

PRIMARY_RATES = (0.1, 0.5)
SHARE = 1 / ACTORS  # of the actors that each unit tests
METRICS = {"irony_auc": "irony AUC", "macro_f1": "macro F1", "irony_f1": "irony F1"}
RULES = {
    "voice_irony_auc": "emotion of the voice, without a model",
    "face_irony_auc": "emotion of the face, without a model",
}
OTHER_RIVALS = ("masked inputs, swapped, annealed", "modality dropout, swapped, annealed", "stacked")
# The search validated on these; the others took part in it by training only.
VALIDATED = {(first + k) % ACTORS for first in SEARCHED_AT for k in range(1, VALIDATING + 1)}
ELSEWHERE = ", actors not validated on"


@dataclass(frozen=True)
class IronyMatched(MatchedForms):
    """Matched irony: who finds contradictions of face and voice when nothing else gives them away?"""

    name: ClassVar[str] = "irony-matched"
    title: ClassVar[str] = (
        "Matched irony: who finds faces and voices that contradict each other, when nothing else tells?"
    )
    about: ClassVar[str] = (
        "RAVDESS, statistics of voices (Whisper; 128 principal components of the training actors' clips) and of faces "
        "(action units), standardised for each actor without labels. Every example joins the face and the voice of two "
        "takes of the same actor, statement and intensity. It is ironic if and only if their emotions differ: two "
        "emotions exchange their voices. Neither modality alone and no mismatch of actor, statement, intensity or "
        "recording predicts irony. One actor is tested, three validate, 20 train, for each of the 24 actors. Training "
        "data are ironic at the rate α; validation and test data always at α = 2 (4 and 8 irony assignments), because AUC "
        "does not depend on how frequent irony is and one actor has 60 clips only. So F1 is measured at a rate that "
        "differs from that of training. Settings were chosen at α = 0.5 on validation actors (irony-matched-search) and "
        "serve every α. Forms, grid, rule of selection and claims were written down before the first run (PLAN.md)."
    )
    factors: ClassVar[tuple[str, ...]] = ("alpha", "form")
    headline: ClassVar[str] = "irony_auc"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "alpha": (0.5,), "form": ("vanilla", "SynIB whole, swapped")}

    seeds: int = ACTORS
    alpha: tuple[float, ...] = option((0.1, 0.3, 0.5, 0.8, 1.0, 2.0), "Irony rate of training data; may be repeated.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 < alpha <= 2 for alpha in self.alpha):
            raise ValueError(f"alpha is a number above 0 and at most 2; got {list(self.alpha)}.")
        if self.seeds > ACTORS:
            raise ValueError(f"Each seed tests another of {ACTORS} actors; got seeds={self.seeds}.")

    @property
    def repeats(self) -> tuple[int, str]:
        return self.seeds, "seed"

    @cached_property
    def _chosen(self) -> dict[str, dict[str, Any]]:
        """Form → its settings and its validation AUC, as the search left them."""
        return json.loads(resources.files(__package__).joinpath(f"{self.outcome}.json").read_text("utf-8"))  # type: ignore[no-any-return]

    @property
    def caution(self) -> str:
        missing = [form for form in self._forms(TASK) if form not in self._chosen]
        parts = [f"Not searched, and trained with the middle of the grid: {'; '.join(missing)}."] if missing else []
        if self.seeds < ACTORS:
            parts.append(f"Tested on {self.seeds} of {ACTORS} actors only.")
        return " ".join(parts)

    def cells(self) -> list[Cell]:
        overrides, cells = self.settings(), []
        for name, form in self._forms(TASK).items():
            if form.method not in self.methods:
                continue
            tried = self.candidates_of(TASK, name)
            own = self._chosen.get(name, {}).get("settings", tried[len(tried) // 2])
            settings = {**self._common(TASK), **form.settings, **own, **overrides[form.method]}
            for alpha in self.alpha:
                factors: dict[str, str | float] = {"alpha": alpha, "form": name}
                cells += [Cell(self.name, form.method, factors, settings, seed) for seed in range(self.seeds)]
        return cells

    def _of_task(self, cell: Cell) -> tuple[Task, Cell]:
        task = self._tasks[TASK]
        settings = {name: value for name, value in cell.settings.items() if name != "data"}
        return task, replace(cell, factors={"alpha": cell.factors["alpha"]}, settings=settings)

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """AUC and F1 at test, and the AUC of rules that know one modality's true emotion."""
        task, inner = self._of_task(cell)
        scores: dict[str, float] = task.experiment.examine(inner, learner, data)  # type: ignore[attr-defined]
        return {name: value for name, value in scores.items() if not name.startswith("all_") and name[-2:] != "_f1"} | {
            name: scores[name] for name in ("irony_f1", "macro_f1", "shifted_irony_f1", "shifted_macro_f1")
        }

    def metrics(self, results: Sequence[Row]) -> list[str]:
        return [*METRICS, "shifted_irony_f1", "shifted_macro_f1"]

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """Means over actors, rules without a model, and leads paired by actor."""
        return Experiment.summary(self, results)

    def _best(self, names: Sequence[str]) -> str | None:
        """The form with the best validation AUC of those that were searched."""
        searched = [name for name in names if name in self._chosen]
        return max(searched, key=lambda name: self._chosen[name]["validation_auc"], default=None)

    @cached_property
    def best(self) -> dict[str, str | None]:
        """The best SynIB form, confidence penalty and balancer, by validation AUC; forms that run or not."""
        every = [name for name in self._all(TASK) if "reference" not in name]
        return {
            "SynIB": self._best([name for name in every if name.startswith("SynIB")]),
            "confidence": self._best([name for name in every if name.startswith("confidence")]),
            "balancer": self._best(list(BALANCERS)),
        }

    @property
    def rivals_at_test(self) -> list[str]:
        """Forms that leads are over: the three of the claims, then others."""
        first = ["vanilla", self.best["confidence"], self.best["balancer"]]
        return [name for name in (*first, *OTHER_RIVALS) if name is not None]

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        table: list[Row] = []
        for (alpha,), rows in grouped(results, "alpha").items():
            method = {row["form"]: row["method"] for row in rows}
            first = next(iter(method))
            for metric, who in RULES.items():
                numbers = [row[metric] for row in rows if row["form"] == first]
                table.append(self.row(who, {"alpha": alpha, "form": who}, "irony_auc", numbers))
            by_form = [{**row, "method": row["form"]} for row in rows]
            elsewhere = [row for row in by_form if row["seed"] not in VALIDATED]
            for rival in self.rivals_at_test:
                for ending, paired in (("", by_form), (ELSEWHERE, elsewhere)):
                    name = f"irony_auc_over_{rival}{ending}"
                    for lead in self.lead(paired, {"alpha": alpha, "form": ""}, "irony_auc", rival, name):
                        table.append({**lead, "method": method[lead["method"]], "form": lead["method"]})
        return table

    def claims(self, summary: Sequence[Row]) -> list[dict[str, Any]]:
        """Leads of all forms that are SynIB's over rivals: corrected intervals and p-values, Holm's adjustment by family."""
        rows = {(r["alpha"], r["form"], r["metric"]): r for r in summary}
        ours = dict.fromkeys(r["form"] for r in summary if r["form"].startswith(("SynIB", "experts")))
        claims = []
        for alpha in self.alpha:
            for form in ours:
                for place, rival in enumerate(self.rivals_at_test):
                    row = rows.get((alpha, form, f"irony_auc_over_{rival}"))
                    if row is None or row["se"] is None:
                        continue
                    low, high = interval(row["mean"], row["se"], row["n"], test_share=SHARE)
                    primary = form == self.best["SynIB"] and place < 3 and alpha in PRIMARY_RATES
                    claim = {"alpha": alpha, "form": form, "rival": rival, "primary": primary, "lead": row["mean"]}
                    claim |= {"low": low, "high": high, "n": row["n"], "unit": "actor"}
                    other = rows.get((alpha, form, f"irony_auc_over_{rival}{ELSEWHERE}"))
                    claim |= {"lead_elsewhere": other and other["mean"], "n_elsewhere": other and other["n"]}
                    claims.append(claim | {"p": resampled_p_value(row["mean"], row["se"], row["n"], SHARE)})
        for primary in (True, False):
            family = [claim for claim in claims if claim["primary"] == primary]
            for claim, p in zip(family, holm([claim["p"] for claim in family]) if family else [], strict=True):
                claim["p_holm"] = float(p)
        return claims

    def answer(self, claims: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
        """Rate → whether the best SynIB form is above all three rivals there, with adjusted p-values below 0.05."""
        primary = [claim for claim in claims if claim["primary"]]
        return {
            f"{alpha:g}": all(c["p_holm"] < 0.05 and c["lead"] > 0 for c in own)
            for (alpha,), own in grouped(primary, "alpha").items()
            if len(own) == 3
        }

    def conclusions(self, summary: Sequence[Row]) -> dict[str, Any]:
        claims = self.claims(summary)
        return {"claims": claims, "best_on_validation": self.best, "answer": self.answer(claims)}

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        claims = self.claims(summary)
        tables = [self._table(words, metric, summary) for metric, words in METRICS.items()]
        tables[0] = replace(tables[0], note=self._note([c for c in claims if c["primary"]], claims))
        for rival in self.rivals_at_test[:3]:
            own = [c for c in claims if c["rival"] == rival]
            if own:
                table = self._table(f"lead in irony AUC over {rival}", f"irony_auc_over_{rival}", summary)
                tables.append(replace(table, note=self._note_on_leads(own)))
        return tables

    def _note_on_leads(self, claims: Sequence[Mapping[str, Any]]) -> str:
        """The note under a table of leads over one rival."""
        return in_words(claims)

    def _table(self, title: str, metric: str, summary: Sequence[Row]) -> Table:
        rows = {(r["form"], r["alpha"]): r for r in summary if r["metric"] == metric}
        forms = dict.fromkeys(form for form, _ in rows)
        body = {form: [rows.get((form, alpha)) for alpha in self.alpha] for form in forms}
        return Table(title, [f"α = {alpha:g}" for alpha in self.alpha], body, of="form")

    def _note(self, primary: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]) -> str:
        if not primary:
            return "n counts tested actors; chance is 0.5."
        answers = self.answer(claims)
        verdict = "; ".join(f"α = {rate}: {'yes' if found else 'no'}" for rate, found in answers.items())
        verdict = verdict or "Open: not all three were tested"
        return (
            "n counts tested actors; chance is 0.5. Is the SynIB form with the best validation AUC "
            f"({self.best['SynIB']}) above vanilla, the best confidence penalty and the best balancer? {verdict}. The claims "
            f"made before the run, paired by actor, with 95 % intervals (corrected resampled t): {in_words(primary)}"
        )

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        kinds = {row["form"]: row["method"] for row in summary}
        figures: list[Figure] = []
        for metric, words in list(METRICS.items())[:2]:
            columns = {f"α = {alpha:g}": f"{metric} {alpha:g}" for alpha in self.alpha}
            rows = [
                {**row, "method": row["form"], "metric": f"{metric} {row['alpha']:g}"}
                for row in summary
                if row["metric"] == metric
            ]
            forms = dict.fromkeys(row["method"] for row in rows if row["method"] not in RULES.values())
            chance = dict.fromkeys(columns, 0.5) if metric == "irony_auc" else None
            figures.append(
                Bars.of(
                    f"figure-{metric.replace('_', '-')}",
                    f"{words[0].upper() + words[1:]} by form and irony rate of the training data",
                    columns,
                    rows,
                    forms,
                    chance=chance,
                    reading=(
                        f"{words[0].upper() + words[1:]} at test, where irony has the rate α = 2 whatever it is in training. "
                        f"Lines are ± one standard error over {self.seeds} tested actors; the thin line is vanilla fusion."
                    ),
                    spread="error",
                    over="actors",
                    kinds=kinds,
                )
            )
        return figures


def in_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """Leads with their intervals and adjusted p-values, as text."""
    texts = [
        f"α = {c['alpha']:g}, {c['form']} over {c['rival']} {c['lead']:+.3f} [{c['low']:+.3f}, {c['high']:+.3f}], "
        f"p = {c['p_holm']:.2g} (Holm)"
        for c in claims
    ]
    return "; ".join(texts) + "."
