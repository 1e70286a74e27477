"""Choosing and calibrating on out-of-fold predictions, and judging both on rows that had no part in them."""

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
FREQUENCIES = "frequencies"  # a model that knows the target's distribution and nothing of the row
CLEAR = 2.0  # standard errors of the difference by which a method must be better to replace one that is preferred
LEAST_WEIGHT = 1e-3  # of a prediction: one that is worse than none counts for nearly nothing, never for its opposite


@dataclass(frozen=True)
class Candidate:
    """One way to train, and the out-of-fold predictions of its models.

    Args:
        method: Name of the method.
        settings: What distinguishes it from other candidates of the method.
        seed: Seed of its training.
        answers: What the model, or each of its experts, says: the family's parameters, ``(experts, rows, outputs)``.
        calibrated: Whether a calibration is fitted to it; class frequencies need none.
        paired: For each fold the same by models that were not trained on that fold either, ``(folds, experts, rows, outputs)``.
    """

    method: str
    settings: Mapping[str, Any]
    seed: int
    answers: Tensor
    calibrated: bool = True
    paired: Tensor | None = None

    def without(self, fold: int | None) -> Tensor:
        """The answers by models that were not trained on a fold, as far as there are such models."""
        return self.answers if fold is None or self.paired is None else self.paired[fold]


@dataclass(frozen=True)
class Calibration:
    r"""From what experts say to a calibrated prediction: :math:`\sum_e w_e \ell_e + b`.

    Args:
        weights: One for each expert. For a single one it is 1 / temperature.
        bias: One number for each output. Of a number's prediction it widens or narrows the standard deviation.
    """

    weights: Tensor
    bias: Tensor

    def __call__(self, answers: Tensor) -> Tensor:
        return torch.tensordot(self.weights, answers.double(), 1) + self.bias


