"""EMAP: what is left of a model when it may only add."""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

from synib import Bernoulli, FusionModel, Gaussian
from synib.measure.emap import emap
from synib.measure.stats import widen
from synib.models.fusion import ConcatFusion
from synib.tokens import Tokens

module = sys.modules["synib.measure.emap"]


def signs(n=2, repeats=10):
    """All combinations of n signs, equally often: (modalities, the product of the signs as 0 and 1)."""
    table = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=n))).repeat(repeats, 1)
    return {f"x{i}": table[:, i : i + 1] for i in range(n)}, (table.prod(1) > 0).long()


def xor_model(size=6.0):
    """A FusionModel that says ``size`` times the product of two signs: the size of their sum tells it."""
    fusion = ConcatFusion({"x0": 1, "x1": 1}, [2, 1])
    with torch.no_grad():
        for name in ("x0", "x1"):
            fusion.slices[name].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        fusion.bias.zero_()
        fusion.rest[1].weight.fill_(size)
        fusion.rest[1].bias.fill_(-size)
    return FusionModel({"x0": nn.Identity(), "x1": nn.Identity()}, fusion)


def by_hand(model, x):
    """The projection from its definition: a loop over every combination of rows, in float64."""
    model.eval()
    names, n = list(x), len(next(iter(x.values())))
    table = np.empty((n,) * len(names), dtype=object)
    with torch.no_grad():
        for rows in itertools.product(range(n), repeat=len(names)):
            table[rows] = model({k: x[k][[r]] for k, r in zip(names, rows, strict=True)})[0].double().numpy()
    full = np.array(table.tolist())
    axes = range(len(names))
    means = [full.mean(tuple(a for a in axes if a != m)) for m in axes]
    return sum(means) - (len(names) - 1) * full.mean(tuple(axes))


# The projection


@pytest.mark.parametrize(("n", "examples"), [(2, 12), (3, 6), (4, 4)])
def test_the_projection_is_that_of_a_loop_over_all_combinations(n, examples, mixed_case):
    model, x, y = mixed_case(n, examples)
    found = emap(model, x, y)
    assert (found.exact, found.pairs) == (True, examples ** (n - 1))
    np.testing.assert_allclose(found.projection, by_hand(model, x), rtol=1e-5, atol=1e-6)


def test_accuracy_and_log_loss_are_those_of_the_projection_and_their_differences_are_paired(mixed_case):
    model, x, y = mixed_case()
    found = emap(model, x, y)
    own = model.eval()(x).detach().double()
    projected = torch.from_numpy(found.projection)
    loss = nn.functional.cross_entropy
    assert found.accuracy.value == pytest.approx((own.argmax(1) == y).double().mean().item())
    assert found.additive_accuracy.value == pytest.approx((projected.argmax(1) == y).double().mean().item())
    assert found.log_loss.value == pytest.approx(loss(own, y).item(), rel=1e-6)
    assert found.additive_log_loss.value == pytest.approx(loss(projected, y).item(), rel=1e-6)
    assert found.accuracy_lost.value == pytest.approx(found.accuracy.value - found.additive_accuracy.value)
    assert found.log_loss_added.value == pytest.approx(found.additive_log_loss.value - found.log_loss.value)
    width = found.log_loss_added.high - found.log_loss_added.low
    unpaired = math.hypot(*(e.high - e.low for e in (found.log_loss, found.additive_log_loss)))
    assert width < unpaired


@pytest.mark.parametrize(("n", "pairs"), [(2, None), (2, 7), (3, None), (3, 5), (3, 70)])
def test_an_additive_model_loses_nothing_with_all_combinations_and_with_a_few(n, pairs, additive_model):
    names = [f"x{i}" for i in range(n)]
    model, x, y = additive_model(names), {k: torch.randn(30, 4) for k in names}, torch.randint(3, (30,))
    found = emap(model, x, y, pairs=pairs)
    assert found.exact == (pairs is None)
    reach = 1.959964**2 / (30 + 1.959964**2)  # of Tango's interval, where no two answers differ
    lost = found.accuracy_lost
    assert (lost.low, lost.value, lost.high) == pytest.approx((-reach, 0, reach), rel=1e-6)
    assert max(abs(found.log_loss_added.low), abs(found.log_loss_added.high)) < 1e-6
    np.testing.assert_allclose(found.projection, model(x).detach().double(), atol=1e-6)


