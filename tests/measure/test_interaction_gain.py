"""Interaction gain: pooling is not interaction, XOR is nothing else."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, logit

from synib.measure import interaction_gain
from synib.measure.combination import log_probabilities

N = 1500


def copies(n=N, error=0.2, seed=0):
    """Two noisy copies of a bit: each one's log-odds, and Bayes' rule for both."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    size = math.log((1 - error) / error)
    own = {m: size * (2 * np.where(rng.random(n) < error, 1 - y, y) - 1) for m in "ab"}
    return own, own["a"] + own["b"], y


def xor(n=N, seed=0):
    """Unimodal models that know nothing, and a fusion that is right 19 times of 20."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    right = rng.random(n) < 0.95
    return {m: rng.normal(0, 0.1, n) for m in "ab"}, logit(0.95) * (2 * np.where(right, y, 1 - y) - 1), y


def classes(k=4, n=N, seed=0, strength=(1.5, 1.5)):
    """Gaussian views of a class: their log-probabilities add up."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    own = {m: s * (rng.normal(0, 1, (n, k)) + s * np.eye(k)[y]) for m, s in zip("abc", strength, strict=False)}
    return own, sum(own.values()), y


# What it says


def test_two_noisy_copies_of_a_bit_have_no_interaction():
    own, joint, y = copies()
    told = interaction_gain(own, joint, y)
    assert told.log_loss.low <= 0 <= told.log_loss.high
    assert abs(told.log_loss.value) < 1e-4
    assert told.accuracy.low <= 0 <= told.accuracy.high
    assert told.fusion_log_loss.value < 0.45  # though the fusion is much better than either alone, .50


def test_xor_is_all_interaction():
    own, joint, y = xor()
    told = interaction_gain(own, joint, y)
    entropy = -(0.95 * math.log(0.95) + 0.05 * math.log(0.05))
    assert told.log_loss.value == pytest.approx(math.log(2) - entropy, abs=0.04)
    assert told.additive_log_loss.value == pytest.approx(math.log(2), abs=0.005)
    assert told.accuracy.value == pytest.approx(0.45, abs=0.04)
    assert told.log_loss.low > 0.4
    assert told.accuracy.low > 0.4


def test_the_gain_is_the_difference_of_both_and_its_interval_is_paired():
    own, joint, y = classes()
    told = interaction_gain(own, joint + np.random.default_rng(1).normal(0, 1.5, joint.shape), y)
    assert told.log_loss.value == pytest.approx(told.additive_log_loss.value - told.fusion_log_loss.value, abs=1e-6)
    assert told.accuracy.value == pytest.approx(told.fusion_accuracy.value - told.additive_accuracy.value)
    assert told.log_loss.value < 0  # the fusion is worse than pooling, and this is said
    assert told.log_loss.high - told.log_loss.low < told.fusion_log_loss.high - told.fusion_log_loss.low
    assert told.log_loss.n == N


@pytest.mark.parametrize(("scale", "shift"), [(0.02, 0.0), (30.0, 0.0), (1.0, 3.0), (1.0, -3.0)])
def test_calibration_of_the_fusion_makes_no_difference(scale, shift):
    """A fusion trained to be uncertain has tiny logits: it says the same, only softly."""
    own, joint, y = xor()
    plain = interaction_gain(own, joint, y)
    told = interaction_gain(own, scale * joint + shift, y)
    assert told.log_loss.value == pytest.approx(plain.log_loss.value, abs=2e-3)
    assert told.accuracy.value == pytest.approx(plain.accuracy.value)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_fusion_that_is_wrong_more_often_than_chance_is_not_turned_round(held_out):
    own, joint, y = xor()
    assert np.mean((-joint > 0) == y) == pytest.approx(0.05, abs=0.02)
    other = xor(seed=1)
    told = interaction_gain(own, -joint, y, calibration=(other[0], -other[1], other[2]) if held_out else None)
    assert told.log_loss.value < 0.005
    assert told.log_loss.low <= 0
    assert told.accuracy.value < 0.05
    assert told.fusion_log_loss.value == pytest.approx(math.log(2), abs=2e-3)  # that of the class frequencies
    assert told.fusion_accuracy.value == pytest.approx(0.5, abs=0.05)


