"""How the answers of experts are weighed: a logistic regression."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from synib import Bernoulli, Categorical
from synib.methods.experts import RIDGE, stack


def answers_of(experts, rows, classes, seed=0):
    """Logits that know something of the target, on scales that differ by orders of magnitude."""
    g = torch.Generator().manual_seed(seed)
    target = torch.randint(max(classes, 2), (rows,), generator=g)
    known = F.one_hot(target, classes) if classes > 1 else 2 * target[:, None] - 1
    trust = torch.logspace(-2, 0.5, experts, dtype=torch.float64)[:, None, None]
    noise = torch.randn(experts, rows, classes, generator=g, dtype=torch.float64)
    return trust * (0.8 * known + noise), target


def scaled(answers):
    """Answers whose log-odds have a root mean square of 1, over examples and pairs of classes; and what it was."""
    odds = answers
    if answers.shape[-1] > 1:
        first, second = torch.combinations(torch.arange(answers.shape[-1])).T
        odds = answers[..., first] - answers[..., second]
    scale = odds.square().mean((1, 2)).sqrt()
    return answers / scale[:, None, None], scale


@pytest.mark.parametrize("l2", [1e-1, 1e-3])
@pytest.mark.parametrize("experts", [2, 3])
def test_binary_weights_are_those_of_scikit_learns_logistic_regression(experts, l2):
    linear_model = pytest.importorskip("sklearn.linear_model")
    answers, target = answers_of(experts, 150, 1)
    x, scale = scaled(answers)
    theirs = linear_model.LogisticRegression(C=1 / (150 * l2), tol=1e-10, max_iter=1000)
    theirs.fit(x.squeeze(-1).T.numpy(), target.numpy())
    weights, bias = stack(Bernoulli(), answers, target, l2)
    assert (weights * scale).tolist() == pytest.approx(theirs.coef_[0].tolist(), rel=1e-4)
    assert bias.tolist() == pytest.approx(theirs.intercept_.tolist(), rel=1e-3, abs=1e-5)


def test_weights_of_classes_are_those_that_lbfgs_finds():
    answers, target = answers_of(3, 150, 4)
    x, scale = scaled(answers)
    w, b = (torch.zeros(n, dtype=torch.float64, requires_grad=True) for n in (3, 4))
    optimiser = torch.optim.LBFGS(
        [w, b], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        loss = F.cross_entropy(torch.einsum("e,enk->nk", w, x) + b, target) + 0.5 * 1e-2 * w @ w
        loss.backward()
        return loss

    optimiser.step(closure)
    weights, bias = stack(Categorical(), answers, target, 1e-2)
    torch.testing.assert_close(weights * scale, w.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(bias - bias.mean(), b.detach() - b.detach().mean(), rtol=1e-4, atol=1e-5)


@settings(max_examples=10)
@given(
    classes=st.sampled_from([1, 2, 4]),
    rows=st.integers(2, 40),
    count=st.integers(1, 4),
    l2=st.floats(1e-4, 1.0),
    size=st.floats(1e-3, 1e3),
    seed=st.integers(0, 999),
)
def test_the_gradient_vanishes_at_the_weights_also_where_classes_are_separable_or_missing(
    classes, rows, count, l2, size, seed
):
    answers, target = answers_of(count, rows, classes, seed)
    answers = size * answers
    weights, bias = stack(Bernoulli() if classes == 1 else Categorical(), answers, target, l2)
    x, scale = scaled(answers)
    w, b = (weights * scale).requires_grad_(), bias.clone().requires_grad_()
    logits = (w[:, None, None] * x).sum(0) + b
    hit = F.cross_entropy if classes > 1 else lambda z, y: F.binary_cross_entropy_with_logits(z.squeeze(-1), y.double())
    loss = hit(logits, target) + 0.5 * l2 * w @ w + 0.5 * RIDGE * b @ b
    for gradient in torch.autograd.grad(loss, [w, b]):
        assert gradient.abs().max() < 1e-8


@pytest.mark.parametrize("classes", [1, 3])
def test_how_loud_an_expert_speaks_does_not_matter(classes):
    family = Bernoulli() if classes == 1 else Categorical()
    answers, target = answers_of(3, 80, classes)
    weights, bias = stack(family, answers, target, 1e-2)
    louder = torch.tensor([50.0, 1.0, 0.01], dtype=torch.float64)
    others, same = stack(family, louder[:, None, None] * answers, target, 1e-2)
    torch.testing.assert_close(others * louder, weights)
    torch.testing.assert_close(same, bias)


def test_what_is_added_to_all_logits_of_an_example_does_not_matter():
    answers, target = answers_of(3, 80, 3)
    shifted = answers + 5 * torch.randn(3, 80, 1, dtype=torch.float64)
    for mine, others in zip(*(stack(Categorical(), a, target, 1e-2) for a in (answers, shifted)), strict=True):
        torch.testing.assert_close(mine, others)


def test_two_classes_weigh_experts_as_one_logit_does():
    answers, target = answers_of(3, 80, 1)
    both = torch.cat([torch.zeros_like(answers), answers], -1)
    weights, bias = stack(Bernoulli(), answers, target, 1e-2)
    others, of_classes = stack(Categorical(), both, target, 1e-2)
    torch.testing.assert_close(others, weights, rtol=1e-5, atol=1e-5)  # but for the ridge on two biases instead of one
    torch.testing.assert_close(of_classes[1:] - of_classes[:1], bias, rtol=1e-4, atol=1e-5)


def test_many_fits_at_once_are_the_fits_one_by_one():
    several = [answers_of(3, 50, 3, seed) for seed in range(4)]
    answers, targets = (torch.stack(part) for part in zip(*several, strict=True))
    found = torch.func.vmap(partial(stack, Categorical(), l2=1e-3))(answers, targets)
    for i in range(4):
        for mine, alone in zip(found, stack(Categorical(), answers[i], targets[i], 1e-3), strict=True):
            torch.testing.assert_close(mine[i], alone)
