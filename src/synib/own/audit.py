"""The audit: from a user's rows to an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synib.measure import Estimate, PIDEstimate, pid_quantised
from synib.measure.stats import standardised
from synib.own import reliance
from synib.own.data_checks import Finding, check
from synib.own.fitting import Outcome, train
from synib.own.folds import Fold, folds
from synib.own.interaction import Interaction, goodness, groups, interaction, products
from synib.own.planted import planted
from synib.own.recipe import SYNIB, SYNIB_OF_NUMBERS, methods_of
from synib.own.shortcuts import shortcuts
from synib.own.subset import Subset, subset
from synib.own.table import Table
from synib.own.verdict import Reliance, Verdict, answer, over, sentences

Numbers = NDArray[np.float64]
PID_ROWS = 20_000  # that a decomposition looks at: clusters and counts want no more
FUSIONS = ("vanilla", "confidence", *SYNIB, *SYNIB_OF_NUMBERS)


@dataclass(frozen=True)
class Audit:
    """Everything the audit found.

    Args:
        table: The data.
        parts: How they were split.
        findings: What is to know about them.
        outcome: The trained models.
        scores: Method → accuracy (or share of variance explained) at test.
        interactions: Fusion method, and ``"products"`` of two modalities' numbers → what it has over the additive combination.
        best: The one of them by which the verdict was reached.
        synib: The form of SynIB that is compared with plain fusion.
        pid: Modality → what the data hold of it and the others (of two modalities: the first), by clusters; of classes.
        subset: What fusions reach where every single modality is wrong; of classes.
        verdict: The answer.
    """

    table: Table
    parts: Sequence[Fold]
    findings: Sequence[Finding]
    outcome: Outcome
    scores: Mapping[str, Estimate]
    interactions: Mapping[str, Interaction]
    best: str
    synib: str
    pid: Mapping[str, PIDEstimate]
    subset: Subset | None
    verdict: Verdict

    @property
    def measure(self) -> str:
        """What scores are."""
        return "accuracy" if self.table.classes else "explained variance"


def audit(
    table: Table,
    *,
    k: int = 5,
    seeds: int = 1,
    budget: int = 6,
    epochs: int | None = None,
    device: str = "auto",
    seed: int = 0,
    on_progress: Callable[[float, float], None] = lambda done, of: None,
) -> Audit:
    """Is there synergy in these rows, does plain fusion find it, would SynIB help?

    Args:
        table: The data.
        k: Folds, where the data have no split of their own.
        seeds: Models from different initial weights for each candidate.
        budget: Candidates for each method in each fold.
        epochs: Passes over the training rows.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Of folds and resampling.
        on_progress: Called with what is done and what there is to do.
    """
    parts = folds(table, k, seed)
    findings = check(table, parts)
    held = _pid(table, seed)
    outcome = train(
        table,
        parts,
        methods_of(table),
        seeds=seeds,
        budget=budget,
        epochs=epochs,
        device=device,
        on_progress=on_progress,
    )
    good = {method: goodness(outcome, method) for method in outcome.methods}
    asked = ~np.isnan(good["vanilla"][0])
    group = groups(table, asked)

    def lead(ours: Numbers, theirs: Numbers) -> Estimate:
        return over(ours[..., asked], theirs[..., asked], group, seed)

    fusions = [method for method in FUSIONS if method in outcome.methods]
    found = {method: interaction(outcome, method, seed) for method in fusions}
    found["products"] = products(outcome, seed)
    best = max(found, key=lambda method: _sure(found[method].evidence))
    told = answer(found[best].evidence, found[best].lead, len(found))
    sought = planted(outcome, len(found), seed) if told == "absent" else None
    if sought is not None and not sought.seen:
        told = "unclear"
    alone = min((m for m in outcome.methods if m.startswith("unimodal-")), key=lambda m: _validation(outcome, m))
    synib = "experts" if table.classes else "synib-marginal"
    additive = found["vanilla"].additive
    pooling = lead(additive, good[alone])
    gain, plain = lead(good[synib], good["vanilla"]), found["vanilla"].lead
    leaning = {method: _reliance(outcome, method, group, asked, seed) for method in ("vanilla", synib)}
    measure = "accuracy" if table.classes else "explained variance"
    said = sentences(told, found[best].lead, best, sought, pooling, gain, plain, measure, len(table.target))
    alarms = shortcuts(table, parts, seed)
    scores = {method: lead(x, np.zeros_like(x)) for method, x in good.items()}
    scores["additive combination"] = lead(additive, np.zeros_like(additive))
    scores["products"] = found["products"].score
    reached = subset(outcome, fusions, group, device=device, seed=seed)
    verdict = Verdict(told, found[best].lead, sought, pooling, gain, plain, leaning, alarms, said)
    return Audit(table, parts, findings, outcome, scores, found, best, synib, held, reached, verdict)


def _sure(evidence: Estimate) -> float:
    """How many standard errors a lead is from 0."""
    return evidence.value / max(evidence.high - evidence.low, 1e-12)


def _validation(outcome: Outcome, method: str) -> float:
    return float(outcome.methods[method].losses.min(1).mean())


def _reliance(
    outcome: Outcome, method: str, group: NDArray[np.str_] | None, asked: NDArray[np.bool_], seed: int
) -> dict[str, Reliance]:
    """What a method's models lose without each modality, at the rows that each was not trained on."""
    table, recipe = outcome.recipe.table, outcome.recipe
    shape = (outcome.seeds, len(table.target))
    right = {name: np.full(shape, np.nan) for name in ("", *table.modalities)}
    sure = {name: np.full(shape, np.nan) for name in right}
    for i, fold in enumerate(outcome.parts):
        split = recipe.split(i, fold.test)
        for s in range(outcome.seeds):
            learner = outcome.methods[method].learners[i][s]
            found = reliance.without(
                lambda m, one=learner: one.method.predict(one.model, m),  # type: ignore[misc]
                split.modalities,
                split.target,
                outcome.family,
                seed,
            )
            for name, quality in found.items():
                right[name][s, fold.test], sure[name][s, fold.test] = quality
    return {
        name: Reliance(
            over(right[""][:, asked], right[name][:, asked], group, seed),
            over(sure[""][:, asked], sure[name][:, asked], group, seed),
        )
        for name in table.modalities
    }


def _pid(table: Table, seed: int) -> dict[str, PIDEstimate]:
    """Each modality beside the others joined, by clusters of rows that have all; for classes with enough rows."""
    (there,) = np.nonzero(np.stack(list(table.present.values())).all(0))
    if len(there) > PID_ROWS:
        there = np.sort(np.random.default_rng(seed).choice(there, PID_ROWS, replace=False))
    if not table.classes or np.bincount(table.target[there], minlength=len(table.classes)).min() < 8:
        return {}

    values = {name: standardised(np.asarray(x[there], dtype=np.float64)) for name, x in table.modalities.items()}
    asked = list(values)[:1] if len(values) == 2 else list(values)
    rest = {name: np.concatenate([x for other, x in values.items() if other != name], 1) for name in asked}
    return {name: pid_quantised(values[name], rest[name], table.target[there], seed=seed) for name in asked}
