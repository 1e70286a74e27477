"""The target as the response of a regression: one of several classes, several labels, or a number.

A response turns *linear predictors* (logits or means), ``(rows, columns)``, into log-losses and residuals, and fits
weights of a few features.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from synib import logistic

RIDGE = 1.0  # on the weights of features scaled to 1, relative to the loss summed over rows
STEPS = 12  # steps of Newton's method
Predict = Callable[[Tensor], Tensor]


class Response(ABC):
    """The target of each row.

    Attributes:
        y: The targets: ``(rows,)``, or ``(rows, labels)`` for several labels.
        columns: Number of columns of a linear predictor.
    """

    y: Tensor
    columns: int

    @abstractmethod
    def residual(self, eta: Tensor) -> Tensor:
        """Target minus predicted mean, ``(rows, columns)``."""

    @abstractmethod
    def combine(self, features: Tensor, rows: Tensor, trust: Tensor | None = None) -> Predict:
        """Fit one weight per feature and one intercept per column on some rows.

        Args:
            features: ``(features, rows, columns)``.
            rows: Indices of the rows to fit on.
            trust: Prior scale of each feature: 1, or less to shrink its weight more; ``(features,)``.

        Returns:
            A function from the features of any rows to their linear predictor.
        """

    @abstractmethod
    def extend(self, eta: Tensor, features: Tensor, rows: Tensor) -> Predict:
        """Fit the weights of features added to a linear predictor, which keeps its own weight.

        Args:
            eta: The linear predictor, ``(rows, columns)``.
            features: ``(features, rows, columns)``.
            rows: Indices of the rows to fit on.

        Returns:
            A function from ``(1 + features, rows, columns)``, the predictor first, to the extended linear predictor.
        """

    @classmethod
    def combine_each(cls, responses: Sequence["Response"], features: Tensor, rows: Tensor, trust: Tensor) -> Tensor:
        """:meth:`combine` for several targets, each with its own features; equal up to rounding.

        Args:
            responses: The targets, all of this kind.
            features: ``(targets, features, rows, columns)``.
            rows, trust: As for :meth:`combine`.

        Returns:
            The linear predictors of all rows, ``(targets, rows, columns)``.
        """
        each = zip(responses, features, strict=True)
        return torch.stack([one.combine(x, rows, trust)(x) for one, x in each])

    @classmethod
    def log_loss_each(
        cls, responses: Sequence["Response"], eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor
    ) -> Tensor:
        """:meth:`log_loss` for several targets, with a dimension for them in front."""
        each = zip(responses, eta, fitted, strict=True)
        return torch.stack([one.log_loss(e, f, fitted_rows, rows) for one, e, f in each])

    @classmethod
    def extend_each(cls, responses: Sequence["Response"], eta: Tensor, features: Tensor, rows: Tensor) -> Tensor:
        """Extend the linear predictors of several targets, each by its own features; equal to :meth:`extend` up to rounding.

        Args:
            responses: The targets, all of this kind.
            eta: Their linear predictors, ``(targets, rows, columns)``.
            features: ``(targets, features, rows, columns)``.
            rows: Indices of the rows to fit on.

        Returns:
            The extended linear predictors of all rows, ``(targets, rows, columns)``.
        """
        each = zip(responses, eta, features, strict=True)
        return torch.stack([one.extend(e, x, rows)(torch.cat([e[None], x])) for one, e, x in each])

    @abstractmethod
    def log_loss(self, eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor) -> Tensor:
        """Negative log-likelihood of some rows, in nats.

        Args:
            eta: Linear predictor of these rows.
            fitted: Linear predictor of the rows it was fitted on, from which the variance of a real target is
                estimated.
            fitted_rows: Indices of those rows.
            rows: Indices of the rows of ``eta``.
        """


class OneOf(Response):
    """One of two or more classes; two classes have one column, the log-odds of the second."""

    def __init__(self, y: Tensor, classes: int) -> None:
        self.y, self.classes = y.long(), classes
        self.columns = 1 if classes == 2 else classes
        self.truth = torch.nn.functional.one_hot(self.y, classes).double()

    def residual(self, eta: Tensor) -> Tensor:
        return self.truth[:, 1:] - eta.sigmoid() if self.columns == 1 else self.truth - eta.softmax(1)

    def combine(self, features: Tensor, rows: Tensor, trust: Tensor | None = None) -> Predict:
        x, y = features[:, rows], self.y[rows]
        size = _size(x, (1, 2), trust)
        share = (torch.bincount(y, minlength=self.classes) + 1).double() / (len(y) + self.classes)
        prior = (share[1:] / share[:1]).log() if self.columns == 1 else share.log()
        ridge = RIDGE / len(y)
        weights, bias = logistic.fit(x / size, y, ridge=ridge, bias_ridge=ridge, offset=prior)
        return lambda new: torch.tensordot(weights, new / size, 1) + bias + prior

    def extend(self, eta: Tensor, features: Tensor, rows: Tensor) -> Predict:
        x = torch.cat([eta[None], features])[:, rows]
        size = x.square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-12)
        truth = self.truth[rows, 1:] if self.columns == 1 else self.truth[rows]
        weights = _newton(x / size, truth, self.columns > 1, size[0, 0, 0])
        return lambda new: torch.tensordot(weights, new / size, 1)

    def log_loss(self, eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor) -> Tensor:
        if self.columns == 1:
            sign = 2.0 * self.truth[rows, 1] - 1
            return -logsigmoid(sign * eta[:, 0])
        return -eta.log_softmax(1).gather(1, self.y[rows, None])[:, 0]

    @classmethod
    def combine_each(cls, responses: Sequence[Response], features: Tensor, rows: Tensor, trust: Tensor) -> Tensor:
        several, columns = cast(Sequence[OneOf], responses), features.shape[3]
        x, classes = features[:, :, rows], several[0].classes
        size = _size(x, (2, 3), trust)
        share = torch.stack([one.truth[rows].sum(0) + 1 for one in several]) / (len(rows) + classes)
        prior = (share[:, 1:] / share[:, :1]).log() if columns == 1 else share.log()
        truth = torch.stack([one.truth[rows, -columns:] for one in several])
        ridge = RIDGE / len(rows)
        weights, bias = logistic.fit_each(x / size, truth, ridge=ridge, bias_ridge=ridge, offset=prior)
        return torch.einsum("tf,tfrc->trc", weights, features / size) + (bias + prior)[:, None]

    @classmethod
    def log_loss_each(
        cls, responses: Sequence[Response], eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor
    ) -> Tensor:
        truth = torch.stack([cast(OneOf, one).truth[rows] for one in responses])
        if eta.shape[2] == 1:
            return -logsigmoid((2.0 * truth[..., 1] - 1) * eta[..., 0])
        return -(truth * eta.log_softmax(2)).sum(2)

    @classmethod
    def extend_each(cls, responses: Sequence[Response], eta: Tensor, features: Tensor, rows: Tensor) -> Tensor:
        x = torch.cat([eta[:, None], features], 1)
        fitted = x[:, :, rows]
        size = fitted.square().mean((2, 3), keepdim=True).sqrt().clamp(min=1e-12)
        columns = eta.shape[2]
        truth = torch.stack([cast(OneOf, one).truth[rows, -columns:] for one in responses])
        weights = _newton_each(fitted / size, truth, columns > 1, size[:, 0, 0, 0])
        return torch.einsum("tf,tfrc->trc", weights, x / size)


class Labels(Response):
    """Several binary labels; the log-loss of a row is the sum over its labels."""

    def __init__(self, y: Tensor) -> None:
        self.y = y.double()
        self.columns = y.shape[1]

    def residual(self, eta: Tensor) -> Tensor:
        return self.y - eta.sigmoid()

    def combine(self, features: Tensor, rows: Tensor, trust: Tensor | None = None) -> Predict:
        fits = [OneOf(self.y[:, i], 2).combine(features[..., i : i + 1], rows, trust) for i in range(self.columns)]
        return lambda new: torch.cat([fit(new[..., i : i + 1]) for i, fit in enumerate(fits)], 1)

    def extend(self, eta: Tensor, features: Tensor, rows: Tensor) -> Predict:
        fits = [
            OneOf(self.y[:, i], 2).extend(eta[:, i : i + 1], features[..., i : i + 1], rows)
            for i in range(self.columns)
        ]
        return lambda new: torch.cat([fit(new[..., i : i + 1]) for i, fit in enumerate(fits)], 1)

    def log_loss(self, eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor) -> Tensor:
        return -logsigmoid((2.0 * self.y[rows] - 1) * eta).sum(1)


class Number(Response):
    """A real-valued target with normal errors of constant variance."""

    columns = 1

    def __init__(self, y: Tensor) -> None:
        self.y = y.double()

    def residual(self, eta: Tensor) -> Tensor:
        return self.y[:, None] - eta

    def combine(self, features: Tensor, rows: Tensor, trust: Tensor | None = None) -> Predict:
        return self._least_squares(features, rows, trust)

    def extend(self, eta: Tensor, features: Tensor, rows: Tensor) -> Predict:
        return self._least_squares(torch.cat([eta[None], features]), rows)

    def _least_squares(self, features: Tensor, rows: Tensor, trust: Tensor | None = None) -> Predict:
        x, y = features[:, rows, 0], self.y[rows]
        centre, middle = x.mean(1, keepdim=True), y.mean()
        x = x - centre
        size = _size(x, (1,), trust)
        z = x / size
        gram = z @ z.mT + RIDGE * torch.eye(len(z), dtype=z.dtype, device=z.device)
        weights = torch.linalg.solve(gram, z @ (y - middle))
        return lambda new: (torch.tensordot(weights, (new[..., 0] - centre) / size, 1) + middle)[:, None]

    def log_loss(self, eta: Tensor, fitted: Tensor, fitted_rows: Tensor, rows: Tensor) -> Tensor:
        variance = (self.y[fitted_rows] - fitted[:, 0]).square().mean().clamp(min=1e-12)
        return 0.5 * (2 * torch.pi * variance).log() + 0.5 * (self.y[rows] - eta[:, 0]).square() / variance


def _size(x: Tensor, over: tuple[int, ...], trust: Tensor | None) -> Tensor:
    """The scale that features are divided by: their root mean square, or more for features with less trust."""
    size = x.square().mean(over, keepdim=True).sqrt().clamp(min=1e-12)
    return size if trust is None else size / trust.to(size).reshape(-1, *[1] * len(over))


def _newton(x: Tensor, truth: Tensor, several: bool, first: Tensor) -> Tensor:
    """Weights of a logistic regression without intercept; the first is shrunk towards ``first``, the others towards 0.

    Args:
        x: ``(features, rows, columns)``.
        truth: One-hot targets, or for two classes the indicator of the second, ``(rows, columns)``.
        several: Whether columns belong to several classes.
        first: The weight that leaves the first feature unchanged.
    """
    start = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    start[0] = first
    weights = start.clone()
    ridge = RIDGE * torch.eye(len(x), dtype=x.dtype, device=x.device)
    for _ in range(STEPS):
        eta = torch.tensordot(weights, x, 1)
        p = eta.softmax(1) if several else eta.sigmoid()
        slope = (x * (p - truth)).sum((1, 2)) + ridge @ (weights - start)
        weighted = x * (p if several else p * (1 - p))
        curvature = torch.tensordot(weighted, x, ([1, 2], [1, 2])) + ridge
        if several:
            means = weighted.sum(2)
            curvature = curvature - means @ means.mT
        weights = weights - torch.linalg.solve(curvature, slope).clamp(-4, 4)
    return weights


def _newton_each(x: Tensor, truth: Tensor, several: bool, first: Tensor) -> Tensor:
    """:func:`_newton` for several regressions of equal shape at once: all arguments and the result have one more dimension."""
    start = x.new_zeros(x.shape[:2])
    start[:, 0] = first
    weights = start.clone()
    ridge = RIDGE * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    for _ in range(STEPS):
        eta = torch.einsum("tf,tfrc->trc", weights, x)
        p = eta.softmax(2) if several else eta.sigmoid()
        slope = (x * (p - truth)[:, None]).sum((2, 3)) + RIDGE * (weights - start)
        weighted = x * (p if several else p * (1 - p))[:, None]
        curvature = weighted.flatten(2) @ x.flatten(2).mT + ridge
        if several:
            means = weighted.sum(3)
            curvature = curvature - means @ means.mT
        weights = weights - torch.linalg.solve(curvature, slope).clamp(-4, 4)
    return weights
