"""Penalised logistic regression, used for stacked experts, additive combinations and recalibration."""

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 20  # 15 Newton steps reach rounding error, also where the classes are separable
HALVINGS = 12  # step lengths tried in each: 1, 1/2, 1/4, …


def fit(
    scores: Tensor,
    target: Tensor,
    *,
    ridge: float,
    bias_ridge: float,
    offset: Tensor | None = None,
    sample_weight: Tensor | None = None,
    tolerance: float | None = 1e-12,
) -> tuple[Tensor, Tensor]:
    r"""One weight for each predictor and one bias for each logit, by damped Newton steps.

    .. math:: \min_{w, b}\; \mathrm{mean}\big(\mathrm{nll}\big(\textstyle\sum_k w_k s_k + b + o\big)\big)
              + \tfrac12 \mathtt{ridge} \textstyle\sum_k w_k^2 + \tfrac12 \mathtt{bias\_ridge} \textstyle\sum_c b_c^2

    The problem is convex. Without a tolerance the number of steps is fixed, so the fit also runs under
    ``torch.func.vmap``.

    Args:
        scores: The predictions of each predictor for each example, ``(predictors, examples, logits)``. A single logit
            is the log-odds of class 1 in a binary problem.
        target: The class of each example, or its probabilities, shaped like the logits.
        ridge: Penalty on the weights; positive.
        bias_ridge: Penalty on the biases; positive.
        offset: Added to the logits, ``(logits,)``.
        sample_weight: Weight of each example in the mean; equal weights by default.
        tolerance: Stop when a Newton step would lower the objective by less than this; ``None`` takes all steps.

    Returns:
        Weights ``(predictors,)`` and biases ``(logits,)``, in double precision.
    """
    x = scores.double()
    predictors, examples, width = x.shape
    truth = _one_hot(target, width)
    shift = x.new_zeros(width) if offset is None else offset.double()
    penalty = torch.cat([x.new_full((predictors,), ridge), x.new_full((width,), bias_ridge)])
    counts = (
        x.new_ones(examples) if sample_weight is None else sample_weight.double() * (examples / sample_weight.sum())
    )

    def logits(point: Tensor) -> Tensor:
        weights, bias = point[..., :predictors], point[..., predictors:]
        return torch.tensordot(weights, x, 1) + (bias + shift).unsqueeze(-2)

    def objective(points: Tensor) -> Tensor:
        return (counts * _nll(logits(points), truth)).mean(-1) + 0.5 * (penalty * points.square()).sum(-1)

    lengths = 0.5 ** torch.arange(HALVINGS, dtype=x.dtype, device=x.device)
    point = x.new_zeros(predictors + width)
    for _ in range(STEPS):
        p = _probabilities(logits(point))
        rest = counts[:, None] * (p - truth)
        slope = torch.cat([(x * rest).sum((1, 2)), rest.sum(0)]) / examples + penalty * point
        step = torch.linalg.solve(_curvature(x, p, counts) + torch.diag(penalty), slope)
        if tolerance is not None and float(slope @ step) < tolerance:
            point = point - step
            break
        if tolerance is not None and bool(objective(point - step) < objective(point)):
            point = point - step
            continue
        tried = point - lengths[:, None] * step
        point = tried[objective(tried).argmin(0, keepdim=True)].squeeze(0)
    return point[:predictors], point[predictors:]


def fit_each(
    scores: Tensor, truth: Tensor, *, ridge: float, bias_ridge: float, offset: Tensor, tolerance: float = 1e-12
) -> tuple[Tensor, Tensor]:
    """:func:`fit` for several targets at once, up to rounding; each stops where it would stop alone.

    Args:
        scores: ``(targets, predictors, examples, logits)``.
        truth: The probabilities of the classes, ``(targets, examples, logits)``.
        ridge, bias_ridge, tolerance: As for :func:`fit`.
        offset: ``(targets, logits)``.

    Returns:
        Weights ``(targets, predictors)`` and biases ``(targets, logits)``, in double precision.
    """
    x, truth = scores.double(), truth.double()
    targets, predictors, examples, width = x.shape
    penalty = torch.cat([x.new_full((predictors,), ridge), x.new_full((width,), bias_ridge)])

    def logits(points: Tensor) -> Tensor:
        linear = torch.einsum("...tp,tpnw->...tnw", points[..., :predictors], x)
        return linear + (points[..., predictors:] + offset).unsqueeze(-2)

    def objective(points: Tensor) -> Tensor:
        return _nll(logits(points), truth).mean(-1) + 0.5 * (penalty * points.square()).sum(-1)

    lengths = 0.5 ** torch.arange(HALVINGS, dtype=x.dtype, device=x.device)
    point, done = x.new_zeros(targets, predictors + width), torch.zeros(targets, dtype=torch.bool, device=x.device)
    for _ in range(STEPS):
        p = _probabilities(logits(point))
        rest = p - truth
        slope = torch.cat([(x * rest[:, None]).sum((2, 3)), rest.sum(1)], 1) / examples + penalty * point
        step = torch.linalg.solve(_curvature_each(x, p) + torch.diag(penalty), slope)
        small = (slope * step).sum(1) < tolerance
        new, full = point - step, small | (objective(point - step) < objective(point))
        if not bool((full | done).all()):
            tried = point - lengths[:, None, None] * step
            best = objective(tried).argmin(0)
            new = torch.where(full[:, None], new, tried[best, torch.arange(targets, device=x.device)])
        point = torch.where(done[:, None], point, new)
        done = done | small
        if bool(done.all()):
            break
    return point[:, :predictors], point[:, predictors:]