def test_a_pure_xor_model_loses_everything():
    x, y = signs()
    found = emap(xor_model(), x, y, Bernoulli())
    assert (found.accuracy.value, found.additive_accuracy.value, found.accuracy_lost.value) == (1.0, 0.5, 0.5)
    assert found.additive_log_loss.value == pytest.approx(math.log(2), abs=1e-9)
    assert found.log_loss.value == pytest.approx(math.log1p(math.exp(-6)), abs=1e-6)
    np.testing.assert_allclose(found.projection, 0, atol=1e-9)


def test_the_order_of_modalities_and_a_constant_added_to_all_logits_do_not_matter(mixed_case):
    model, x, y = mixed_case()
    found = emap(model, x, y)
    model.eval()
    shifted = emap(lambda m: model(m) + 3 * (m["x0"] * m["x1"]).sum(1, keepdim=True), dict(reversed(x.items())), y)
    assert shifted.log_loss_added.value == pytest.approx(found.log_loss_added.value, abs=1e-6)
    assert shifted.accuracy_lost == found.accuracy_lost


# What it takes


def test_latents_can_be_given_instead_of_inputs(mixed_case):
    model, x, y = mixed_case()
    found = emap(model.eval().on_latents(), model.encode_all(x), y)
    np.testing.assert_allclose(found.projection, emap(model, x, y).projection, atol=1e-5)


def test_tokens_bring_their_padding_along():
    x = {"a": Tokens(torch.randn(8, 3, 2), torch.rand(8, 3) > 0.5), "b": torch.randn(8, 2)}

    def model(m):
        kept = m["a"].values * ~m["a"].padding[..., None]
        return kept.sum(1) * m["b"]

    found = emap(model, x, torch.arange(8) % 2)
    kept = (x["a"].values * ~x["a"].padding[..., None]).sum(1).double()
    b = x["b"].double()
    np.testing.assert_allclose(
        found.projection, kept * b.mean(0) + kept.mean(0) * b - kept.mean(0) * b.mean(0), atol=1e-6
    )


# Subsampling


def test_a_sample_comes_near_all_pairs_and_its_interval_is_wider(mixed_case):
    model, x, y = mixed_case(examples=300)
    exact, few, more = (emap(model, x, y, pairs=pairs) for pairs in (None, 8, 150))
    assert not few.exact
    assert (few.pairs, more.pairs) == (8, 150)
    errors = [
        np.mean([np.abs(emap(model, x, y, pairs=p, seed=s).projection - exact.projection) for s in range(5)])
        for p in (8, 150)
    ]
    assert errors[1] < 0.4 * errors[0]
    width = [one.log_loss_added.high - one.log_loss_added.low for one in (exact, more, few)]
    assert width[0] < width[1] < width[2]
    assert few.log_loss_added.low < exact.log_loss_added.value < few.log_loss_added.high
    assert emap(model, x, y, pairs=300).exact


@pytest.mark.parametrize(("n", "examples", "pairs"), [(2, 60, 16), (3, 40, 32)])
def test_the_interval_grows_by_what_the_draws_really_vary(n, examples, pairs, monkeypatch, mixed_case):
    model, x, y = mixed_case(n, examples)
    reaches = {}

    def seen(estimate, without, finite):
        wide = widen(estimate, without, finite)
        reaches[wide.value] = math.sqrt((wide.high - wide.value) ** 2 - (estimate.high - estimate.value) ** 2)
        return wide

    monkeypatch.setattr(module, "widen", seen)
    values = [emap(model, x, y, pairs=pairs, seed=s).log_loss_added.value for s in range(25)]
    reach = np.mean([reaches[value] for value in values])
    assert 0.6 < reach / (2.13 * np.std(values, ddof=1)) < 1.8


