"""Model choice and calibration on out-of-fold predictions, both evaluated on rows that they did not use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from synib import logistic
from synib.measure.stats import temperature
from synib.objective import Bernoulli, Family, Gaussian, MultiLabel

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
FREQUENCIES = "frequencies"  # predicts the distribution of the target, whatever the row
CLEAR = 2.0  # standard errors of the difference by which a method must be better to replace a preferred one
LEAST_WEIGHT = 1e-3  # of a prediction: a useless one gets this weight, never a negative one


@dataclass(frozen=True)
class Candidate:
    """One training configuration, and the out-of-fold predictions of its models.

    Args:
        method: Name of the method.
        settings: The settings that distinguish it from other candidates of the method.
        seed: Seed of its training.
        answers: Predictions of the model, or of each of its experts: the family's parameters, ``(experts, rows, outputs)``.
        calibrated: Whether a calibration is fitted; class frequencies need none.
        paired: For each fold, predictions by models that were not trained on that fold either,
            ``(folds, experts, rows, outputs)``.
    """

    method: str
    settings: Mapping[str, Any]
    seed: int
    answers: Tensor
    calibrated: bool = True
    paired: Tensor | None = None

    def without(self, fold: int | None) -> Tensor:
        """Predictions by models that were not trained on a fold, if there are such models."""
        return self.answers if fold is None or self.paired is None else self.paired[fold]


@dataclass(frozen=True)
class Calibration:
    r"""Maps the predictions of experts to a calibrated prediction: :math:`\sum_e w_e \ell_e + b`.

    Args:
        weights: One per expert; with a single expert, 1 / temperature.
        bias: One number per output. For a Gaussian it scales the standard deviation.
    """

    weights: Tensor
    bias: Tensor

    def __call__(self, answers: Tensor) -> Tensor:
        return torch.tensordot(self.weights, answers.double(), 1) + self.bias


def calibrate(family: Family, answers: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Calibration:
    r"""The calibration that fits these rows best, shrunk towards the class frequencies.

    With :math:`\pi` the log-odds of the class frequencies it is

    .. math:: \pi + w (\ell - \pi) + b, \qquad \text{of several experts}\quad \pi + \textstyle\sum_e w_e \ell_e + b,

    fitted by penalised logistic regression (Platt scaling; with several experts, stacked generalisation), with one
    pseudo-count per class. An uninformative prediction gets the weight 0, which leaves the class frequencies. A Gaussian's
    standard deviation is multiplied by one factor.

    The weight of a single prediction is never negative. With several experts, one may have a negative weight, which corrects
    another, but only where that clearly lowers the loss. Otherwise a negative weight is likely to be noise: two folds that
    differ by chance predict each other below chance, so each seems to confirm the negative weight fitted to the other.

    Args:
        family: The predictive distribution.
        answers: ``(experts, rows, outputs)``, for rows that the experts were not trained on.
        target: Their targets.
        sample_weight: Weight of each row.
    """
    answers = answers.double()
    experts, rows, outputs = answers.shape
    if isinstance(family, Gaussian):
        t = temperature(answers[0], target.double(), family, 1.0, sample_weight)
        return Calibration(answers.new_ones(1), answers.new_tensor([0.0, 2 * np.log(t)]))
    prior = frequencies(family, target, outputs, sample_weight)
    scores = answers - prior if experts == 1 else answers
    if isinstance(family, MultiLabel):
        weights, bias = _fit_labels(scores, target.double(), prior, sample_weight)
    else:
        classes = max(outputs, 2)
        columns = torch.arange(outputs) if outputs > 1 else torch.ones(1)
        truth = ((target.reshape(-1, 1) == columns).double() + 1 / rows) / (1 + classes / rows)
        scale = scores.square().mean((1, 2)).sqrt().clamp(min=1e-12)
        weights, bias = _fit_classes(scores / scale[:, None, None], truth, prior, sample_weight)
        weights = weights / scale
    if experts == 1 and weights[0] < LEAST_WEIGHT:
        weights, bias = torch.full_like(weights, LEAST_WEIGHT), torch.zeros_like(bias)
    return Calibration(weights, prior * (1 - weights.sum()) + bias if experts == 1 else prior + bias)


def _fit_classes(scores: Tensor, truth: Tensor, prior: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """One weight per expert, negative only where that is clearly better, and one bias per logit.

    While a weight is negative, the expert with the lowest weight is dropped and the others are fitted again. All experts are
    kept if dropping them lowers the log-likelihood by more than ``CLEAR`` squared / 2 for each dropped expert.
    """
    rows, experts = len(truth), len(scores)

    def fitted(kept: list[int]) -> tuple[Tensor, Tensor, float]:
        slopes, bias = logistic.fit(
            scores[kept], truth, ridge=1 / rows, bias_ridge=1 / rows, offset=prior, sample_weight=sample_weight
        )
        weights = scores.new_zeros(experts).index_put((torch.tensor(kept),), slopes)
        logits = torch.tensordot(weights, scores, 1) + prior + bias
        nll = binary_cross_entropy_with_logits if logits.shape[1] == 1 else cross_entropy
        losses = nll(logits, truth, reduction="none").reshape(rows)
        return weights, bias, rows * float(np.average(losses, weights=sample_weight))

    kept = list(range(experts))
    with_all = weights, bias, loss = fitted(kept)
    while (weights < 0).any():
        kept.remove(int(weights.argmin()))
        if not kept:
            return scores.new_zeros(experts), torch.zeros_like(prior)
        weights, bias, loss = fitted(kept)
    clear = loss - with_all[2] > (experts - len(kept)) * CLEAR**2 / 2
    return with_all[:2] if clear else (weights, bias)


def _fit_labels(scores: Tensor, target: Tensor, prior: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """One weight per expert, shared by all labels, and one bias per label."""
    experts, rows, labels = scores.shape
    scale = scores.square().mean((1, 2)).sqrt().clamp(min=1e-12)
    x, truth = scores / scale[:, None, None], (target + 1 / rows) / (1 + 2 / rows)
    counts = torch.ones(rows) if sample_weight is None else sample_weight / sample_weight.double().mean()

    def objective(point: Tensor) -> Tensor:
        logits = torch.tensordot(point[:experts], x, 1) + point[experts:] + prior
        nll = binary_cross_entropy_with_logits(logits, truth, reduction="none").sum(1)
        return (counts * nll).mean() + 0.5 / rows * point.square().sum()

    point = logistic.minimise(objective, scores.new_zeros(experts + labels))
    return point[:experts] / scale, point[experts:]


def frequencies(family: Family, target: Tensor, outputs: int, sample_weight: Tensor | None = None) -> Tensor:
    """Parameters of the distribution of these targets, ``(outputs,)``, with half a pseudo-count per class."""
    weight = torch.ones(len(target)) if sample_weight is None else sample_weight / sample_weight.double().mean()
    weight = weight.double()
    if isinstance(family, Gaussian):
        y = target.double().reshape(-1)
        mean = (weight * y).sum() / weight.sum()
        variance = ((weight * (y - mean).square()).sum() / weight.sum()).clamp(min=1e-12)
        return torch.stack([mean, variance.log()])
    if isinstance(family, Bernoulli):  # includes MultiLabel
        y = target.double().reshape(len(target), -1)
        return (((weight[:, None] * y).sum(0) + 0.5) / (weight.sum() + 1)).logit()
    counts = torch.zeros(outputs, dtype=torch.float64).index_add_(0, target.long(), weight) + 0.5
    return (counts / counts.sum()).log()


class CrossFit:
    """Cross-fitted model choice and calibration: neither is evaluated on rows that it was fitted to.

    Every row's prediction comes from a model that was not trained on it. Calibration and choice are fitted to these
    out-of-fold predictions, so they need other rows for evaluation. For each fold in turn, both are made on the other folds
    only; within these, candidates are compared with calibrations from yet other folds. This is nested cross-validation if
    the models did not see the evaluated fold either (``Candidate.paired``). If they did, a pattern that two folds share by
    chance helps in both, and the scores are slightly optimistic.

    Args:
        family: The predictive distribution.
        candidates: The candidates to choose from.
        target: The targets of the rows.
        fold: The fold of each row, numbered from 0.
        preferred: Methods in order of preference; see :meth:`choose`.
        groups: Group number of each row, for standard errors over groups.
        sample_weight: Weight of each row.
        errors: A method's log-loss may be this many standard errors of the difference above the lowest to be kept.
    """

    def __init__(
        self,
        family: Family,
        candidates: Sequence[Candidate],
        target: NDArray[Any],
        fold: Rows,
        preferred: Sequence[str],
        groups: Rows | None = None,
        sample_weight: Numbers | None = None,
        errors: float = CLEAR,
    ) -> None:
        self.family, self.candidates, self.fold = family, list(candidates), fold
        self.folds: list[int] = sorted(set(fold.tolist()))
        self.target = torch.as_tensor(target)
        self.weight = None if sample_weight is None else torch.as_tensor(sample_weight, dtype=torch.float64)
        self.counts = np.ones(len(fold)) if sample_weight is None else sample_weight / sample_weight.mean()
        self.groups, self.preferred, self.errors = groups, list(preferred), errors
        self._calibrations: dict[tuple[int, int | None, frozenset[int | None]], Calibration] = {}
        self._losses: dict[tuple[int, int | None], Numbers] = {}

    def calibration(self, number: int, outer: int | None = None, inner: int | None = None) -> Calibration:
        """The calibration of a candidate, fitted without the outer and the inner fold."""
        candidate, left_out = self.candidates[number], frozenset({outer, inner})
        if not candidate.calibrated:
            outputs = candidate.answers.shape[-1]
            return Calibration(torch.ones(1, dtype=torch.float64), torch.zeros(outputs, dtype=torch.float64))
        key = (number, None if candidate.paired is None else outer, left_out)
        if key not in self._calibrations:
            rows = torch.from_numpy(~np.isin(self.fold, [fold for fold in left_out if fold is not None]))
            weight = None if self.weight is None else self.weight[rows]
            answers = candidate.without(outer)[:, rows]
            self._calibrations[key] = calibrate(self.family, answers, self.target[rows], weight)
        return self._calibrations[key]

    def losses(self, number: int, outer: int | None = None) -> Numbers:
        """A candidate's log-loss of every row, calibrated on folds without the row; NaN in the outer fold."""
        if (number, outer) not in self._losses:
            result = np.full(len(self.fold), np.nan)
            for fold in self.folds:
                if fold != outer:
                    rows = torch.from_numpy(self.fold == fold)
                    answers = self.candidates[number].without(outer)[:, rows]
                    predicted = self.calibration(number, outer, fold)(answers)
                    result[self.fold == fold] = self.family.nll(predicted, self.target[rows]).numpy()
            self._losses[number, outer] = result
        return self._losses[number, outer]

    def mean_loss(self, number: int) -> float:
        """A candidate's mean cross-validated log-loss."""
        return self._mean(self.losses(number))

    def more_rows(self, number: int) -> float:
        """How much lower a candidate's log-loss may be when it is trained on all rows; 0 if unknown.

        It is extrapolated from models trained without two folds and without one, as if the loss fell with 1 / rows.
        """
        if self.candidates[number].paired is None:
            return 0.0
        parts = len(self.folds)
        loss_on_fewer = float(np.mean([self._mean(self.losses(number, outer)) for outer in self.folds]))
        factor = (1 / (parts - 1) - 1 / parts) / (1 / (parts - 2) - 1 / (parts - 1))
        return max(0.0, factor * (loss_on_fewer - self.mean_loss(number)))

    def best(self, method: str, outer: int | None = None) -> int:
        """The candidate of a method with the lowest log-loss."""
        numbers = [i for i, candidate in enumerate(self.candidates) if candidate.method == method]
        return min(numbers, key=lambda i: self._mean(self.losses(i, outer)))

    def choose(self, methods: Sequence[str], outer: int | None = None) -> int:
        """The best candidate of the first preferred method that is not clearly worse than the best one.

        Not clearly worse means a log-loss at most ``errors`` standard errors of the difference above the lowest. Class
        frequencies are tried first if they are at least as good as the first of the other methods, and last otherwise.

        Args:
            methods: The methods to choose from.
            outer: A fold that is not used for the choice.
        """
        best = {method: self.best(method, outer) for method in methods}
        losses = {method: self.losses(number, outer) for method, number in best.items()}
        lowest = min(methods, key=lambda method: self._mean(losses[method]))
        order = sorted((m for m in methods if m != FREQUENCIES), key=self.preferred.index)
        if FREQUENCIES in methods:
            nothing_learned = not order or self._mean(losses[FREQUENCIES]) <= self._mean(losses[order[0]])
            order.insert(0 if nothing_learned else len(order), FREQUENCIES)
        for method in order:
            gap = losses[method] - losses[lowest]
            if self._mean(gap) <= self.errors * self._standard_error(gap):
                return best[method]
        return best[lowest]

    def honest(self, methods: Sequence[str]) -> Numbers:
        """The prediction of every row by a candidate that was trained, chosen and calibrated without its fold."""
        result = np.empty((len(self.fold), self.candidates[0].answers.shape[-1]))
        for fold in self.folds:
            rows, number = self.fold == fold, self.choose(methods, fold)
            answers = self.candidates[number].answers[:, torch.from_numpy(rows)]
            result[rows] = self.calibration(number, fold)(answers).numpy()
        return result

    def _mean(self, losses: Numbers) -> float:
        known = ~np.isnan(losses)
        return float(np.average(losses[known], weights=self.counts[known]))

    def _standard_error(self, gap: Numbers) -> float:
        """The standard error of a weighted mean over rows, or over groups."""
        known = ~np.isnan(gap)
        centred = self.counts[known] * (gap[known] - self._mean(gap))
        sums = centred if self.groups is None else np.bincount(self.groups[known], centred)
        units = len(sums) if self.groups is None else len(np.unique(self.groups[known]))
        if units < 2:
            return 0.0
        return float(np.sqrt(np.square(sums).sum() * units / (units - 1)) / self.counts[known].sum())
