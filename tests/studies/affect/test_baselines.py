"""Baselines of the affect experiments that need no network."""

import pytest
import torch

from synib.studies.affect.baselines import macro_f1, one_hot


def test_a_value_that_training_does_not_have_is_all_zeros():
    first, second = one_hot([[("a", 24), ("b", 25)], [("c", 24), ("a", 30)]])
    assert first.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert second.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]


def test_macro_f1_is_the_mean_over_both_classes():
    assert macro_f1(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])) == pytest.approx((4 / 5 + 2 / 3) / 2)