def test_many_combinations_of_three_modalities_are_sampled_by_default(monkeypatch, mixed_case):
    model, x, y = mixed_case(3, 10)
    monkeypatch.setattr(module, "EXACT", 999)
    monkeypatch.setattr(module, "MANY", 20)
    found = emap(model, x, y)
    assert (found.exact, found.pairs) == (False, 20)
    monkeypatch.setattr(module, "EXACT", 1000)
    assert emap(model, x, y).exact


# Families and probabilities


def test_probabilities_are_projected_on_request(mixed_case):
    model, x, y = mixed_case()
    found = emap(model, x, y, of="probabilities")
    model.eval()
    hand = by_hand(lambda_model(lambda m: torch.softmax(model(m), -1)), x)
    inside = hand > 1e-6
    np.testing.assert_allclose(np.exp(found.projection)[inside], hand[inside], atol=1e-6)
    assert (found.projection[~inside] == math.log(1e-6)).all()
    x, y = signs()
    of_one = emap(xor_model(), x, y, Bernoulli(), of="probabilities")
    np.testing.assert_allclose(of_one.projection, 0, atol=1e-6)


def test_probabilities_outside_0_and_1_are_held_inside():
    rows = torch.tensor([[0.0], [0.0], [1.0]])
    # Only (1, 1) is sure of class 1: the additive part of the others falls below 0.
    and_model = lambda m: 60 * (m["a"] * m["b"]) - 30  # noqa: E731
    x, y = {"a": rows, "b": rows}, torch.tensor([0, 0, 1])
    found = emap(and_model, x, y, Bernoulli(), of="probabilities")
    hand = 1 / 3 * rows[:, 0] * 2 - 1 / 9
    np.testing.assert_allclose(found.projection[:, 0], torch.logit(hand.clamp(1e-6, 1 - 1e-6)), rtol=1e-3, atol=1e-3)
    two = emap(lambda m: torch.cat([-and_model(m), and_model(m)], 1) / 2, x, y, of="probabilities")
    expected = torch.stack([1 - hand, hand], 1).clamp(min=1e-6).log()
    np.testing.assert_allclose(two.projection, expected, rtol=1e-3, atol=1e-3)


def lambda_model(function):
    """A function with the ``eval`` that a module has."""
    function.eval = lambda: None
    return function


def test_a_gaussian_has_a_log_loss_and_no_accuracy():
    x = {"a": torch.randn(30, 1), "b": torch.randn(30, 1)}
    y = x["a"] * x["b"]
    found = emap(lambda m: torch.cat([m["a"] * m["b"], torch.zeros_like(m["a"])], 1), x, y, Gaussian())
    assert found.accuracy is found.additive_accuracy is found.accuracy_lost is None
    a, b = x["a"].double(), x["b"].double()
    mean = a * b.mean() + a.mean() * b - a.mean() * b.mean()
    assert found.log_loss_added.value == pytest.approx((0.5 * (y - mean) ** 2).mean().item(), rel=1e-5)
    assert "accuracy" not in str(found)


# How it is called


X, Y = signs()


def test_a_family_without_classes_has_no_probabilities_and_one_example_nothing_to_mix():
    with pytest.raises(ValueError, match=r"Gaussian.* no class probabilities to project: use of='logits'"):
        emap(xor_model(), X, Y, Gaussian(), of="probabilities")
    with pytest.raises(
        ValueError, match=r"mixes the modalities of different examples and needs at least 2; got 1 example"
    ):
        emap(lambda m: torch.cat([m["x0"], m["x1"]], 1), {k: v[:1] for k, v in X.items()}, [0.5], Gaussian())
