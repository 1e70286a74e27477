"""Products of two modalities' numbers: found from few examples, and not where there are none."""

import numpy as np
import pytest
import torch

from synib.measure import product_gain


def drawn(evidence, n=600, width=8, seed=0):
    """Two modalities of noise, unimodal models that know nothing, and labels of this evidence for each example."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n, width))
    y = (rng.random(n) < 1 / (1 + np.exp(-evidence(a, b)))).astype(int)
    return {m: rng.normal(0, 0.1, n) for m in "ab"}, {"a": a, "b": b}, y


def product(a, b):
    return 2.0 * np.sign(a[:, 0] * b[:, 0])


def nothing(a, b):
    return np.zeros(len(a))


# What it says


def test_a_noisy_product_is_found_among_many_numbers():
    told = product_gain(*drawn(product))
    assert told.log_loss.value > 0.1
    assert told.log_loss.low > 0.02  # one row in 600 loses 12 nats, and another sample might hold more of them
    assert told.accuracy.low > 0.1
    assert told.additive_accuracy.low < 0.55


def test_it_is_found_beside_what_each_tells_alone():
    own, modalities, y = drawn(lambda a, b: product(a, b) + 2 * a[:, 1] + b[:, 1], 1500)
    own = {name: x[:, 1] * (2 if name == "a" else 1) for name, x in modalities.items()}
    told = product_gain(own, modalities, y)
    assert told.log_loss.low > 0.02
    assert told.additive_accuracy.value > 0.65


def test_where_nothing_tells_it_seldom_claims_anything():
    told = [product_gain(*drawn(nothing, 300, 4, seed)) for seed in range(20)]
    assert sum(t.log_loss.low > 0 and t.accuracy.low > 0 for t in told) <= 1
    assert np.mean([t.log_loss.value for t in told]) < 0


def test_the_square_of_what_both_hold_is_no_product_of_two():
    def square(a, b):
        b[:, 0] = a[:, 0]
        return 1.5 * (a[:, 0] ** 2 - 1)

    told = product_gain(*drawn(square))
    assert told.log_loss.value < 0.005  # over a combination that has the square of one
    assert told.additive_accuracy.low > 0.6


def test_more_classes_and_more_modalities():
    rng = np.random.default_rng(0)
    x = {name: rng.normal(size=(800, 5)) for name in "abc"}
    y = 2 * (x["a"][:, 1] * x["c"][:, 1] > 0) + (x["b"][:, 2] > 0)
    own = {name: np.eye(4)[y % 2] + np.eye(4)[y % 2 + 2] if name == "b" else np.zeros((800, 4)) for name in "abc"}
    told = product_gain(own, x, y)
    assert told.accuracy.low > 0.25
    assert told.additive_accuracy.high < 0.6


def test_a_modality_may_be_turned_and_scaled_and_hold_constant_columns():
    own, modalities, y = drawn(product)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    other = {"a": 1e3 * modalities["a"] @ turn + 5e4, "b": np.column_stack([modalities["b"], np.full(600, 0.1)])}
    first, second = product_gain(own, modalities, y), product_gain(own, other, y)
    assert second.log_loss.value == pytest.approx(first.log_loss.value, abs=0.02)


def test_tensors_and_more_numbers_than_examples_are_fine():
    own, modalities, y = drawn(nothing, 120, 300)
    told = product_gain(own, {name: torch.from_numpy(x).float() for name, x in modalities.items()}, torch.from_numpy(y))
    assert told.log_loss.n == 120
    assert np.isfinite(told.log_loss.value)


def test_groups_are_kept_together_and_intervals_are_over_groups():
    own, modalities, y = drawn(product)
    group = np.arange(600) // 60
    told = product_gain(own, modalities, y, groups=group)
    assert told.log_loss.low > 0
    assert told.log_loss.n == 600
    with pytest.raises(ValueError, match="at least 3 of them; got 2"):
        product_gain(own, modalities, y, groups=np.arange(600) // 300)


# Mistakes


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"modalities": {"a": np.zeros((60, 2))}}, "at least 2 modalities"),
        ({"modalities": [np.zeros((60, 2))] * 2}, "at least 2 modalities"),
        (
            {"modalities": {"a": np.zeros((60, 2)), "b": np.zeros(60)}},
            r"b must be finite numbers of shape \(60, width\).*got",
        ),
        ({"modalities": {"a": np.zeros((60, 2)), "b": np.zeros((59, 2))}}, r"b must be finite numbers .*got \(59, 2\)"),
        ({"modalities": {"a": np.zeros((60, 2)), "b": np.full((60, 2), np.nan)}}, "b must be finite numbers"),
        ({"folds": 2}, "folds must be a whole number between 3 and half the number of examples, 30; got 2"),
        ({"given": "odds"}, "given must be 'logits' or 'probabilities'; got 'odds'"),
        ({"unimodal": {}}, "at least one modality"),
        ({"target": np.zeros(60, dtype=int)}, "at least 2 classes"),
    ],
)
def test_a_mistake_gets_a_sentence(change, sentence):
    own, modalities, y = drawn(nothing, 60, 2)
    given = {"unimodal": own, "modalities": modalities, "target": y} | change
    with pytest.raises(ValueError, match=sentence):
        product_gain(**given)
