"""Logistic regression: against scikit-learn, and what holds at a minimum."""

import numpy as np
import pytest
import torch
from torch.func import vmap

from synib import logistic


def drawn(predictors=3, examples=200, width=3, seed=0):
    rng = np.random.default_rng(seed)
    classes = max(width, 2)
    y = rng.integers(0, classes, examples)
    signal = (np.eye(classes)[y] if width > 1 else y[:, None]) * rng.normal(1, 0.5, (predictors, 1, 1))
    return torch.from_numpy(rng.normal(size=(predictors, examples, width)) + signal), torch.from_numpy(y)


@pytest.mark.parametrize("width", [1, 3])
def test_the_slope_at_the_solution_is_0(width):
    x, y = drawn(width=width)
    offset = torch.linspace(-1, 1, width, dtype=torch.double)
    weights, bias = (t.requires_grad_() for t in logistic.fit(x, y, ridge=0.01, bias_ridge=0.1, offset=offset))
    logits = torch.tensordot(weights, x, 1) + bias + offset
    if width == 1:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], y.double())
    else:
        loss = torch.nn.functional.cross_entropy(logits, y)
    loss = loss + 0.005 * weights.square().sum() + 0.05 * bias.square().sum()
    slopes = torch.autograd.grad(loss, [weights, bias])
    assert max(slope.abs().max() for slope in slopes) < 1e-9


def test_two_classes_are_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = drawn(predictors=5, width=1)
    weights, _ = logistic.fit(x, y, ridge=1 / 200, bias_ridge=1e-12)
    other = linear.LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x[:, :, 0].T, y)
    assert weights.numpy() == pytest.approx(other.coef_[0], abs=1e-5)


def test_a_matrix_of_weights_is_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = drawn(predictors=4)
    features = x.movedim(0, 1).flatten(1)
    weights, bias = logistic.fit_matrix(features, y, 3, ridge=1 / 200)
    other = linear.LogisticRegression(C=1.0, tol=1e-10, max_iter=2000, fit_intercept=False)
    other.fit(torch.cat([features, torch.ones(200, 1)], 1), y)  # whose intercept is penalised, too
    assert torch.cat([weights, bias[None]]).T.numpy() == pytest.approx(other.coef_, abs=1e-4)


def test_classes_without_error_have_finite_weights():
    y = torch.arange(40) % 2
    weights, _ = logistic.fit((2.0 * y - 1).reshape(1, 40, 1), y, ridge=1e-6, bias_ridge=1e-6)
    assert 5 < weights.item() < 50


def test_several_fits_at_once_are_each_of_them_alone():
    pairs = [drawn(seed=seed) for seed in range(3)]
    x, y = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    together = vmap(lambda a, b: logistic.fit(a, b, ridge=0.01, bias_ridge=0.01, tolerance=None))(x, y)
    for i, (a, b) in enumerate(pairs):
        for one, alone in zip(together, logistic.fit(a, b, ridge=0.01, bias_ridge=0.01), strict=True):
            assert one[i].numpy() == pytest.approx(alone.numpy(), abs=1e-10)


@pytest.mark.parametrize("width", [1, 3])
def test_several_targets_at_once_have_the_weights_of_each_alone(width):
    x, y = (torch.stack(part) for part in zip(*(drawn(width=width, seed=seed) for seed in range(4)), strict=True))
    x[1] *= 50  # separable, with steps that are halved
    offset = torch.linspace(-1, 1, width, dtype=torch.double).repeat(4, 1)
    truth = (y[..., None] == (torch.arange(width) if width > 1 else torch.ones(1))).double()
    penalties = {"ridge": 0.01, "bias_ridge": 0.1}
    weights, bias = logistic.fit_each(x, truth, offset=offset, **penalties)
    for i in range(4):
        alone = logistic.fit(x[i], y[i], offset=offset[i], **penalties)
        torch.testing.assert_close((weights[i], bias[i]), alone, rtol=1e-8, atol=1e-10)
