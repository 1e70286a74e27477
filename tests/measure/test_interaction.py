"""Shapley interaction values of modalities, and the share of interaction."""

import itertools
import math

import numpy as np
import pytest
import torch

from synib import Bernoulli, Gaussian
from synib.measure.emap import emap
from synib.measure.interaction import interaction, interaction_values


def signs(n=2, repeats=10):
    """All combinations of n signs, equally often."""
    table = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=n))).repeat(repeats, 1)
    return {f"x{i}": table[:, i : i + 1] for i in range(n)}


# The values


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_values_are_those_of_the_games_dividends(n):
    """A game is a sum of dividends of coalitions; each is shared equally by its players, and by its pairs of players."""
    subsets = [frozenset(c) for size in range(n + 1) for c in itertools.combinations(range(n), size)]
    dividend = {s: torch.randn(4).double() for s in subsets}
    worth = {s: sum(dividend[t] for t in subsets if t <= s) for s in subsets}
    phi = interaction_values(worth, n)
    for i, j in itertools.combinations(range(n), 2):
        pair = sum(dividend[t] / (len(t) - 1) for t in subsets if {i, j} <= t) / 2
        torch.testing.assert_close(phi[i, j], pair)
        torch.testing.assert_close(phi[j, i], pair)
    for i in range(n):
        shapley = sum(dividend[t] / len(t) for t in subsets if i in t)
        torch.testing.assert_close(phi[i].sum(0), shapley)
    torch.testing.assert_close(phi.sum((0, 1)), worth[frozenset(range(n))] - worth[frozenset()])


def test_over_all_examples_the_interaction_of_two_modalities_is_what_emap_leaves_out(mixed_case):
    model, x, y = mixed_case()
    found = interaction(model, x, draws=40)
    left_out = model.eval()(x).detach().double().numpy() - emap(model, x, y).projection
    left_out -= left_out.mean(1, keepdims=True)
    np.testing.assert_allclose(2 * found.values[:, 0, 1], np.abs(left_out).sum(1), atol=1e-5)


# The score


@pytest.mark.parametrize("draws", [2, 5, 1000])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_an_additive_model_scores_0_with_any_number_of_draws(n, draws, additive_model):
    names = [f"x{i}" for i in range(n)]
    found = interaction(additive_model(names), {k: torch.randn(30, 4) for k in names}, draws=draws)
    assert found.score.value < 1e-6
    assert found.score.high < 1e-6
    assert sum(share.value for share in found.main.values()) == pytest.approx(1)


def test_a_pure_xor_scores_what_the_formula_says_where_it_is_not():
    x = signs()
    x = {k: torch.cat([v, torch.ones(8, 1)]) for k, v in x.items()}
    delta = 8 / 48
    found = interaction(lambda m: 3 * m["x0"] * m["x1"], x, family=Bernoulli())
    # |phi| on the diagonal is delta (s - delta), off it (s1 - delta)(s2 - delta), in absolute value
    s1, s2 = x["x0"], x["x1"]
    both = ((s1 - delta).abs() * (s2 - delta).abs()).mean().item()
    main = delta * ((s1 - delta).abs() + (s2 - delta).abs()).mean().item()
    assert found.score.value == pytest.approx(both / (both + main), rel=1e-6)
    assert found.score.value == pytest.approx(1 / (1 + 2 * delta), abs=0.05)  # of the formula for balanced examples


def test_parity_of_three_splits_evenly_between_pairs_and_singles_cancel():
    found = interaction(lambda m: m["x0"] * m["x1"] * m["x2"], signs(3, 8), family=Bernoulli(), draws=64)
    pairs = [share.value for share in found.pairs.values()]
    assert len(pairs) == 3
    # One dividend, of all three: a third to each Shapley value, a quarter to each ordered pair, so -1/6 to the diagonal.
    dividend = {
        frozenset(s): torch.tensor([float(len(s) == 3)]) for k in range(4) for s in itertools.combinations(range(3), k)
    }
    phi = interaction_values(dividend, 3).squeeze(-1)
    torch.testing.assert_close(phi.diagonal(), torch.full((3,), -1 / 6).double())
    assert found.score.value == pytest.approx(0.75, abs=0.1)  # 6/4 of 6/4 + 3/6


def test_the_interval_holds_the_score_and_stays_between_0_and_1(mixed_case):
    model, x, _ = mixed_case(3)
    found = interaction(model, x, draws=8)
    for share in [found.score, *found.pairs.values(), *found.main.values()]:
        assert 0 <= share.low < share.value < share.high <= 1
    model, x, _ = mixed_case(2, 60)
    few, all_of_them = interaction(model, x, draws=4), interaction(model, x, draws=60)
    assert few.score.high - few.score.low > all_of_them.score.high - all_of_them.score.low


def test_a_constant_model_has_no_behaviour_to_share_out():
    found = interaction(lambda m: torch.full((len(m["x0"]), 2), 3.0), signs())
    assert all(math.isnan(s.value) for s in [found.score, *found.pairs.values(), *found.main.values()])
    assert "nan" in str(found)


# Outputs


def test_what_is_added_to_all_logits_alike_does_not_count():
    def model(m):
        return torch.cat([m["x0"], m["x1"]], 1) + 5 * m["x0"] * m["x1"]

    assert interaction(model, signs()).score.value < 1e-6


def test_probabilities_and_logits_differ():
    def model(m):
        return 2 * m["x0"] + 2 * m["x1"]

    assert interaction(model, signs(), family=Bernoulli()).score.value < 1e-9
    assert interaction(model, signs(), family=Bernoulli(), of="probabilities").score.value < 1e-6  # odd in both signs
    shifted = interaction(lambda m: model(m) + 2, signs(), family=Bernoulli(), of="probabilities")
    p = [1 / (1 + math.exp(-(2 * a + 2 * b + 2))) for a in (-1, 1) for b in (-1, 1)]
    both, main = abs(p[0] - p[1] - p[2] + p[3]) / 4, abs(p[3] + p[2] - p[1] - p[0]) / 4
    assert shifted.score.value == pytest.approx(both / (both + 2 * main), rel=1e-5)


def test_a_target_picks_the_output_of_its_class():
    def model(m):
        return torch.cat([m["x0"] * m["x1"], m["x0"], -m["x0"] - m["x0"] * m["x1"]], 1)  # centred

    x = signs()
    first, second = torch.zeros(40).long(), torch.ones(40).long()
    first[0], second[0] = 1, 0  # two classes
    assert interaction(model, x, first).score.value > 0.9
    assert interaction(model, x, second).score.value < 0.1
    assert 0.4 < interaction(model, x).score.value < 0.6
    bit = (x["x0"] > 0).long()
    one = interaction(lambda m: m["x0"] * m["x1"] + m["x0"], x, bit, Bernoulli())
    assert one.score.value == pytest.approx(0.5)


def test_of_a_gaussian_the_mean_counts():
    x = {"a": torch.randn(30, 1), "b": torch.randn(30, 1)}
    found = interaction(lambda m: torch.cat([m["a"] + m["b"], m["a"] * m["b"]], 1), x, family=Gaussian())
    assert found.score.value < 1e-6
