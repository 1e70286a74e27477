"""Notable rows of an audit: those that need both modalities, those whose modalities contradict each other, and those
that only the fusion predicts correctly.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from synib.explanation.answers import Readout
from synib.explanation.kinds import Kinds, kinds_of_rows
from synib.explanation.raw.audited import AuditParts, audit_parts, prediction
from synib.explanation.rows import RowEvidence, row_evidence
from synib.files.pages import RowsOnDemand
from synib.measure import background as backgrounds
from synib.measure.encoded import CHUNK, Encoded, evaluated
from synib.own.audit import Audit, Progress
from synib.own.fitting import Outcome
from synib.own.metric import probabilities
from synib.tokens import present, take

Numbers = NDArray[np.float64]
SHOWN = 5  # rows of each list
ROWS = 2000  # rows of a fold whose evidence is decomposed, at most
DRAWS = 64
LEAST = 20  # complete rows of a fold, at least; fewer are too small a background


@dataclass(frozen=True)
class RowNote:
    """A row with its description: its number in the table, from 0, and named values as texts."""

    row: int
    values: dict[str, str]


@dataclass(frozen=True)
class NotableRows:
    """The result of :func:`notable_rows`.

    Args:
        method: The fusion method whose predictions were decomposed.
        need_both: The most synergistic rows.
        contradict: Rows for which unimodal models predict different classes most confidently.
        only_together: Rows that the fusion predicts correctly and every unimodal model wrongly, most confident first.
        kinds: Clusters and directions that interact, if the audit found synergy.
        parts: The scores of the parts of the most synergistic rows, if the data have raw columns.
    """

    method: str
    need_both: tuple[RowNote, ...]
    contradict: tuple[RowNote, ...]
    only_together: tuple[RowNote, ...]
    kinds: Kinds | None
    parts: AuditParts


def notable_rows(
    audit: Audit, seed: int = 0, on_progress: Progress = lambda done, total, what: None
) -> NotableRows | None:
    """Find notable rows with models that were not trained on them.

    Args:
        audit: A finished audit.
        seed: Seed for the draws.
        on_progress: Called while parts of rows are explained, with the rows done, their total, and the current step.

    Returns:
        ``None`` if the target is not a class.
    """
    outcome, table = audit.outcome, audit.table
    if table.kind not in ("classification", "ordinal"):
        return None
    candidates = [name for name in (audit.synib, "vanilla") if name in outcome.methods]
    method = min(candidates, key=lambda name: float(outcome.methods[name].losses.min(1).mean()))
    tested = ~np.isnan(outcome.methods[method].predictions[0, :, 0])
    unimodal = {name: _probabilities(outcome, f"unimodal-{name}") for name in table.modalities}
    fused = _probabilities(outcome, method)
    lead, notes = _evidence_of_rows(outcome, method, seed)
    known = np.flatnonzero(~np.isnan(lead))
    ranked = known[np.argsort(-lead[known], kind="stable")][:SHOWN]
    synergistic = [int(row) for row in ranked if lead[row] > 0]
    return NotableRows(
        method,
        tuple(RowNote(row, notes[row] | _answers(audit, row, unimodal, fused)) for row in synergistic),
        tuple(RowNote(row, _answers(audit, row, unimodal, fused)) for row in _contradicting(audit, unimodal, tested)),
        tuple(
            RowNote(row, _answers(audit, row, unimodal, fused))
            for row in _only_together(audit, unimodal, fused, tested)
        ),
        _kinds(audit, seed),
        audit_parts(outcome, method, synergistic, seed, on_progress),
    )


def _probabilities(outcome: Outcome, method: str) -> Numbers:
    """Probabilities of the classes for each row, averaged over seeds."""
    return np.mean([probabilities(eta) for eta in outcome.calibrated(method)], 0)


def _evidence_of_rows(outcome: Outcome, method: str, seed: int) -> tuple[Numbers, dict[int, dict[str, str]]]:
    """The lead of synergy in each test row (NaN where unknown), and its description."""
    lead = np.full(len(outcome.table.target), np.nan)
    notes: dict[int, dict[str, str]] = {}
    for i, fold in enumerate(outcome.parts):
        split = outcome.recipe.split(i, fold.test[:ROWS])
        has = [present(x) for x in split.modalities.values()]
        complete = torch.stack([torch.ones(len(split), dtype=torch.bool) if h is None else h for h in has]).all(0)
        if int(complete.sum()) < LEAST:
            continue
        rows, learner = fold.test[:ROWS][complete.numpy()], outcome.methods[method].learners[i][0]
        chosen = {name: take(x, complete.nonzero()[:, 0]) for name, x in split.modalities.items()}
        with evaluated(learner):
            encoded = Encoded(prediction(learner), chosen, CHUNK)
            readout = Readout(outcome.family, encoded.own())
            background = backgrounds.draw(encoded, min(DRAWS, encoded.size), seed)
            evidence = row_evidence(encoded, background, readout, encoded.size)
        lead[rows] = evidence.lead
        notes |= {int(row): _words(evidence, k) for k, row in enumerate(rows)}
    return lead, notes


def _words(evidence: RowEvidence, row: int) -> dict[str, str]:
    synergy = evidence.synergy
    values = {"synergy": f"{synergy.value[row]:+.2f} [{synergy.low[row]:+.2f}, {synergy.high[row]:+.2f}]"}
    return values | {f"{name} alone": f"{scores.value[row]:+.2f}" for name, scores in evidence.alone.items()}


def _answers(audit: Audit, row: int, alone: dict[str, Numbers], fused: Numbers) -> dict[str, str]:
    """The target and the prediction of each model for the row."""
    classes = audit.table.classes

    def class_and_probability(p: Numbers) -> str:
        return f"{classes[int(p[row].argmax())]} ({p[row].max():.2f})"

    answers = {f"{name} says": class_and_probability(p) for name, p in alone.items()}
    return {"target": classes[int(audit.table.target[row])], **answers, "together": class_and_probability(fused)}


def _contradicting(audit: Audit, alone: dict[str, Numbers], tested: NDArray[np.bool_]) -> list[int]:
    """Rows for which two unimodal models confidently predict different classes."""
    best = np.zeros(len(tested))
    for a, b in combinations(alone, 2):
        has_both = tested & audit.table.present[a] & audit.table.present[b]
        differ = has_both & (alone[a].argmax(1) != alone[b].argmax(1))
        confidence = np.minimum(alone[a].max(1), alone[b].max(1))
        best = np.maximum(best, np.where(differ, np.nan_to_num(confidence), 0.0))
    order = np.argsort(-best, kind="stable")[:SHOWN]
    return [int(row) for row in order if best[row] > 0]


def _only_together(audit: Audit, alone: dict[str, Numbers], fused: Numbers, tested: NDArray[np.bool_]) -> list[int]:
    """Rows that the fusion predicts correctly and no unimodal model does."""
    y = audit.table.target
    only_fusion = tested & (fused.argmax(1) == y)
    for p in alone.values():
        only_fusion &= p.argmax(1) != y
    confidence = np.where(only_fusion, fused.max(1), 0.0)
    return [int(row) for row in np.argsort(-confidence, kind="stable")[:SHOWN] if confidence[row] > 0]


def _kinds(audit: Audit, seed: int) -> Kinds | None:
    """Clusters and directions that interact, if the audit found synergy.

    As for the audit's detectors, the interaction is what the additive network leaves unexplained, so it shows whether or not a
    fusion model has learned it.
    """
    table, rows = audit.table, audit.evidence.rows
    rows = rows[np.logical_and.reduce([present[rows] for present in table.present.values()])]
    if audit.verdict.synergy != "present" or len(rows) < LEAST:
        return None
    last = len(table.classes) - 1
    residual = (table.target[rows] == last) - _probabilities(audit.outcome, "additive")[rows, last]
    read = {}
    for name, x in table.modalities.items():
        precision = torch.float32 if x.dtype == np.float32 else torch.float64
        read[name] = RowsOnDemand(x, rows, dtype=precision)
    return kinds_of_rows(residual, read, seed=seed).renumbered(rows)
