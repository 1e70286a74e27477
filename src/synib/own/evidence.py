"""What fusion models and detectors of interactions gain over the best additive model, row by row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.files.pages import RowsOnDemand, release
from synib.measure.detectors import Comparison, Detectors, Extension, Labels, Number, OneOf, Response, extend
from synib.measure.stats import (
    Estimate,
    Scale,
    assign,
    corrected_resampled_t,
    mean,
    simultaneous,
    standardisation,
    unknown,
)
from synib.own.additive_parts import additive_parts
from synib.own.fitting import Outcome
from synib.own.folds import sample
from synib.own.metric import Metric
from synib.own.table import Table

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
PARTS = 5  # folds of the regressions
ROWS = 20_000  # rows used by detectors, at most
PROBED = 100_000  # networks are evaluated on all tested rows up to this number, and beyond it on the detectors' rows
BLOCK = 4096  # rows in double precision at a time
KEPT = 1 << 24  # bytes of standardised features of a modality that are kept
SURE = 0.025  # one-sided level, as for a two-sided 95 % interval
WORTH = 0.01  # of the metric: with many rows a smaller gain could come from an imperfect additive model


@dataclass(frozen=True)
class Candidate:
    """A model that may have found an interaction.

    Args:
        evidence: The gain of its interaction over the additive model in log-likelihood, in nats per row, beyond the
            candidate's unimodal parts; with a simultaneous interval.
        p: Adjusted p-value of no gain (single-step max-t over all candidates).
        lead: The same gain in the audit's metric, with its own interval.
        bound: The same gain with a simultaneous interval.
        score: The metric.
    """

    evidence: Estimate
    p: float
    lead: Estimate
    bound: Estimate
    score: Estimate

    @property
    def sure(self) -> bool:
        """Whether log-likelihood and the metric both show a gain, of at least one point in the metric."""
        return self.p <= SURE and self.lead.low > 0 and self.lead.value >= WORTH


@dataclass(frozen=True)
class Evidence:
    """The result of :func:`collect`.

    Args:
        rows: The evaluated test rows.
        candidates: Fusion method or detector → its gain.
        additive: The metric of the additive model.
        additive_scores: The same for each row.
        scores: Fusion method or detector → its score of each row.
        critical: Critical value in standard errors, corrected for the number of candidates.
        note: A sentence on which rows were evaluated, if not all.
    """

    rows: Rows
    candidates: Mapping[str, Candidate]
    additive: Estimate
    additive_scores: Numbers
    scores: Mapping[str, Numbers]
    critical: float
    note: str = ""

    @property
    def best(self) -> str:
        """The candidate with the strongest evidence; candidates that gain in log-likelihood and in the metric come first."""
        return max(self.candidates, key=lambda name: (self.candidates[name].sure, -self.candidates[name].p))


class Bench:
    """The tested rows of an audit with the detectors prepared for them; usable with the real target and with simulated ones.

    Args:
        outcome: The trained models, an additive network among them.
        metric: The metric by which predictions are compared.
        group: For each row of the table its dependence group (user groups, near-copies); ``None`` if rows are independent.
        device: Device of the detectors.
        seed: Seed for the choice of rows, the folds, landmarks and clusters.
    """

    def __init__(
        self, outcome: Outcome, metric: Metric, group: NDArray[np.generic] | None, device: str = "cpu", seed: int = 0
    ) -> None:
        table = outcome.table
        self.outcome, self.metric, self.device, self.seed = outcome, metric, device, seed
        self.rows, self.probed, self.note = _evaluated_rows(outcome, seed)
        self._scales: dict[str, Scale] = {}
        self._standardised: dict[str, list[tuple[Rows, Numbers]]] = {}
        self.group = None if group is None else np.unique(group[self.rows], return_inverse=True)[1]
        self.part = self._parts(table)
        self.base = torch.stack([self._eta(method) for method in _additive_models(outcome)])
        self.offset = self.base[-1]  # of the additive network
        present = {n: torch.from_numpy(np.asarray(p[self.rows], dtype=bool)) for n, p in table.present.items()}
        self.detectors = Detectors(
            {name: RowsOnDemand(x, self.rows, device) for name, x in table.modalities.items()},
            {name: p.to(device) for name, p in present.items()},
            torch.from_numpy(self.part).to(device), seed,
        )  # fmt: skip

    def scale(self, name: str) -> Scale:
        """The scale of a modality's features over the rows that have it."""
        if name not in self._scales:
            table = self.outcome.table
            self._scales[name] = standardisation(table.modalities[name], self.rows[table.present[name][self.rows]])
        return self._scales[name]

    def standardised(self, name: str) -> Iterator[tuple[Rows, Numbers]]:
        """Positions of the rows that have a modality, and their standardised features, in blocks; kept if they are small."""
        x, present = self.outcome.table.modalities[name], np.asarray(self.outcome.table.present[name], dtype=bool)
        if name in self._standardised:
            yield from self._standardised[name]
            return
        rows, scale, kept = np.flatnonzero(present[self.rows]), self.scale(name), []
        small = len(rows) * x.shape[1] * 8 <= KEPT
        for at in range(0, len(rows), BLOCK):
            positions = rows[at : at + BLOCK]
            block = positions, scale(x[self.rows[positions]])
            release(x)
            if small:
                kept.append(block)
            yield block
        if small:
            self._standardised[name] = kept

    @property
    def target(self) -> NDArray[np.generic]:
        """The target of the rows."""
        return self.outcome.table.target[self.rows]

    def compare(self, target: NDArray[np.generic]) -> Comparison:
        """The gain of the detectors over the additive model, for this target of the rows."""
        return self.detectors.compare(self.response(target), self.base.to(self.device), self.offset.to(self.device))

    def compare_each(self, targets: Sequence[NDArray[np.generic]]) -> Iterator[Comparison]:
        """:meth:`compare` for several targets; on a GPU they are compared together, where small operations take longest."""
        if self.device == "cpu":
            yield from map(self.compare, targets)
        else:
            responses = [self.response(target) for target in targets]
            yield from self.detectors.compare_each(responses, self.base.to(self.device), self.offset.to(self.device))

    def response(self, target: NDArray[np.generic]) -> Response:
        """A target of the rows as the response of a regression."""
        table, y = self.outcome.table, torch.from_numpy(np.asarray(target)).to(self.device)
        if table.kind == "regression":
            return Number(y)
        return Labels(y) if table.kind == "multilabel" else OneOf(y, len(table.classes))

    def network(self, method: str, compared: Comparison) -> Extension:
        """The additive model extended by a fusion model: first by its additive part, then by the rest of its prediction.

        The additive part of a network is the mean of its predictions over the other modalities' values, one for each modality.
        """
        response, eta = self.response(self.target), compared.additive
        unimodal_parts = torch.from_numpy(
            additive_parts(self.outcome, method, self.seed, self.probed)[:, self.rows]
        ).to(self.device)
        joint = self._eta(method).to(self.device)
        unimodal_parts = unimodal_parts - unimodal_parts.mean(1, keepdim=True)
        interaction = (joint - joint.mean(0) - unimodal_parts.sum(0))[None]
        result = Extension(
            torch.empty_like(eta),
            torch.empty_like(eta),
            torch.empty_like(compared.loss),
            torch.empty_like(compared.loss),
        )
        for fold in range(int(self.part.max()) + 1):
            test, train = (torch.from_numpy(np.flatnonzero(x)).to(self.device) for x in self._sides(fold))
            extend(response, eta, unimodal_parts, interaction, train, test, result)
        return result

    def scores(self, method: str) -> Numbers:
        """A method's score of each row, averaged over seeds."""
        predictions = self.outcome.methods[method].predictions[:, self.rows]
        columns = slice(0, 1) if self.outcome.table.kind == "regression" else slice(None)
        return np.mean([self.metric.scores(eta[:, columns], self.target) for eta in predictions], 0)

    def mean(self, x: Numbers) -> Estimate:
        """The mean over rows, with an interval that accounts for dependent rows."""
        return mean(x, self.group)

    def estimate(self, scores: Numbers) -> Estimate:
        """The metric from the scores of rows, with an interval that accounts for dependent rows and cross-validation."""
        return self.metric.estimate(scores, self.group, len(self.outcome.parts))

    def lead(self, scores: Numbers, other: Numbers, level: float = 0.95) -> Estimate:
        """The difference between two models' scores, with an interval that accounts for dependent rows."""
        return self.metric.lead(scores, other, self.group, level)

    def lead_of_methods(self, method: str, rival: str, level: float = 0.95) -> Estimate:
        """The gain of one method over another, with the wider of two intervals.

        One is over rows and covers the sampling of test rows; the other is over folds and covers the training (corrected
        resampled t, since folds share training rows).
        """
        scores, rival_scores = self.scores(method), self.scores(rival)
        by_rows, parts = self.lead(scores, rival_scores, level), self.outcome.parts
        if method == rival or len(parts) < 3:
            return by_rows
        tested = [np.isin(self.rows, fold.test) for fold in parts]
        differences = np.array([(scores - rival_scores)[rows].mean() for rows in tested if rows.any()])
        share = len(parts[0].test) / len(parts[0].train)
        by_models = corrected_resampled_t(differences, share, level)
        low, high = min(by_rows.low, by_models.low), max(by_rows.high, by_models.high)
        return replace(by_rows, low=low, high=high)

    def _sides(self, fold: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return self.part == fold, self.part != fold

    def _eta(self, method: str) -> Tensor:
        return torch.from_numpy(linear_predictor(self.outcome, method)[self.rows])

    def _parts(self, table: Table) -> Rows:
        if self.group is not None:
            return assign(len(self.rows), min(PARTS, int(self.group.max()) + 1), self.seed, groups=self.group)
        single = table.kind in ("classification", "ordinal")
        strata = np.asarray(table.target[self.rows], dtype=np.int64) if single else None
        return assign(len(self.rows), PARTS, self.seed, strata=strata)


def collect(bench: Bench, fusions: Sequence[str]) -> Evidence:
    """The gains of fusion models and of detectors over the additive model.

    Args:
        bench: The rows and detectors.
        fusions: Fusion methods among the trained models.
    """
    y = bench.target
    compared = bench.compare(y)
    additive = bench.metric.scores(compared.additive.cpu().numpy(), y)
    extensions = {method: bench.network(method, compared) for method in fusions} | dict(compared.detectors)
    gains, leads, scores = {}, {}, {}
    for name, extension in extensions.items():
        without, extended = (bench.metric.scores(x.cpu().numpy(), y) for x in (extension.without, extension.extended))
        gains[name], leads[name] = extension.gain.cpu().numpy(), (extended, without)
        scores[name] = bench.scores(name) if name in fusions else extended
    names = list(gains)
    adjusted = simultaneous(np.stack([gains[n] for n in names]), bench.group, seed=bench.seed)
    adjusted_level = simultaneous(np.stack([a - b for a, b in leads.values()]), bench.group, seed=bench.seed).level_each
    candidates = {
        name: Candidate(
            adjusted.estimates[i],
            float(adjusted.p_values[i]),
            bench.lead(*leads[name]),
            bench.lead(*leads[name], adjusted_level) if 0 < adjusted_level < 1 else unknown(len(bench.rows)),
            bench.estimate(scores[name]),
        )
        for i, name in enumerate(names)
    }
    return Evidence(bench.rows, candidates, bench.estimate(additive), additive, scores, adjusted.critical, bench.note)


def linear_predictor(outcome: Outcome, method: str) -> Numbers:
    """A method's calibrated prediction of every row, averaged over seeds: log-odds, log-probabilities, or a mean."""
    parameters, kind = outcome.calibrated(method), outcome.table.kind
    if kind == "regression":
        return np.asarray(parameters[..., :1].mean(0))
    from scipy.special import expit, log_softmax, logit, logsumexp  # slow to import

    if kind == "multilabel" or parameters.shape[-1] == 1:
        return np.asarray(logit(expit(parameters).mean(0).clip(1e-12, 1 - 1e-12)))
    return np.asarray(logsumexp(log_softmax(parameters, -1), 0) - np.log(len(parameters)))


def _additive_models(outcome: Outcome) -> list[str]:
    """Models without interactions: one per modality and, last, an additive network."""
    return [*(f"unimodal-{name}" for name in outcome.table.modalities), "additive"]


def _evaluated_rows(outcome: Outcome, seed: int) -> tuple[Rows, Rows, str]:
    """The tested rows, or a stratified sample of them; the rows on which networks are evaluated; and a note on the sample."""
    tested = np.flatnonzero(~np.isnan(outcome.methods["additive"].predictions[0, :, 0]))
    if len(tested) <= ROWS:
        return tested, tested, ""
    rows = sample(outcome.table, tested, ROWS, seed)
    note = f"Interactions were tested on {len(rows):,} of {len(tested):,} rows, drawn at random within classes."
    return rows, tested if len(tested) <= PROBED else rows, note