def test_no_sum_is_turned_round_either_but_a_weighted_one_may_be():
    own, joint, y = classes()
    told = interaction_gain({m: -x for m, x in own.items()}, joint, y)
    assert told.candidates["sum"] == pytest.approx(math.log(4), abs=5e-3)
    assert told.candidates["weighted"] < 0.8 * math.log(4)


def test_calibration_of_the_unimodal_models_makes_no_difference():
    own, joint, y = copies()
    told = interaction_gain({"a": 0.1 * own["a"] + 1, "b": 5 * own["b"] - 2}, joint, y)
    assert told.combination == "stacked"
    assert told.log_loss.low <= 0 <= told.log_loss.high
    assert abs(told.log_loss.value) < 6e-3


def test_shared_noise_is_no_interaction():
    """Where both views are the same view a plain sum counts it twice."""
    own, _, y = copies()
    told = interaction_gain({"a": own["a"], "b": own["a"]}, own["a"], y)
    assert abs(told.log_loss.value) < 1e-3


def test_a_modality_of_pure_noise_is_weighed_down():
    """A fusion that ignores it shows no interaction by that, with few examples for many classes too."""
    own, _, y = classes(k=6, n=400, strength=(1.5, 0.0))
    own["b"] = np.random.default_rng(1).normal(0, 2, (400, 6))
    told = interaction_gain(own, own["a"], y)
    assert told.combination == "weighted"
    assert told.log_loss.value < 0.01
    assert told.candidates["weighted"] < min(told.candidates["sum"], told.candidates["stacked"])


def test_stacking_reads_what_is_systematically_confused():
    own, joint, y = classes(n=3000)
    swapped = {m: p[:, [1, 2, 3, 0]] for m, p in own.items()}
    told = interaction_gain(swapped, joint, y)
    assert told.combination == "stacked"
    assert told.log_loss.value < 0.03


# Fitting


