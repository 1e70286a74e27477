"""The synergy subset and its scores."""

import numpy as np
import pytest
import torch

from synib.measure import synergy_subset

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 400)


def wrong(target, where):
    """Labels that are wrong exactly there."""
    return np.where(where, 1 - target, target)


@pytest.fixture
def models():
    """Three seeds of two modalities, wrong on a share of the examples."""
    return {m: wrong(Y, RNG.random((3, len(Y))) < rate) for m, rate in (("a", 0.8), ("b", 0.75))}


# The subset


def test_strict_is_wrong_under_everything_and_per_seed_under_all_modalities_of_a_seed(models):
    subset = synergy_subset(models, Y)
    for s in range(3):
        assert (subset.per_seed[s] == ((models["a"][s] != Y) & (models["b"][s] != Y))).all()
    assert (subset.strict == np.stack([models[m][s] != Y for m in "ab" for s in range(3)]).all(0)).all()
    assert subset.size == subset.strict.sum() < min(subset.sizes)
    assert subset.sizes == tuple(subset.per_seed.sum(1))


def test_with_one_seed_both_subsets_are_the_same_and_tensors_serve_as_well(models):
    one = synergy_subset({m: torch.from_numpy(p[0]) for m, p in models.items()}, torch.from_numpy(Y)[:, None])
    assert (one.strict == one.per_seed[0]).all()
    assert one.per_seed.shape == (1, len(Y))


@pytest.mark.parametrize("size", [0, 17, 96, 97])
def test_it_warns_below_the_size_at_which_an_accuracy_is_known_to_a_tenth(size):
    assert 1.96 * (0.25 / 97) ** 0.5 <= 0.1 < 1.96 * (0.25 / 96) ** 0.5
    subset = synergy_subset({"a": wrong(Y, np.arange(len(Y)) < size)}, Y)
    assert subset.size == size
    assert bool(subset.warning) == (size < 97)
    assert subset.score(Y).warning == subset.warning
    assert ("no examples" in subset.warning) == (size == 0)
    assert (f"{size} of 400" in subset.warning) == (0 < size < 97)


# Scores


def test_accuracy_on_and_off_the_subset_is_counted_by_hand():
    y = np.array([0, 1, 0, 1, 0, 1])
    subset = synergy_subset({"a": wrong(y, [1, 1, 1, 1, 0, 0]), "b": wrong(y, [1, 1, 1, 0, 1, 0])}, y)
    told = subset.score(wrong(y, [0, 1, 1, 0, 0, 1]))
    assert told.strict.on.value == pytest.approx(1 / 3)
    assert told.strict.off.value == pytest.approx(2 / 3)
    assert (told.strict.on.n, told.strict.off.n) == (3, 3)
    assert told.strict.excess is None
    assert told.per_seed.on == told.strict.on


def test_per_seed_model_s_is_scored_on_subset_s_and_strict_averages_over_seeds(models):
    subset = synergy_subset(models, Y)
    fusion = wrong(Y, RNG.random((3, len(Y))) < 0.3)
    told = subset.score(fusion)
    hits = fusion == Y
    assert told.per_seed.on.value == pytest.approx(hits[subset.per_seed].mean())
    assert told.per_seed.off.value == pytest.approx(hits[~subset.per_seed].mean())
    assert told.strict.on.value == pytest.approx(hits[:, subset.strict].mean())
    rolled = subset.score(np.roll(fusion, 1, 0))
    assert rolled.strict.on == told.strict.on
    assert rolled.per_seed.on != told.per_seed.on
    assert told.strict.on.low < told.strict.on.value < told.strict.on.high


def test_an_interval_counts_examples_and_not_seeds():
    """Five equal seeds tell nothing that one does not."""
    p, fusion = wrong(Y, np.arange(400) < 200), wrong(Y, np.arange(400) % 3 == 0)
    one = synergy_subset({"a": p}, Y).score(fusion)
    five = synergy_subset({"a": np.stack([p] * 5)}, Y).score(np.stack([fusion] * 5))
    assert five.per_seed.on == one.per_seed.on
    width = one.strict.on.high - one.strict.on.low
    assert width == pytest.approx(2 * 1.96 * (2 / 9 / 200) ** 0.5, rel=0.1)


def test_the_excess_over_the_control_is_paired(models):
    subset = synergy_subset(models, Y)
    fusion = wrong(Y, RNG.random(len(Y)) < 0.4)
    same = subset.score(fusion, control=fusion)
    for one in (same.strict, same.per_seed):
        reach = 1.959964**2 / (one.on.n + 1.959964**2)  # of Tango's interval: unseen examples may differ, either way
        excess = one.excess
        assert (excess.value, excess.low, excess.high) == pytest.approx((0.0, -reach, reach), rel=1e-6)
        assert one.control == one.on
    control = wrong(Y, RNG.random((3, len(Y))) < 0.6)
    told = subset.score(fusion, control)
    for one in (told.strict, told.per_seed):
        assert one.excess.value == pytest.approx(one.on.value - one.control.value)
        assert one.excess.low < one.excess.value < one.excess.high
        assert one.excess.n == one.on.n


def test_what_an_empty_subset_scores_is_nan():
    told = synergy_subset({"a": Y}, Y).score(Y, control=Y)
    assert np.isnan([told.strict.on.value, told.per_seed.on.low, told.strict.excess.value]).all()
    assert told.strict.off.value == 1.0
