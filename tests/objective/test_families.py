import math

import pytest
import torch
from torch import distributions as D

from synib import Bernoulli, Categorical, Gaussian, MultiLabel

DIM = 3
CASES = {  # name: (family, width of a prediction)
    "Bernoulli": (Bernoulli(), 1),
    "Categorical": (Categorical(), 4),
    "diagonal": (Gaussian(DIM), 6),
    "full": (Gaussian(DIM, "full"), 9),
    "MultiLabel": (MultiLabel(), 4),
}
every_family = pytest.mark.parametrize("name", CASES)


def as_distribution(name, p):
    """The same distribution as torch knows it, unpacked by hand."""
    if name == "Bernoulli":
        return D.Bernoulli(logits=p.squeeze(-1))
    if name == "Categorical":
        return D.Categorical(logits=p)
    if name == "MultiLabel":
        return D.Independent(D.Bernoulli(logits=p), 1)
    if name == "diagonal":
        return D.Independent(D.Normal(p[..., :DIM], (p[..., DIM:] / 2).exp()), 1)
    factor = torch.zeros(*p.shape[:-1], DIM, DIM, dtype=p.dtype)
    factor[..., 0, 0], factor[..., 1, 0], factor[..., 1, 1] = p[..., 3].exp(), p[..., 4], p[..., 5].exp()
    factor[..., 2, 0], factor[..., 2, 1], factor[..., 2, 2] = p[..., 6], p[..., 7], p[..., 8].exp()
    return D.MultivariateNormal(p[..., :DIM], scale_tril=factor)


def targets_of(name, rows):
    return {
        "Bernoulli": torch.arange(rows) % 2,
        "Categorical": torch.arange(rows) % 4,
        "diagonal": torch.randn(rows, DIM, dtype=torch.float64),
        "full": torch.randn(rows, DIM, dtype=torch.float64),
        "MultiLabel": torch.randint(2, (rows, 4)),
    }[name]


def predictions(name, *rows):
    return torch.randn(*rows, CASES[name][1], dtype=torch.float64)


@every_family
def test_kl_equals_that_of_torch_distributions(name):
    q, r = predictions(name, 20), predictions(name, 20)
    kl = CASES[name][0].kl(q, r)
    assert kl.shape == (20,)
    torch.testing.assert_close(kl, D.kl_divergence(as_distribution(name, q), as_distribution(name, r)))


@every_family
def test_nll_equals_that_of_torch_distributions(name):
    q, y = predictions(name, 20), targets_of(name, 20)
    nll = CASES[name][0].nll(q, y)
    assert nll.shape == (20,)
    expected = -as_distribution(name, q).log_prob(y if name == "Categorical" else y.double())
    torch.testing.assert_close(nll, expected)


@every_family
def test_without_a_reference_the_kl_is_that_to_the_neutral_distribution(name):
    family, q = CASES[name][0], predictions(name, 5)
    neutral = torch.zeros_like(q[:1])
    torch.testing.assert_close(family.kl(q), family.kl(q, neutral))
    if name in ("Bernoulli", "Categorical"):
        torch.testing.assert_close(
            as_distribution(name, neutral).probs.max(), torch.tensor(1 / max(q.shape[1], 2)).double()
        )
    elif name != "MultiLabel":
        assert torch.equal(as_distribution(name, neutral).variance, torch.ones(1, DIM).double())


def test_a_bernoulli_logit_may_have_a_dimension_of_its_own_or_not():
    logit, y = torch.randn(6), torch.arange(6) % 2
    family = Bernoulli()
    assert torch.equal(family.nll(logit, y), family.nll(logit[:, None], y[:, None]))
    assert torch.equal(family.kl(logit, torch.zeros(1)), family.kl(logit[:, None], torch.zeros(1, 1)))
    for p in (logit[:1], logit[:1, None]):
        assert family.nll(p, y[:1]).shape == family.kl(p, p).shape == (1,)