def test_labels_of_held_out_examples_are_not_read():
    """Unimodal models that know nothing, and a fusion that knows nothing: no gain, whichever way the labels fell."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(20):
        y = rng.integers(0, 2, 60)
        gains.append(interaction_gain({"a": rng.normal(size=60)}, rng.normal(size=60), y))
    assert np.mean([g.fusion_log_loss.value for g in gains]) > math.log(2)  # fitting noise costs, held out
    assert np.mean([g.fusion_accuracy.value for g in gains]) < 0.55


def test_a_calibration_part_is_what_is_fitted_on():
    own, joint, y = xor()
    spoilt = (own, joint, 1 - y)
    told = interaction_gain(own, joint, y, calibration=spoilt)
    assert told.fusion_accuracy.value == pytest.approx(0.5, abs=0.05)  # it believed that the fusion is good for nothing
    good = interaction_gain(own, joint, y, calibration=xor(seed=1))
    assert good.fusion_accuracy.value == pytest.approx(0.95, abs=0.02)
    assert good.log_loss.n == N


def test_a_class_that_calibration_never_saw_costs_a_finite_loss():
    own, joint, y = classes(k=3)
    seen = y < 2
    part = ({m: p[seen] for m, p in own.items()}, joint[seen], y[seen])
    told = interaction_gain(own, joint, y, calibration=part)
    assert told.fusion_log_loss.value < 10


def test_the_seed_decides_folds_and_interval():
    case = classes(n=200)
    assert interaction_gain(*case) == interaction_gain(*case)
    assert interaction_gain(*case) != interaction_gain(*case, seed=1)


# Forms of predictions


def test_all_forms_of_a_binary_prediction_are_one():
    x = np.random.default_rng(0).normal(size=50)
    p = expit(x)
    expected = np.stack([np.log(1 - p), np.log(p)], 1)
    two = np.stack([np.full(50, 7.0), x + 7], 1)
    for form in (x, x[:, None], two, torch.from_numpy(x).requires_grad_()):
        assert log_probabilities(form, "logits", "a") == pytest.approx(expected)
    for form in (p, p[:, None], np.stack([1 - p, p], 1)):
        assert log_probabilities(form, "probabilities", "a") == pytest.approx(expected)


def test_forms_may_be_mixed_and_probabilities_give_the_same_gain():
    own, joint, y = copies(n=300)
    mixed = {"a": own["a"][:, None], "b": np.stack([0 * own["b"], own["b"]], 1)}
    plain = interaction_gain(own, joint, y)
    assert interaction_gain(mixed, torch.from_numpy(joint), y).log_loss == plain.log_loss
    told = interaction_gain({m: expit(x) for m, x in own.items()}, expit(joint), y, given="probabilities")
    assert told.log_loss.value == pytest.approx(plain.log_loss.value, abs=1e-5)


def test_certain_probabilities_are_taken_and_class_probabilities_too():
    own, joint, y = classes(k=3, n=300)
    certain = np.eye(3)[joint.argmax(1)]
    told = interaction_gain({m: np.exp(log_softmax(x, 1)) for m, x in own.items()}, certain, y, given="probabilities")
    assert np.isfinite(told.fusion_log_loss.value)
    assert told.fusion_accuracy.value == pytest.approx((joint.argmax(1) == y).mean())


# Mistakes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"unimodal": {}}, "at least one modality; got none"),
        ({"unimodal": [np.zeros(100)]}, "unimodal must be a dict of modality → predictions.*; got a list"),
        ({"calibration": (np.zeros(100), np.zeros(100))}, r"three parts, \(unimodal, fusion, target\); got 2 parts"),
        ({"calibration": {"a": 0, "b": 1, "c": 2}}, "three parts.*; got dict"),
        ({"calibration": ([np.zeros(100)], np.zeros(100), np.arange(100) % 2)}, "unimodal must be a dict of .*; got a"),
        ({"target": np.zeros(100, dtype=int)}, "at least 2 classes"),
        ({"target": np.arange(100) % 3}, "Labels must be classes 0 to 1, as predicted; got 0 to 2"),
        ({"target": np.arange(99) % 2}, r"one row for each of 99 labels.*got .*\(100, 2\)"),
        ({"fusion": np.zeros((100, 3))}, r"the same classes; got .*\(100, 2\), \(100, 3\)"),
        ({"fusion": np.zeros((100, 2, 2))}, r"fusion must be finite predictions.*got shape \(100, 2, 2\)\."),
        ({"fusion": np.full(100, np.nan)}, r"got shape \(100,\) with NaN or infinite values"),
        ({"given": "odds"}, "'logits' or 'probabilities'; got 'odds'"),
        ({"given": "probabilities"}, r"unimodal\['a'\] does not hold probabilities: pass given='logits'"),
        ({"folds": 1}, "between 2 and half the number of examples, 50; got 1"),
        ({"folds": 51}, "got 51"),
        ({"calibration": ({"a": np.zeros(100)}, np.zeros(100), np.arange(100) % 2)}, "got a with 2 classes, expected"),
    ],
)
def test_a_mistake_gets_one_sentence(change, says):
    own, joint, y = copies(n=100)
    with pytest.raises(ValueError, match=says):
        interaction_gain(**{"unimodal": own, "fusion": joint, "target": y, **change})


def grouped(n=400, groups=40, seed=0):
    """Two unimodal scores, a fusion that adds something, and groups whose members share their luck."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    group = np.arange(n) % groups
    luck = rng.normal(0, 1.0, groups)[group]
    own = {name: (2 * y - 1) * 0.5 + rng.normal(0, 1, n) for name in ("a", "b")}
    fusion = own["a"] + own["b"] + (2 * y - 1) * (0.5 + luck)
    return own, fusion, y, group


def test_with_groups_the_value_is_of_all_examples_and_the_interval_is_wider():
    own, fusion, y, group = grouped()
    plain = interaction_gain(own, fusion, y)
    by_group = interaction_gain(own, fusion, y, groups=group)
    assert by_group.log_loss.n == plain.log_loss.n == len(y)
    assert by_group.log_loss.value == pytest.approx(plain.log_loss.value, abs=0.02)  # other folds
    width = by_group.log_loss.high - by_group.log_loss.low
    assert width > 1.3 * (plain.log_loss.high - plain.log_loss.low)
