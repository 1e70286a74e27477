"""The parity of n bits in n modalities."""

import itertools

import pytest
import torch

from synib.studies.spurious_xor.data import parity


@pytest.fixture(scope="module")
def three():
    return parity(3, 1.0, seed=1, train=8000, validation=40, test=8000)


def bits(split):
    return torch.stack([(x[:, :4].mean(1) > 0).long() for x in split.modalities.values()])


def test_three_modalities_are_there_with_1000_training_examples_by_default():
    data = parity(test=10)
    assert list(data.train.modalities) == ["x1", "x2", "x3"]
    assert [len(data.train), len(data.validation), len(data.test)] == [1000, 120, 10]
    assert data.widths == {"x1": 64, "x2": 64, "x3": 64}


@pytest.mark.parametrize("n", [2, 4])
def test_the_label_is_the_parity_of_the_bits(n):
    data = parity(n, 0.5, train=200, validation=20, test=200)
    assert len(data.train.modalities) == n
    for split in (data.train, data.validation, data.test):
        assert torch.equal(bits(split).sum(0) % 2, split.target)


def test_no_proper_subset_of_the_modalities_says_anything_about_the_label(three):
    shown, label = 2.0 * bits(three.train) - 1.0, 2.0 * three.train.target - 1.0
    for size in (1, 2):
        for chosen in itertools.combinations(range(3), size):
            product = shown[list(chosen)].prod(0)
            assert abs((product * label).mean().item()) < 0.05
    assert abs((shown.prod(0) * label).mean().item()) == pytest.approx(1.0)


def test_the_shortcut_is_in_the_first_modality_only(three):
    label = (2.0 * three.train.target - 1.0)[:, None]
    assert torch.allclose(three.train.modalities["x1"][:, 4:10], 1.3 * label.expand(-1, 6))
    for name in ("x2", "x3"):
        assert (three.train.modalities[name][:, 4:] * label).mean(0).abs().max() < 0.06
    assert "shortcut" in three.blocks["x1"]
    assert all("shortcut" not in three.blocks[name] for name in ("x2", "x3"))


def test_the_shortcut_is_gone_at_test(three):
    label = (2.0 * three.test.target - 1.0)[:, None]
    assert (three.test.modalities["x1"][:, 4:10] * label).mean(0).abs().max() < 0.06


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"modalities": 1}, "modalities is a whole number of at least 2; got 1"),
        ({"beta": -0.1}, "at least 0; got -0.1"),
        ({"beta": float("inf")}, "finite.*got inf"),
        ({"train": 0}, "train=0"),
        ({"test_shortcut": "none"}, "'independent' or 'constant'; got 'none'"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        parity(**({"train": 4, "validation": 4, "test": 4} | arguments))
