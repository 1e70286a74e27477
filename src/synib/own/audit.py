"""The audit: from a user's rows to a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synib.files.pages import return_freed
from synib.measure import Estimate, PIDEstimate, pid_quantised
from synib.measure.stats import standardised, unknown
from synib.own import sentences
from synib.own.claims import claims_of
from synib.own.data_checks import Finding, check
from synib.own.decision import decide
from synib.own.evidence import Bench, Evidence, collect
from synib.own.fitting import Outcome, train
from synib.own.folds import Fold, folds, sample
from synib.own.learning_curve import learning_curve
from synib.own.metric import Metric
from synib.own.near_copies import check_split, dependence_groups
from synib.own.power import detectable
from synib.own.reliance import reliance
from synib.own.search_space import control, methods_of, recommended
from synib.own.shortcuts import shortcuts
from synib.own.subset import Subset, subset
from synib.own.table import Table
from synib.own.verdict import Verdict
from synib.training.device import choose_device

PID_ROWS = 5000  # rows that are decomposed: clusters and counts need no more
FEWEST_GROUPS = 3  # one each to train, choose and test on
# Relative cost of each phase, for the progress bar.
WORK = {
    "training": 60.0,
    "interactions": 4.0,
    "power": 18.0,
    "learning curve": 8.0,
    "synergy subset": 6.0,
    "reliance": 4.0,
}

Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Audit:
    """The result of :func:`audit`.

    Args:
        table: The data.
        parts: The folds.
        findings: Facts and warnings about the data.
        outcome: The trained models.
        metric: How models are compared.
        evidence: The gains of fusion models and detectors over the additive model.
        scores: Model → its metric on test rows.
        over_additive: Model → its gain over the additive model on the same rows.
        synib: The form of SynIB that was trained.
        control: The same estimator with SynIB's weight at 0.
        pid: Modality → partial information decomposition of it and all others, by clusters; for class targets only, and
            for two modalities only the first.
        subset: The accuracy of fusion models on rows where every unimodal model is wrong; for class targets only.
        verdict: The verdict.
    """

    table: Table
    parts: Sequence[Fold]
    findings: Sequence[Finding]
    outcome: Outcome
    metric: Metric
    evidence: Evidence
    scores: Mapping[str, Estimate]
    over_additive: Mapping[str, Estimate]
    synib: str
    control: str
    pid: Mapping[str, PIDEstimate]
    subset: Subset | None
    verdict: Verdict

    def __repr__(self) -> str:
        return f"Audit of {self.table.source or 'arrays'}: synergy {self.verdict.synergy}\n" + "\n".join(
            self.verdict.sentences
        )


def audit(
    table: Table,
    *,
    k: int = 5,
    seeds: int = 1,
    budget: int = 6,
    epochs: int | None = None,
    metric: str | None = None,
    judge: bool = True,
    tries: int = 6,
    device: str = "auto",
    seed: int = 0,
    on_progress: Progress = lambda done, total, what: None,
) -> Audit:
    """Test whether these rows have synergy, whether plain fusion learns it, and whether SynIB helps.

    Args:
        table: The data.
        k: Number of folds, if the data have no split column.
        seeds: Models from different initial weights for each candidate.
        budget: Candidates for each method in each fold.
        epochs: Passes over the training rows.
        metric: How models are compared; see :class:`~synib.own.metric.Metric` for the default.
        judge: Whether to train SynIB and its control, and to check that plain fusion is trained to convergence. Without it
            the verdict rests on plain fusion and the detectors, and methods are not compared.
        tries: Simulated targets for each kind and size of interaction, from which the statistical power is estimated.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        seed: Seed for the fold assignment, simulations and draws.
        on_progress: Called with the work done, the total work, and the current step; on a GPU also from other threads,
            one at a time.
    """
    if table.weight is not None:
        raise ValueError("An audit does not support row weights: leave out the weight column.")
    compared_by = Metric(table, metric)
    device = choose_device(device)
    dependent = dependence_groups(table)
    check_split(table)
    grouped = replace(table, group=dependent) if dependent is not None else table
    parts = folds(grouped, _folds(grouped, k), seed)
    findings = check(table, parts)
    if compared_by.chosen:
        findings.append(Finding("fact", compared_by.chosen))
    pid = _decompose(table, dependent, seed)  # first, so that a missing package is reported before hours of training
    progress = _Phases(on_progress)
    progress.start("training")
    outcome = train(
        grouped,
        parts,
        methods_of(table, judge),
        seeds=seeds,
        budget=budget,
        epochs=epochs,
        device=device,
        on_progress=progress.part,
    )
    progress.start("interactions")
    bench = Bench(outcome, compared_by, dependent, device, seed)
    synib, rival = recommended(table), control(table)
    fusions = ["vanilla", synib] if judge else ["vanilla"]
    return_freed()
    evidence = collect(bench, fusions)
    if evidence.note:
        findings.append(Finding("fact", evidence.note))
    progress.start("power")
    present = any(candidate.sure for candidate in evidence.candidates.values())
    sizes = {} if present else detectable(bench, evidence.critical, tries=tries)
    synergy = decide(evidence, sizes)
    bench.detectors.release()
    progress.start("learning curve")
    curve = learning_curve(outcome, device) if judge else None
    scores = {method: bench.scores(method) for method in outcome.methods}
    single = _best_single(outcome)
    chance = compared_by.of_chance(bench.target)
    additive = evidence.additive_scores
    pooling = bench.lead(additive, scores[f"unimodal-{single}"])
    gain, over_vanilla = (
        bench.lead_of_methods(synib, other) if judge else unknown(len(bench.rows)) for other in (rival, "vanilla")
    )
    plain_fusion = bench.lead(scores["vanilla"], additive)
    row_scores = {**scores, **evidence.scores, "additive model": additive}
    best_score = max(row_scores.values(), key=lambda x: float(np.mean(x)))
    rivals = (synib, rival) if curve is not None and curve.adequate else None
    claims = claims_of(bench, synergy, additive, scores[f"unimodal-{single}"], row_scores, chance, rivals)
    progress.start("synergy subset")
    on_subset = subset(bench, fusions, device=device) if judge else None
    progress.start("reliance")
    metric_name = compared_by.words
    verdict = Verdict(
        synergy=synergy,
        metric=compared_by.name,
        best=evidence.best,
        interaction=evidence.candidates[evidence.best].lead,
        candidates=evidence.candidates,
        detectable=sizes,
        pooling=pooling,
        plain_fusion=plain_fusion,
        gain=gain,
        gain_over_vanilla=over_vanilla,
        chance=bench.estimate(chance),
        curve=curve,
        claims=claims,
        recommendation=sentences.recommend(synergy, gain, plain_fusion, claims, single),
        reliance={method: reliance(bench, method, seed) for method in fusions},
        shortcuts=shortcuts(grouped, parts, seed) if table.kind != "multilabel" else [],
        sentences=[
            *sentences.on_synergy(synergy, evidence, sizes, metric_name),
            sentences.on_pooling(pooling, single, claims, metric_name),
            *sentences.on_methods(synergy, plain_fusion, gain, over_vanilla, curve, claims, metric_name, rival),
            *sentences.on_chance(bench.estimate(best_score), bench.estimate(chance), claims, metric_name),
        ],
    )
    mean_scores = {method: bench.estimate(x) for method, x in scores.items()}
    mean_scores |= {name: evidence.candidates[name].score for name in bench.detectors.names}
    mean_scores |= {"additive model": evidence.additive, "constant prediction": bench.estimate(chance)}
    leads = {method: bench.lead(x, additive) for method, x in scores.items()}
    leads |= {name: bench.lead(evidence.scores[name], additive) for name in bench.detectors.names}
    progress.end()
    return Audit(
        table,
        parts,
        findings,
        outcome,
        compared_by,
        evidence,
        mean_scores,
        leads,
        synib,
        rival,
        pid,
        on_subset,
        verdict,
    )


class _Phases:
    """One progress bar for all phases, each with its share."""

    def __init__(self, report: Progress) -> None:
        self._report, self._total = report, sum(WORK.values())
        self._done, self._phase = 0.0, ""

    def start(self, phase: str) -> None:
        self._done += WORK.get(self._phase, 0.0)
        self._phase = phase
        return_freed()
        self._report(self._done, self._total, phase)

    def part(self, done: float, total: float) -> None:
        self._report(self._done + WORK[self._phase] * done / max(total, 1e-12), self._total, self._phase)

    def end(self) -> None:
        return_freed()
        self._report(self._total, self._total, "done")


def _folds(table: Table, k: int) -> int:
    """The number of folds: ``k``, or the number of groups if that is smaller."""
    if table.group is None or table.split is not None:
        return k
    groups = len(np.unique(table.group))
    if groups < FEWEST_GROUPS:
        raise ValueError(
            f"The rows belong to {groups} group{'s' * (groups != 1)}; at least {FEWEST_GROUPS} are needed to train, choose and "
            "test on different ones. Leave out the group column to treat rows as independent."
        )
    return min(k, groups)


def _best_single(outcome: Outcome) -> str:
    """The modality whose own model has the lowest validation log-loss."""
    return min(outcome.table.modalities, key=lambda n: float(outcome.methods[f"unimodal-{n}"].losses.min(1).mean()))


def _decompose(table: Table, groups: NDArray[np.generic] | None, seed: int) -> dict[str, PIDEstimate]:
    """Decomposition of each modality and all others, on rows that have all modalities; needs 8 rows of every class."""
    (rows,) = np.nonzero(np.stack(list(table.present.values())).all(0))
    if len(rows) > PID_ROWS:
        rows = sample(table, rows, PID_ROWS, seed)
    if table.kind not in ("classification", "ordinal"):
        return {}
    if np.bincount(table.target[rows], minlength=len(table.classes)).min() < 8:
        return {}
    values = {name: standardised(np.asarray(x[rows], dtype=np.float64)) for name, x in table.modalities.items()}
    names = list(values)[:1] if len(values) == 2 else list(values)
    others = {name: np.concatenate([x for other, x in values.items() if other != name], 1) for name in names}
    group = None if groups is None else groups[rows]
    return {
        name: pid_quantised(values[name], others[name], table.target[rows], groups=group, seed=seed) for name in names
    }