def fit_matrix(
    features: Tensor, target: Tensor, classes: int, *, ridge: float, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same with one weight for each feature and class, fitted by L-BFGS because there may be thousands of them.

    Args:
        features: ``(examples, features)``.
        target: The class of each example.
        classes: Number of classes.
        ridge: Penalty on weights and biases; positive.
        offset: Added to the logits, ``(classes,)``.

    Returns:
        Weights ``(features, classes)`` and biases ``(classes,)``, in double precision.
    """
    x, truth = features.double(), _one_hot(target, classes)
    shift = x.new_zeros(classes) if offset is None else offset.double()

    def objective(theta: Tensor) -> Tensor:
        weights, bias = theta[:-1], theta[-1]
        return _nll(x @ weights + bias + shift, truth).mean() + 0.5 * ridge * theta.square().sum()

    theta = minimise(objective, x.new_zeros(x.shape[1] + 1, classes))
    return theta[:-1], theta[-1]


def minimise(objective: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The minimiser of a smooth convex function of a tensor, by L-BFGS."""
    point = start.detach().clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [point], max_iter=1000, tolerance_grad=1e-8, tolerance_change=1e-13, history_size=20,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective(point)
        torch.autograd.backward([loss])
        return loss

    with torch.enable_grad():
        optimiser.step(closure)
    return point.detach()


def _curvature(x: Tensor, p: Tensor, counts: Tensor) -> Tensor:
    """The Hessian of the mean negative log-likelihood, weights first, then biases."""
    means = (p * x).sum(-1)  # of each predictor over the predicted classes, (predictors, examples)
    counted = counts[:, None] * p
    weighted = counted * x
    weights = torch.tensordot(weighted, x, ([1, 2], [1, 2])) - (counts * means) @ means.mT
    mixed = weighted.sum(1) - means @ counted
    biases = torch.diag(counted.sum(0)) - p.mT @ counted
    return torch.cat([torch.cat([weights, mixed], 1), torch.cat([mixed.mT, biases], 1)]) / p.shape[0]


def _curvature_each(x: Tensor, p: Tensor) -> Tensor:
    """:func:`_curvature` for several targets, with equal weights."""
    weighted = p[:, None] * x
    means = weighted.sum(-1)
    weights = weighted.flatten(2) @ x.flatten(2).mT - means @ means.mT
    mixed = weighted.sum(2) - means @ p
    biases = torch.diag_embed(p.sum(1)) - p.mT @ p
    return torch.cat([torch.cat([weights, mixed], 2), torch.cat([mixed.mT, biases], 2)], 1) / p.shape[1]


def _one_hot(target: Tensor, width: int) -> Tensor:
    """The target in the shape of the logits: one column for each class, or the probability of class 1 for a single logit."""
    if target.is_floating_point() and target.numel() == target.shape[0] * width:
        return target.reshape(-1, width).double()
    columns = torch.arange(width, device=target.device) if width > 1 else torch.ones(1, device=target.device)
    return (target.reshape(-1, 1) == columns).double()


def _nll(logits: Tensor, truth: Tensor) -> Tensor:
    single_logit = logits.shape[-1] == 1
    total = torch.nn.functional.softplus(logits).squeeze(-1) if single_logit else logits.logsumexp(-1)
    return total - (truth * logits).sum(-1)


def _probabilities(logits: Tensor) -> Tensor:
    return logits.sigmoid() if logits.shape[-1] == 1 else logits.softmax(-1)