@pytest.mark.parametrize("size", [50.0, 1e3, 1e4])
def test_extreme_logits_give_finite_values_and_gradients(size):
    for family, reference, expected in (
        (Bernoulli(), torch.zeros(1, 1), math.log(2)),
        (Categorical(), torch.zeros(1, 3), math.log(3)),
    ):
        p = torch.full((2, reference.shape[1]), -size)
        p[0, 0] = size
        p[1, -1] = -size if reference.shape[1] == 1 else size
        p.requires_grad_()
        kl, nll = family.kl(p, reference), family.nll(p, torch.tensor([0, 1]))
        torch.testing.assert_close(kl, torch.full((2,), expected), atol=1e-3, rtol=0)
        assert nll.isfinite().all()
        (gradient,) = torch.autograd.grad(kl.sum() + nll.sum(), p)
        assert gradient.isfinite().all()
        assert family.average(torch.stack([p, -p])).isfinite().all()


@every_family
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_evaluated_in_single_precision(name, dtype):
    family = CASES[name][0]
    q, r, y = predictions(name, 2, 5).to(dtype), predictions(name, 5).to(dtype), targets_of(name, 5)
    for value, expected in (
        (family.kl(q[0], r), family.kl(q[0].float(), r.float())),
        (family.nll(q[0], y), family.nll(q[0].float(), y)),
        (family.average(q), family.average(q.float())),
    ):
        assert value.dtype == torch.float32
        assert torch.equal(value, expected)


@pytest.mark.parametrize("name", ["Bernoulli", "Categorical", "MultiLabel"])
def test_the_average_prediction_has_the_mean_probability(name):
    draws = predictions(name, 7, 5)
    average, each = (as_distribution(name, p) for p in (CASES[name][0].average(draws), draws))
    if name == "MultiLabel":
        average, each = average.base_dist, each.base_dist
    torch.testing.assert_close(average.probs, each.probs.mean(0))


@pytest.mark.parametrize("name", ["diagonal", "full"])
def test_the_average_gaussian_has_the_moments_of_the_mixture(name):
    draws = predictions(name, 7, 5)
    each, average = as_distribution(name, draws), as_distribution(name, CASES[name][0].average(draws))
    mean = each.mean.mean(0)
    torch.testing.assert_close(average.mean, mean)
    if name == "diagonal":
        torch.testing.assert_close(average.variance, (each.variance + each.mean**2).mean(0) - mean**2)
    else:
        outer = each.mean.unsqueeze(-1) * each.mean.unsqueeze(-2)
        expected = (each.covariance_matrix + outer).mean(0) - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        torch.testing.assert_close(average.covariance_matrix, expected)


def test_the_distribution_of_targets_has_their_frequencies():
    y = torch.tensor([0, 0, 0, 1, 2, 2])
    torch.testing.assert_close(Categorical().from_targets(y).softmax(-1), torch.tensor([[3, 1, 2]]) / 6)
    torch.testing.assert_close(Bernoulli().from_targets(torch.tensor([1, 1, 1, 0])).sigmoid(), torch.tensor([0.75]))
    labels = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 0]])
    torch.testing.assert_close(MultiLabel().from_targets(labels).sigmoid(), torch.tensor([[0.75, 0.25]]))
    soft = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    torch.testing.assert_close(Categorical().from_targets(soft).softmax(-1), soft.mean(0, keepdim=True))


@pytest.mark.parametrize("name", ["diagonal", "full"])
def test_the_distribution_of_real_targets_has_their_moments(name):
    y = torch.randn(40, DIM) @ torch.randn(DIM, DIM) + 3
    prior = as_distribution(name, CASES[name][0].from_targets(y))
    torch.testing.assert_close(prior.mean[0], y.mean(0))
    if name == "diagonal":
        torch.testing.assert_close(prior.variance[0], y.var(0, correction=0))
    else:
        torch.testing.assert_close(prior.covariance_matrix[0], torch.cov(y.T, correction=0), rtol=1e-4, atol=1e-4)


