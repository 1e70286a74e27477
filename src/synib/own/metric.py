"""Metrics of predictions, as a score per row whose mean is the metric.

Accuracy is a mean over rows. Average precision, AUC and explained variance are not; for them a row's score is the metric
plus the row's influence on it (the infinitesimal jackknife: the derivative of the metric by the row's weight). The mean of
these scores is the metric, and their spread gives its standard error, so that intervals are computed in the same way for
every metric.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import shown
from synib.measure.stats import Estimate, cross_validated, difference, mean, proportion
from synib.own.table import Table

MetricName = Literal["accuracy", "average_precision", "auc", "closeness", "explained_variance"]
Numbers = NDArray[np.float64]
SHARES = ("accuracy", "closeness")  # metrics that are means of row scores between 0 and 1
RARE = 0.1  # share of the rarest class (or label); below it, accuracy says little
WORDS: dict[MetricName, str] = {
    "accuracy": "accuracy",
    "average_precision": "average precision",
    "auc": "AUC",
    "closeness": "closeness of ranks",
    "explained_variance": "explained variance",
}
OF_KIND: dict[str, tuple[MetricName, ...]] = {
    "classification": ("accuracy", "average_precision", "auc"),
    "multilabel": ("accuracy", "average_precision", "auc"),
    "ordinal": ("closeness", "accuracy"),
    "regression": ("explained_variance",),
}


class Metric:
    """A metric of a table's target.

    Args:
        table: The data.
        name: ``"accuracy"``; ``"average_precision"`` or ``"auc"`` (with two classes for the rarer one, otherwise the
            one-versus-rest mean over classes or labels); ``"closeness"`` for ordered classes, 1 minus the distance
            between the predicted median and the true class in units of the largest distance; ``"explained_variance"``
            for real targets. By default accuracy, or average precision if a class or label has less than a tenth of the
            rows; closeness for ordered classes.
    """

    def __init__(self, table: Table, name: str | None = None) -> None:
        possible = OF_KIND[table.kind]
        if name is not None and name not in possible:
            raise ValueError(f"The metric of {table.kind} must be one of {', '.join(possible)}; got {shown(name)}.")
        self.kind, self.classes = table.kind, len(table.classes)
        rare = table.kind in ("classification", "multilabel") and rarest(table) < RARE
        self.name: MetricName = name or ("average_precision" if rare else possible[0])  # type: ignore[assignment]
        self.chosen = (
            ""
            if name is not None or not rare
            else (
                f"The rarest class has {rarest(table):.1%} of the rows, so models are compared by average precision, "
                f"not accuracy."
            )
        )

    @property
    def words(self) -> str:
        """The metric's name in a sentence."""
        return WORDS[self.name]

    def scores(self, eta: Numbers, y: NDArray[Any]) -> Numbers:
        """The score of each row.

        Args:
            eta: Linear predictors ``(rows, columns)``: log-odds of the second of two classes, logits of more classes or of
                labels, or the mean of a number.
            y: The true targets.
        """
        if self.name == "explained_variance":
            return _explained(eta[:, 0], y)
        if self.name == "closeness":
            median = (np.cumsum(probabilities(eta), 1) < 0.5).sum(1)
            return 1 - np.abs(median - y) / max(self.classes - 1, 1)
        if self.name == "accuracy":
            return _is_correct(eta, y, self.kind == "multilabel")
        metric = _average_precision if self.name == "average_precision" else _auc
        truth, score = _against_rest(eta, y, self.kind == "multilabel", self.classes)
        influences = [
            _influence(metric, score[:, i], truth[:, i]) for i in range(truth.shape[1]) if 0 < truth[:, i].mean() < 1
        ]
        return np.mean(influences, 0) if influences else np.full(len(y), np.nan)

    def estimate(self, scores: Numbers, groups: NDArray[Any] | None = None, folds: int = 1) -> Estimate:
        """The metric from the scores of rows; shares have score intervals, which do not degenerate at 12 of 12 correct.

        Args:
            scores: The score of each row.
            groups: The group of each row, if rows of one group are dependent.
            folds: Number of cross-validation folds that the scores come from.
        """
        if self.name not in SHARES:
            return cross_validated(mean(scores, groups), folds)
        share = cross_validated(proportion(scores.clip(0.0, 1.0), groups=groups), folds)
        return replace(share, low=float(np.maximum(share.low, 0.0)), high=float(np.minimum(share.high, 1.0)))

    def lead(
        self, scores: Numbers, other: Numbers, groups: NDArray[Any] | None = None, level: float = 0.95
    ) -> Estimate:
        """The difference between two models' metrics, from their scores of the same rows."""
        if self.name in SHARES:
            return difference(scores.clip(0.0, 1.0), other.clip(0.0, 1.0), groups=groups, level=level)
        return mean(scores - other, groups, level)

    def of_chance(self, y: NDArray[Any]) -> Numbers:
        """The score of each row under a constant prediction: the most common class, or the mean."""
        if self.name in ("average_precision", "auc"):
            columns = self.classes if self.kind == "multilabel" or self.classes > 2 else 1
            truth, _ = _against_rest(np.zeros((len(y), columns)), y, self.kind == "multilabel", self.classes)
            return truth.mean(1) if self.name == "average_precision" else np.full(len(y), 0.5)
        if self.kind == "regression":
            return self.scores(np.full((len(y), 1), float(np.mean(y))), y)
        if self.kind == "multilabel":
            return self.scores(np.repeat(np.mean(y, 0)[None] - 0.5, len(y), 0), y)
        counts = np.bincount(y.astype(np.int64), minlength=self.classes)
        share = np.log((counts + 1e-9) / counts.sum())
        eta = np.repeat(share[None], len(y), 0)
        return self.scores(eta[:, 1:] - eta[:, :1] if self.classes == 2 else eta, y)


