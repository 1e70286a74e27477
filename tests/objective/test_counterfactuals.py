from collections import Counter

import pytest
import torch

from synib import keys
from synib.objective.counterfactuals import deal, kinds


def labels(found):
    return [kind.label for kind in found]


def test_each_modality_alone_or_every_proper_subset_in_an_order_of_their_own():
    assert labels(kinds(["b", "a"], "each")) == ["a", "b"]
    assert labels(kinds(["a", "b"], "proper")) == ["a", "b"]
    assert labels(kinds(["c", "a", "b"], "proper")) == ["a", "b", "c", "a+b", "a+c", "b+c"]
    assert len(kinds(["a", "b", "c", "d"], "proper")) == 2**4 - 2


def test_only_the_modalities_named_are_corrupted():
    assert labels(kinds(["a", "b", "c"], "each", ["c", "a"])) == ["a", "c"]
    assert labels(kinds(["a", "b", "c"], "proper", ["c", "a"])) == ["a", "c", "a+c"]


def test_whoever_is_to_meet_all_of_them_does(key):
    for sample in (3, 9):
        assert all(kind.rows is None for kind in deal(kinds(["a", "b", "c"], "each"), sample, 8, key))


@pytest.mark.parametrize("subsets", ["each", "proper"])
@pytest.mark.parametrize("batch", [1, 2, 5, 12, 13])
@pytest.mark.parametrize("sample", [1, 2])
def test_every_example_meets_exactly_as_many_as_it_should(subsets, batch, sample, key):
    met = Counter()
    for kind in deal(kinds(["a", "b", "c"], subsets), sample, batch, key):
        rows = kind.rows.tolist()
        assert len(set(rows)) == len(rows)
        met.update(rows)
    assert met == dict.fromkeys(range(batch), sample)


def test_examples_are_dealt_out_evenly_and_afresh_for_each_key(key):
    found = kinds(["a", "b", "c"], "each")
    assert [len(kind.rows) for kind in deal(found, 1, 12, key)] == [4, 4, 4]
    counts = torch.zeros(6)
    for k in keys.split(key, 600):
        counts[deal(found, 1, 6, k)[0].rows] += 1
    assert (counts / 600 - 1 / 3).abs().max() < 0.06
