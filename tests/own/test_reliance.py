"""What answers lose when a modality is another row's."""

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical, Gaussian
from synib.own.reliance import quality, without
from synib.tokens import optional

N = 200


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(N, 3, generator=g), "b": torch.randn(N, 2, generator=g)}


def test_a_model_that_looks_at_one_modality_loses_everything_without_it_and_nothing_without_the_other():
    x = data()
    target = (x["a"][:, 0] > 0).float()
    found = without(lambda m: 9 * m["a"][:, :1], x, target, Bernoulli())
    assert found[""].right.mean() == 1
    assert found["a"].right.mean() == pytest.approx(0.5, abs=0.08)
    assert np.array_equal(found["b"].right, found[""].right)
    assert np.array_equal(found["b"].confidence, found[""].confidence)


def test_a_product_needs_both():
    x = data()
    target = (x["a"][:, 0] * x["b"][:, 0] > 0).float()
    found = without(lambda m: 9 * m["a"][:, :1] * m["b"][:, :1], x, target, Bernoulli())
    assert found[""].right.mean() == 1
    assert all(found[name].right.mean() == pytest.approx(0.5, abs=0.08) for name in "ab")


def test_nobody_gets_its_own_row_and_every_row_is_used():
    seen = []

    def predict(m):
        seen.append(m["a"][:, 0].clone())
        return m["b"][:, :1]

    x = data() | {"a": torch.arange(N).float()[:, None]}
    without(predict, x, torch.zeros(N), Bernoulli())
    swapped = [s for s in seen if not torch.equal(s, x["a"][:, 0])]
    assert len(swapped) == 4
    for one in swapped:
        assert not (one == x["a"][:, 0]).any()
        assert torch.equal(one.sort().values, x["a"][:, 0])
    assert not torch.equal(swapped[0], swapped[1])


def test_rows_that_lack_it_keep_lacking_it():
    there = torch.arange(N) % 4 != 0
    x = data()
    x["a"] = optional(torch.arange(N).float()[:, None] + 1, there)
    padding = []

    def predict(m):
        padding.append(m["a"].padding.clone())
        return m["a"].values[:, 0]

    found = without(predict, x, torch.ones(N), Bernoulli())
    assert all(torch.equal(p, ~there[:, None]) for p in padding)
    absent = ~there.numpy()
    assert np.array_equal(found["a"].confidence[absent], found[""].confidence[absent])
    assert not np.array_equal(found["a"].confidence[~absent], found[""].confidence[~absent])


def test_quality_of_classes_and_numbers():
    said = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    q = quality(said, torch.tensor([1, 2]), Categorical())
    assert q.right.tolist() == [1, 0]
    assert q.confidence == pytest.approx(said.double().softmax(1).max(1).values.numpy())
    one = quality(torch.tensor([[2.0], [-1.0]]), torch.tensor([1.0, 1.0]), Bernoulli())
    assert one.right.tolist() == [1, 0]
    assert one.confidence == pytest.approx(torch.tensor([2.0, 1.0]).sigmoid().numpy(), abs=1e-6)
    number = quality(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0], [3.0]]), Gaussian())
    assert number.right.tolist() == [-1, 0]
    assert number.confidence.tolist() == [0, 0]
