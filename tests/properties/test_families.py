"""What every family must satisfy, whatever the parameters."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib import Bernoulli, Categorical, Gaussian, MultiLabel

FAMILIES = {
    "Bernoulli": (Bernoulli(), 1),
    "Categorical": (Categorical(), 4),
    "diagonal": (Gaussian(2), 4),
    "full": (Gaussian(2, "full"), 5),
    "MultiLabel": (MultiLabel(), 4),
}
every_family = pytest.mark.parametrize("name", FAMILIES)
ROWS = 3


def numbers(size=5.0):
    return st.lists(st.floats(-size, size), min_size=ROWS * 5, max_size=ROWS * 5)


def parameters(name, flat):
    width = FAMILIES[name][1]
    return torch.tensor(flat, dtype=torch.float64)[: ROWS * width].view(ROWS, width)


@every_family
@given(q=numbers(), r=numbers())
def test_kl_is_never_negative(name, q, r):
    kl = FAMILIES[name][0].kl(parameters(name, q), parameters(name, r))
    assert kl.isfinite().all()
    assert (kl >= -1e-9 * (1 + kl.abs())).all()


@every_family
@given(q=numbers())
def test_kl_is_zero_at_the_reference_with_zero_slope(name, q):
    p = parameters(name, q).requires_grad_()
    kl = FAMILIES[name][0].kl(p, p.detach().clone())
    torch.testing.assert_close(kl, torch.zeros(ROWS).double(), atol=1e-9, rtol=0)
    (slope,) = torch.autograd.grad(kl.sum(), p)
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-9, rtol=0)


@every_family
@given(q=numbers(2.0), r=numbers(2.0))
def test_a_small_step_against_the_gradient_lowers_the_kl(name, q, r):
    p, reference = parameters(name, q).requires_grad_(), parameters(name, r)
    kl = FAMILIES[name][0].kl(p, reference).sum()
    (slope,) = torch.autograd.grad(kl, p)
    after = FAMILIES[name][0].kl(p.detach() - 1e-6 * slope, reference).sum()
    assert after <= kl + 1e-12


@every_family
@given(first=numbers(), second=numbers(), r=numbers())
def test_averaging_two_discrete_predictions_never_raises_the_kl(name, first, second, r):
    family, _ = FAMILIES[name]
    if not family.discrete:
        return  # a mixture of Gaussians is not one: its moments may lie further away
    a, b, reference = (parameters(name, flat) for flat in (first, second, r))
    average = family.kl(family.average(torch.stack([a, b])), reference)
    assert (average <= (family.kl(a, reference) + family.kl(b, reference)) / 2 + 1e-9).all()


@every_family
@given(q=numbers())
def test_the_order_of_the_draws_does_not_matter(name, q):
    family = FAMILIES[name][0]
    draws = torch.stack([parameters(name, q), parameters(name, q[::-1])])
    torch.testing.assert_close(family.average(draws), family.average(draws.flip(0)))


@given(q=numbers(), shift=st.floats(-50, 50))
def test_a_constant_added_to_all_logits_changes_nothing(q, shift):
    family, p = Categorical(), parameters("Categorical", q)
    zeros, target = torch.zeros(1, 4).double(), torch.tensor([0, 1, 3])
    torch.testing.assert_close(family.kl(p + shift, zeros), family.kl(p, zeros))
    torch.testing.assert_close(family.nll(p + shift, target), family.nll(p, target))


@every_family
@given(q=numbers())
def test_many_models_at_once_equal_one_by_one(name, q):
    family = FAMILIES[name][0]
    p = torch.stack([parameters(name, q), parameters(name, q[::-1])])
    reference = torch.zeros_like(p[0, :1])
    together = torch.func.vmap(family.kl, in_dims=(0, None))(p, reference)
    torch.testing.assert_close(together, torch.stack([family.kl(one, reference) for one in p]))
