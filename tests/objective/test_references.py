import pytest
import torch

from synib import (
    Bernoulli,
    Categorical,
    Fixed,
    FusionModel,
    Gaussian,
    Prior,
    RandomMask,
    StandardNoise,
    SynIB,
    Unimodal,
)

FAMILIES = {"Bernoulli": (Bernoulli(), 1), "Categorical": (Categorical(), 3), "Gaussian": (Gaussian(2, "full"), 5)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_fixed_has_exactly_the_probabilities_given_whatever_the_predictions_type(dtype):
    like = torch.randn(4, 3).to(dtype)
    torch.testing.assert_close(
        Fixed([0.7, 0.2, 0.1])(like, Categorical(), {}).softmax(-1), torch.tensor([[0.7, 0.2, 0.1]])
    )
    assert (
        Categorical().kl(torch.tensor([[0.7, 0.2, 0.1]]).log(), Fixed([0.7, 0.2, 0.1])(like, Categorical(), {})) < 1e-7
    )


@pytest.mark.parametrize("rho", [0.3, [0.3], [0.7, 0.3], torch.tensor([0.7, 0.3])])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_fixed_for_a_bernoulli_is_the_probability_of_one(rho, shape):
    reference = Fixed(rho)(torch.zeros(shape), Bernoulli(), {})
    assert reference.shape == (1,) * len(shape)
    assert reference.sigmoid().item() == pytest.approx(0.3)


TARGETS = {
    "Bernoulli": torch.tensor([0, 1, 1, 1]),
    "Categorical": torch.tensor([0, 0, 1, 2]),
    "Gaussian": torch.randn(30, 2, generator=torch.Generator().manual_seed(0)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prior_is_the_distribution_of_the_targets(name):
    family, width = FAMILIES[name]
    prior = Prior(TARGETS[name], family)
    like = torch.randn(4, width, dtype=torch.float64)
    given = prior(like, family, {})
    torch.testing.assert_close(given, family.from_targets(TARGETS[name]).reshape(1, width).double())
    torch.testing.assert_close(family.kl(given, given), torch.zeros(1).double())


def test_a_prior_is_saved_with_the_objective():
    first = Prior(torch.tensor([0, 1, 1, 1]), Bernoulli())
    second = Prior(torch.tensor([0, 1]), Bernoulli())
    second.load_state_dict(first.state_dict())
    assert second(torch.zeros(1), Bernoulli(), {}).sigmoid().item() == pytest.approx(0.75)


WIDTHS = {"a": 3, "b": 4, "c": 2}


@pytest.mark.parametrize("n", [2, 3])
def test_the_objective_compares_with_the_complementary_modalities(n, key):
    widths = dict(list(WIDTHS.items())[:n])
    model = FusionModel.mlp(widths, hidden=[5], classes=3, head_hidden=[]).double()
    x = {name: torch.randn(6, width, dtype=torch.float64) for name, width in widths.items()}
    # With nothing corrupted the penalty is KL(intact prediction ‖ what the others say).
    _, parts = SynIB(RandomMask(0.0), StandardNoise(), Unimodal())(model, x, torch.arange(6) % 3, key=key)
    q, own = model(x).softmax(-1), {name: p.softmax(-1) for name, p in model.unimodal(x).items()}
    for name in widths:
        others = torch.stack([p for other, p in own.items() if other != name]).mean(0)
        torch.testing.assert_close(parts[f"penalty/{name}"], (q * (q / others).log()).sum(-1).mean())


def test_no_gradient_reaches_the_heads_through_the_unimodal_reference(key):
    model = FusionModel.mlp({"a": 3, "b": 4}, hidden=[5], classes=3, head_hidden=[])
    x = {"a": torch.randn(6, 3), "b": torch.randn(6, 4)}
    objective = SynIB(RandomMask(0.5), StandardNoise(), Unimodal(), weight=5.0, unimodal_weight=0.0)
    loss, _ = objective(model, x, torch.arange(6) % 3, key=key)
    gradients = torch.autograd.grad(loss, list(model.heads.parameters()), allow_unused=True)
    assert all(g is None or not g.any() for g in gradients)