def rarest(table: Table) -> float:
    """The share of rows of the rarest class; for labels, of the rarest value (0 or 1) of any label."""
    if table.kind == "multilabel":
        share = np.mean(table.target, 0)
        return float(np.minimum(share, 1 - share).min())
    return float(np.bincount(table.target, minlength=len(table.classes)).min() / len(table.target))


def probabilities(eta: Numbers) -> Numbers:
    """Probabilities of the classes, ``(rows, classes)``."""
    full = np.concatenate([np.zeros_like(eta), eta], 1) if eta.shape[1] == 1 else eta
    odds = np.exp(full - full.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def _explained(predicted: Numbers, y: NDArray[Any]) -> Numbers:
    """Influence values of the explained variance, 1 - (mean squared error) / (variance): both are estimated from these rows."""
    error, deviation = np.square(predicted - y), np.square(y - y.mean())
    variance = deviation.mean() or 1.0
    return np.asarray(1 - error / variance + error.mean() / variance * (deviation / variance - 1))


def _is_correct(eta: Numbers, y: NDArray[Any], labels: bool) -> Numbers:
    if labels:
        return ((eta > 0) == (y > 0)).mean(1)
    predicted = eta[:, 0] > 0 if eta.shape[1] == 1 else eta.argmax(1)
    return (predicted == y).astype(np.float64)


def _against_rest(eta: Numbers, y: NDArray[Any], labels: bool, classes: int) -> tuple[Numbers, Numbers]:
    """Class membership of each row and its predicted score, ``(rows, classes)``; of two classes only the rarer one."""
    if labels:
        return y.astype(np.float64), eta
    truth = np.eye(classes)[y.astype(np.int64)]
    p = probabilities(eta)
    if classes > 2:
        return truth, p
    rarer = int(truth.mean(0).argmin())
    return truth[:, [rarer]], p[:, [rarer]]


def _influence(metric: Callable[[Tensor, Tensor, Tensor], Tensor], score: Numbers, truth: Numbers) -> Numbers:
    """A metric plus each row's influence on it, the derivative by the row's weight, in units of one row."""
    weight = torch.ones(len(truth), dtype=torch.float64, requires_grad=True)
    order = np.argsort(-score, kind="stable")
    value = metric(
        weight[torch.from_numpy(order)], torch.from_numpy(truth[order]), torch.from_numpy(score[order].copy())
    )
    (slope,) = torch.autograd.grad(value, weight)
    return np.asarray(float(value.detach()) + len(truth) * slope.numpy())


def _average_precision(weight: Tensor, truth: Tensor, score: Tensor) -> Tensor:
    """The mean precision at each positive row; tied rows have the precision at the last of them."""
    hits = weight * truth
    last = _last_of_ties(score)
    precision = hits.cumsum(0)[last] / weight.cumsum(0)[last]
    return (hits * precision).sum() / hits.sum()


def _auc(weight: Tensor, truth: Tensor, score: Tensor) -> Tensor:
    """The share of pairs of a positive and a negative row in the right order; ties count half."""
    misses = weight * (1 - truth)
    above, last = misses.cumsum(0), _last_of_ties(score)
    upto = above[last]
    first = torch.unique_consecutive(last, return_counts=True)[1]
    starts = torch.repeat_interleave(first.cumsum(0) - first, first)
    before = torch.cat([above.new_zeros(1), above])[starts]
    ranked_below = misses.sum() - (before + upto) / 2
    return (weight * truth * ranked_below).sum() / ((weight * truth).sum() * misses.sum())


def _last_of_ties(score: Tensor) -> Tensor:
    """For each row of a sorted score, the position of the last row with the same score."""
    counts = torch.unique_consecutive(score, return_counts=True)[1]
    return torch.repeat_interleave(counts.cumsum(0) - 1, counts)
