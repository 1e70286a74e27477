"""The audit: from a user's rows to a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synib.measure import Estimate, PIDEstimate, pid_quantised
from synib.measure.stats import standardised
from synib.own.data_checks import Finding, check
from synib.own.decision import decide
from synib.own.fitting import Outcome, train
from synib.own.folds import Fold, folds
from synib.own.gains import Gain, fusion_gain, products_gain
from synib.own.planted import planted
from synib.own.reliance import reliance
from synib.own.row_scores import Numbers, lead, resampling_groups, row_scores
from synib.own.search_space import FUSIONS, methods_of, recommended
from synib.own.shortcuts import shortcuts
from synib.own.subset import Subset, subset
from synib.own.table import Table
from synib.own.verdict import Verdict, sentences

PID_ROWS = 20_000  # rows that are decomposed: clusters and counts need no more


@dataclass(frozen=True)
class Audit:
    """The result of :func:`audit`.

    Args:
        table: The data.
        parts: How they were split.
        findings: Facts and warnings about them.
        outcome: The trained models.
        scores: Method → accuracy (or share of variance explained) at test.
        interactions: Fusion method, and ``"products"`` of two modalities' features → its gain over the additive combination.
        best: The one of them that the verdict rests on.
        synib: The form of SynIB that is compared with plain fusion.
        pid: Modality → decomposition of it and the others (of two modalities: the first), by clusters; of classes.
        subset: The accuracy of fusions where every single modality is wrong; of classes.
        verdict: The answer.
    """

    table: Table
    parts: Sequence[Fold]
    findings: Sequence[Finding]
    outcome: Outcome
    scores: Mapping[str, Estimate]
    interactions: Mapping[str, Gain]
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
    on_progress: Callable[[float, float], None] = lambda done, total: None,
) -> Audit:
    """Is there synergy in these rows, does plain fusion find it, would SynIB help?

    Args:
        table: The data.
        k: Number of folds, where the data have no split of their own.
        seeds: Models from different initial weights for each candidate.
        budget: Candidates for each method in each fold.
        epochs: Passes over the training rows.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Seed for the fold assignment and the bootstrap.
        on_progress: Called with the work done and the total work.
    """
    if table.weight is not None:
        raise ValueError("An audit counts every row alike: leave out the weights of rows.")
    parts = folds(table, k, seed)
    findings = check(table, parts)
    pid = _decompose(table, seed)
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
    scores = {method: row_scores(outcome, method) for method in outcome.methods}
    tested = ~np.isnan(scores["vanilla"][0])
    group = resampling_groups(table, tested)

    def over(ours: Numbers, theirs: Numbers) -> Estimate:
        return lead(ours[..., tested], theirs[..., tested], group, seed)

    fusions = [method for method in FUSIONS if method in outcome.methods]
    gains = {method: fusion_gain(outcome, method, seed) for method in fusions}
    gains["products"] = products_gain(outcome, seed)
    best = max(gains, key=lambda method: _standard_errors(gains[method].evidence))
    synergy = decide(gains[best].evidence, gains[best].lead, len(gains))
    power = planted(outcome, len(gains), seed) if synergy == "absent" else None
    if power is not None and not power.seen:
        synergy = "unclear"
    unimodal = [method for method in outcome.methods if method.startswith("unimodal-")]
    best_single = min(unimodal, key=lambda method: float(outcome.methods[method].losses.min(1).mean()))
    synib = recommended(table)
    additive = gains["vanilla"].additive
    pooling, vanilla = over(additive, scores[best_single]), gains["vanilla"].lead
    synib_gain = over(scores[synib], scores["vanilla"])
    means = {method: over(x, np.zeros_like(x)) for method, x in scores.items()}
    means |= {"additive combination": over(additive, np.zeros_like(additive)), "products": gains["products"].score}
    measure = "accuracy" if table.classes else "explained variance"
    verdict = Verdict(
        synergy,
        gains[best].lead,
        power,
        pooling,
        synib_gain,
        vanilla,
        {method: reliance(outcome, method, group, tested, seed) for method in ("vanilla", synib)},
        shortcuts(table, parts, seed),
        sentences(synergy, gains[best].lead, best, power, pooling, synib_gain, vanilla, measure, len(table.target)),
    )
    on_subset = subset(outcome, fusions, group, device=device, seed=seed)
    return Audit(table, parts, findings, outcome, means, gains, best, synib, pid, on_subset, verdict)


def _standard_errors(evidence: Estimate) -> float:
    """How far a gain is from 0, in units of its interval's width."""
    return evidence.value / max(evidence.high - evidence.low, 1e-12)


def _decompose(table: Table, seed: int) -> dict[str, PIDEstimate]:
    """Each modality beside the others joined, by clusters of rows that have all; for classes with enough rows."""
    (rows,) = np.nonzero(np.stack(list(table.present.values())).all(0))
    if len(rows) > PID_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, PID_ROWS, replace=False))
    if not table.classes or np.bincount(table.target[rows], minlength=len(table.classes)).min() < 8:
        return {}
    values = {name: standardised(np.asarray(x[rows], dtype=np.float64)) for name, x in table.modalities.items()}
    names = list(values)[:1] if len(values) == 2 else list(values)
    others = {name: np.concatenate([x for other, x in values.items() if other != name], 1) for name in names}
    return {name: pid_quantised(values[name], others[name], table.target[rows], seed=seed) for name in names}