@every_family
def test_the_most_probable_target_is_the_mode(name):
    q = predictions(name, 6)
    distribution = as_distribution(name, q)
    mode = distribution.mean if name in ("diagonal", "full") else distribution.mode
    torch.testing.assert_close(CASES[name][0].predict(q).double(), mode.double())


REFUSED = {
    "one logit is no class": (Categorical(), (4, 1), torch.zeros(4).long(), "at least 2 classes.*use Bernoulli"),
    "a class too many": (Categorical(), (4, 3), torch.tensor([0, 1, 2, 3]), "must be classes 0 to 2; got 3"),
    "a negative class": (Categorical(), (2, 3), torch.tensor([0, -1]), "must be classes 0 to 2; got -1"),
    "classes as floats": (Categorical(), (2, 3), torch.zeros(2), r"2 integer class indices .*; got .* torch.float32"),
    "no probabilities": (Categorical(), (2, 3), torch.full((2, 3), 1.5), r"probabilities between them; got 1\.5"),
    "classes one-hot": (Categorical(), (2, 3), torch.zeros(2, 3).long(), r"got shape \(2, 3\)"),
    "two logits": (Bernoulli(), (4, 2), torch.zeros(4), r"one logit .* got \(4, 2\).*use Categorical"),
    "three dimensions": (Bernoulli(), (4, 1, 1), torch.zeros(4), r"one logit .* got \(4, 1, 1\)"),
    "too few targets": (Bernoulli(), (4, 1), torch.zeros(3), r"each of 4 examples; got \(3,\)"),
    "neither 0 nor 1": (Bernoulli(), (2, 1), torch.tensor([0, 2]), "must be 0 or 1, .*; got 2"),
    "no number": (Bernoulli(), (2, 1), torch.tensor([0, math.nan]), "must be 0 or 1, .*; got nan"),
    "a label short": (MultiLabel(), (4, 3), torch.zeros(4, 2), r"targets \(4, 3\); got \(4, 2\)"),
    "one label": (MultiLabel(), (4,), torch.zeros(4), r"\(batch, labels\); got \(4,\)"),
    "no variance": (Gaussian(2), (4, 2), torch.zeros(4, 2), r"predictions \(batch, 4\); got \(4, 2\).*log-variance"),
    "no factor": (Gaussian(2, "full"), (4, 4), torch.zeros(4, 2), r"\(batch, 5\); got \(4, 4\).*Cholesky"),
    "a coordinate short": (Gaussian(2), (4, 4), torch.zeros(4), r"targets \(4, 2\); got \(4,\)"),
    "infinite": (Gaussian(1), (2, 2), torch.tensor([[0.0], [math.inf]]), "targets must be finite; 1 are not"),
}


@pytest.mark.parametrize(("family", "shape", "target", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_target_that_does_not_fit_is_refused(family, shape, target, message):
    with pytest.raises(ValueError, match=message):
        family.check_target(torch.zeros(shape), target)


def test_values_are_only_looked_at_on_request():
    Categorical().check_target(torch.zeros(1, 3), torch.tensor([9]), values=False)
    Bernoulli().check_target(torch.zeros(1, 1), torch.tensor([9]), values=False)
    Gaussian().check_target(torch.zeros(1, 2), torch.tensor([math.nan]), values=False)


@pytest.mark.parametrize("logit", [1e4, -1e4, 1e8])
def test_a_bernoulli_kl_does_not_cancel_at_large_logits(logit):
    found = Bernoulli().kl(torch.tensor([logit]), torch.tensor([0.3]))
    rho = torch.sigmoid(torch.tensor(0.3, dtype=torch.float64))
    expected = -(rho if logit > 0 else 1 - rho).log()
    torch.testing.assert_close(found.double(), expected.reshape(1), rtol=1e-6, atol=0)