def calibrate(family: Family, answers: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Calibration:
    r"""The calibration that fits these rows best, shrunk towards the frequencies of the classes.

    With :math:`\pi` the log-odds of the class frequencies it is

    .. math:: \pi + w (\ell - \pi) + b, \qquad \text{of several experts}\quad \pi + \textstyle\sum_e w_e \ell_e + b,

    fitted by penalised logistic regression (Platt scaling; of several experts, stacked generalisation), with one more
    example of each class thought to be there. A prediction that tells nothing gets the weight 0, which leaves the
    class frequencies. A Gaussian's standard deviation is multiplied by one number.

    A single prediction never counts for its opposite. Of several, one may have a negative weight to take out of another what
    does not belong there, where that is clear. Otherwise it is chance: two folds that disagree by chance predict each other
    below chance, so that the negative weight which one of them suggests is confirmed by the other, and by no further row.

    Args:
        family: The predictive distribution.
        answers: ``(experts, rows, outputs)``, of rows that the experts were not trained on.
        target: Their targets.
        sample_weight: How much each row counts.
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
    """One weight for each expert, negative only where that is clearly better, and one bias for each logit.

    While a weight is negative, the expert with the lowest is left out and the others are fitted again. All are kept where
    leaving them out costs more than what ``CLEAR`` standard errors of a weight are in log-likelihood, each.
    """
    rows, experts = len(truth), len(scores)

    def fitted(kept: list[int]) -> tuple[Tensor, Tensor, float]:
        found, bias = logistic.fit(
            scores[kept], truth, ridge=1 / rows, bias_ridge=1 / rows, offset=prior, sample_weight=sample_weight
        )
        weights = scores.new_zeros(experts).index_put((torch.tensor(kept),), found)
        logits = torch.tensordot(weights, scores, 1) + prior + bias
        nll = binary_cross_entropy_with_logits if logits.shape[1] == 1 else cross_entropy
        losses = nll(logits, truth, reduction="none").reshape(rows)
        return weights, bias, rows * float(np.average(losses, weights=sample_weight))

    kept = list(range(experts))
    every = weights, bias, loss = fitted(kept)
    while (weights < 0).any():
        kept.remove(int(weights.argmin()))
        if not kept:
            return scores.new_zeros(experts), torch.zeros_like(prior)
        weights, bias, loss = fitted(kept)
    clear = loss - every[2] > (experts - len(kept)) * CLEAR**2 / 2
    return every[:2] if clear else (weights, bias)


def _fit_labels(scores: Tensor, target: Tensor, prior: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """One weight for each expert, shared by all labels, and one bias for each label."""
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
    """Parameters of the distribution of these targets, ``(outputs,)``; half an example of each class is added to them."""
    weight = torch.ones(len(target)) if sample_weight is None else sample_weight / sample_weight.double().mean()
    weight = weight.double()
    if isinstance(family, Gaussian):
        y = target.double().reshape(-1)
        mean = (weight * y).sum() / weight.sum()
        variance = ((weight * (y - mean).square()).sum() / weight.sum()).clamp(min=1e-12)
        return torch.stack([mean, variance.log()])
    if isinstance(family, Bernoulli):  # and MultiLabel, which is one
        y = target.double().reshape(len(target), -1)
        return (((weight[:, None] * y).sum(0) + 0.5) / (weight.sum() + 1)).logit()
    counts = torch.zeros(outputs, dtype=torch.float64).index_add_(0, target.long(), weight) + 0.5
    return (counts / counts.sum()).log()


class CrossFit:
    """Choice and calibration over folds: nothing is judged on rows that it was fitted to.

    Every row's prediction comes from a model that was not trained on it. Calibration and choice are fitted to such predictions,
    and have to be judged on other rows as well. For each fold in turn they are therefore made on the other folds alone, and
    within these, candidates are compared by calibrations of yet other folds. That is nested cross-validation where the
    models behind the predictions did not see the judged fold either (``Candidate.paired``). Where they did, a signal that two
    folds share by chance is found in both, and the scores are a little too good.

    Args:
        family: The predictive distribution.
        candidates: What to choose from.
        target: The targets of the rows.
        fold: The fold of each row, numbers from 0 on.
        preferred: Methods in the order in which they are tried; see :meth:`choose`.
        groups: What must stay together, as numbers; it decides how far losses are known.
        sample_weight: How much each row counts.
        errors: How many standard errors of the difference a method's log-loss may lie above the lowest to be kept.
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
        """The calibration of a candidate, fitted to all folds but these, on predictions that know nothing of the outer one."""
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
        """A candidate's log-loss of every row, calibrated on the folds that the row is not in; NaN in the outer fold."""
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
        """A candidate's mean log-loss, calibrated on folds that a row is not in."""
        return self._mean(self.losses(number))

    def more_rows(self, number: int) -> float:
        """How much lower a candidate's log-loss may be when it is trained on all rows; 0 where nothing tells.

        It is extrapolated from models trained without two folds to those trained without one, as if it fell with 1 / rows.
        """
        if self.candidates[number].paired is None:
            return 0.0
        parts = len(self.folds)
        fewer = float(np.mean([self._mean(self.losses(number, outer)) for outer in self.folds]))
        share = (1 / (parts - 1) - 1 / parts) / (1 / (parts - 2) - 1 / (parts - 1))
        return max(0.0, share * (fewer - self.mean_loss(number)))

    def best(self, method: str, outer: int | None = None) -> int:
        """The candidate of a method with the lowest log-loss."""
        numbers = [i for i, candidate in enumerate(self.candidates) if candidate.method == method]
        return min(numbers, key=lambda i: self._mean(self.losses(i, outer)))

    def choose(self, methods: Sequence[str], outer: int | None = None) -> int:
        """The best candidate of the first method in the order of preference that is not clearly worse than the lowest.

        Not clearly worse: its log-loss is at most ``errors`` standard errors of the difference above the lowest. Class
        frequencies come first where they are no worse than the first of the other methods, and last otherwise.

        Args:
            methods: Which methods to choose from.
            outer: A fold that has no part in the choice.
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
        """Of a weighted mean of rows, or of groups of them."""
        known = ~np.isnan(gap)
        centred = self.counts[known] * (gap[known] - self._mean(gap))
        sums = centred if self.groups is None else np.bincount(self.groups[known], centred)
        many = len(sums) if self.groups is None else len(np.unique(self.groups[known]))
        if many < 2:
            return 0.0
        return float(np.sqrt(np.square(sums).sum() * many / (many - 1)) / self.counts[known].sum())
