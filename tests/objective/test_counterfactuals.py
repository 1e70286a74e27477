from collections import Counter

import pytest
import torch

from synib import keys
from synib.objective.counterfactuals import plan


def labels(scenes):
    return [scene.label for scene in scenes]


def test_each_modality_alone_or_every_proper_subset(key):
    assert labels(plan(["b", "a"], "each", None, 8, key)) == ["a", "b"]
    assert labels(plan(["a", "b"], "proper", None, 8, key)) == ["a", "b"]
    assert labels(plan(["c", "a", "b"], "proper", None, 8, key)) == ["a", "b", "c", "a+b", "a+c", "b+c"]
    assert len(plan(["a", "b", "c", "d"], "proper", None, 8, key)) == 2**4 - 2


def test_without_sampling_every_counterfactual_has_all_rows(key):
    for sample in (None, 3, 9):
        assert all(scene.rows is None for scene in plan(["a", "b", "c"], "each", sample, 8, key))


@pytest.mark.parametrize("subsets", ["each", "proper"])
@pytest.mark.parametrize("batch", [1, 2, 5, 12, 13])
@pytest.mark.parametrize("sample", [1, 2])
def test_every_example_meets_exactly_as_many_as_were_asked_for(subsets, batch, sample, key):
    scenes = plan(["a", "b", "c"], subsets, sample, batch, key)
    met = Counter()
    for scene in scenes:
        rows = scene.rows.tolist()
        assert len(set(rows)) == len(rows)
        met.update(rows)
    assert met == dict.fromkeys(range(batch), sample)


def test_examples_are_dealt_out_evenly_and_afresh_for_each_key():
    sizes = [len(scene.rows) for scene in plan(["a", "b", "c"], "each", 1, 12, keys.key(0))]
    assert sizes == [4, 4, 4]
    first, second = (plan(["a", "b", "c"], "each", 1, 12, keys.key(seed))[0].rows for seed in (0, 1))
    assert not torch.equal(first, second)


def test_every_example_meets_every_counterfactual_equally_often(key):
    counts = torch.zeros(6)
    for k in keys.split(key, 600):
        counts[plan(["a", "b", "c"], "each", 1, 6, k)[0].rows] += 1
    assert (counts / 600 - 1 / 3).abs().max() < 0.06


def test_the_order_of_the_modalities_does_not_matter(key):
    first, second = plan(["a", "b", "c"], "proper", 1, 12, key), plan(["c", "a", "b"], "proper", 1, 12, key)
    assert labels(first) == labels(second)
    assert all(torch.equal(a.rows, b.rows) for a, b in zip(first, second, strict=True))
