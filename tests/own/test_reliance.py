"""What predictions lose when a modality is another row's."""

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical, Gaussian
from synib.own.reliance import scores_without
from synib.tokens import optional

N = 200


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(N, 3, generator=g), "b": torch.randn(N, 2, generator=g)}


def test_a_model_that_uses_one_modality_loses_everything_without_it_and_nothing_without_the_other():
    x = data()
    target = (x["a"][:, 0] > 0).float()
    found = scores_without(lambda m: 9 * m["a"][:, :1], x, target, Bernoulli())
    assert found[""][0].mean() == 1
    assert found["a"][0].mean() == pytest.approx(0.5, abs=0.08)
    assert np.array_equal(found["b"], found[""])


def test_a_product_needs_both():
    x = data()
    target = (x["a"][:, 0] * x["b"][:, 0] > 0).float()
    found = scores_without(lambda m: 9 * m["a"][:, :1] * m["b"][:, :1], x, target, Bernoulli())
    assert found[""][0].mean() == 1
    assert all(found[name][0].mean() == pytest.approx(0.5, abs=0.08) for name in "ab")


def test_no_row_gets_its_own_and_every_row_is_used():
    seen = []

    def predict(m):
        seen.append(m["a"][:, 0].clone())
        return m["b"][:, :1]

    x = data() | {"a": torch.arange(N).float()[:, None]}
    scores_without(predict, x, torch.zeros(N), Bernoulli())
    swapped = [s for s in seen if not torch.equal(s, x["a"][:, 0])]
    assert len(swapped) == 4
    for one in swapped:
        assert not (one == x["a"][:, 0]).any()
        assert torch.equal(one.sort().values, x["a"][:, 0])
    assert not torch.equal(swapped[0], swapped[1])


def test_rows_that_lack_it_keep_lacking_it():
    present = torch.arange(N) % 4 != 0
    x = data() | {"a": optional(torch.arange(N).float()[:, None] + 1, present)}
    padding = []

    def predict(m):
        padding.append(m["a"].padding.clone())
        return m["a"].values[:, 0]

    found = scores_without(predict, x, torch.ones(N), Bernoulli())
    assert all(torch.equal(p, ~present[:, None]) for p in padding)
    (_, with_others), (_, intact), absent = found["a"], found[""], ~present.numpy()
    assert np.array_equal(with_others[absent], intact[absent])
    assert not np.array_equal(with_others[~absent], intact[~absent])


@pytest.mark.parametrize(
    ("parameters", "target", "family", "right", "confidence"),
    [
        ([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]], [1, 2], Categorical(), [1, 0], [np.exp(2) / (np.exp(2) + 2), 0.909443]),
        ([[2.0], [-1.0]], [1.0, 1.0], Bernoulli(), [1, 0], [0.880797, 0.731059]),
        ([[1.0, 0.0], [3.0, 0.0]], [[0.0], [3.0]], Gaussian(), [-1, 0], [0, 0]),
    ],
)
def test_scores_of_classes_and_numbers(parameters, target, family, right, confidence):
    found = scores_without(lambda m: torch.tensor(parameters), {}, torch.tensor(target), family)[""]
    assert found[0].tolist() == right
    assert found[1] == pytest.approx(confidence, abs=1e-5)
