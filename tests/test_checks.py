"""Checks of settings: the value comes back, or one sentence does."""

import numpy as np
import pytest
import torch

from synib import Categorical, Gaussian, LearnedMask, LinearWarmup, Mask, RandomMask, ShuffledNoise
from synib.checks import (
    check_flag,
    check_kind,
    check_modality,
    check_number,
    check_tensor,
    check_whole,
    check_widths,
    shown,
)
from synib.methods import OGM

BOUNDS = [
    ({}, "lr must be a number", []),
    ({"least": 0}, "lr must be a number of at least 0", [-1]),
    ({"above": 0}, "lr must be a number above 0", [0]),
    ({"least": 0, "below": 2}, "lr must be a number of at least 0 and below 2", [-1, 2]),
    ({"least": 0, "most": 1}, "lr must be between 0 and 1", [-0.1, 2]),
]


@pytest.mark.parametrize(("bounds", "said", "outside"), BOUNDS)
def test_a_finite_number_within_its_bounds_comes_back_and_nothing_else_does(bounds, said, outside):
    for value in (1, 0.5, np.float32(0.25), np.int64(1)):
        assert check_number("lr", value, **bounds) is value
    for value in (None, "0.5", True, [0.5], float("nan"), float("inf"), torch.tensor(0.5), *outside):
        with pytest.raises(ValueError) as refused:
            check_number("lr", value, **bounds)
        assert str(refused.value) == f"{said}; got {shown(value)}."


def test_a_whole_number_comes_back_and_nothing_else_does():
    assert check_whole("draws", np.int64(3)) == 3
    assert check_whole("seed", -3, None) == -3
    for value in (1.0, "1", None, True, 0):
        with pytest.raises(ValueError, match=f"draws must be a whole number of at least 1; got {value!r}"):
            check_whole("draws", value)
    with pytest.raises(ValueError, match=r"seed must be a whole number; got 0\.5"):
        check_whole("seed", 0.5, None)


def test_a_flag_is_true_or_false():
    assert check_flag("debias", True) is True
    assert check_flag("fused", None, none=True) is None
    with pytest.raises(ValueError, match="debias must be True or False; got None"):
        check_flag("debias", None)
    with pytest.raises(ValueError, match="fused must be True, False or None; got 1"):
        check_flag("fused", 1, none=True)


def test_an_object_of_its_kind_comes_back_and_a_class_is_told_to_be_called():
    mask = RandomMask()
    assert check_kind("mask", mask, Mask, "RandomMask(0.5)") is mask
    for given, said in [
        ("random", r"mask must be a Mask such as RandomMask\(0.5\); got 'random'\."),
        (RandomMask, r"; got the class RandomMask: write RandomMask\(\.\.\.\)\."),
        (ShuffledNoise, r"; got the class ShuffledNoise\."),
    ]:
        with pytest.raises(ValueError, match=said):
            check_kind("mask", given, Mask, "RandomMask(0.5)")


def test_a_tensor_comes_back_and_what_can_be_one_is_told_how():
    tensor = torch.zeros(2)
    assert check_tensor("The target", tensor) is tensor
    with pytest.raises(
        ValueError, match=r"The target must be a tensor; got list: convert it with torch.as_tensor\(target\)"
    ):
        check_tensor("The target", [1, 2])
    with pytest.raises(ValueError, match=r"The target must be a tensor; got NoneType\."):
        check_tensor("The target", None)


@pytest.mark.parametrize("name", ["", "a.b", 0, None])
def test_a_modality_has_a_name_without_dots(name):
    with pytest.raises(ValueError, match=f"must be a string without a dot; got {name!r}"):
        check_modality(name)


@pytest.mark.parametrize("name", ["type", "keys", "training"])
def test_a_name_that_torch_needs_is_refused_for_modules_only(name):
    assert check_modality(name) == name
    with pytest.raises(ValueError, match=f"A modality cannot be called {name!r}"):
        check_modality(name, module=True)


def test_widths_are_whole_numbers_by_modality():
    assert check_widths("widths", {"image": 3}) == {"image": 3}
    with pytest.raises(ValueError, match=r"widths must be a dict of modality → width, .*; got \[3, 2\]"):
        check_widths("widths", [3, 2])
    with pytest.raises(
        ValueError, match=r"The width of 'image' must be a whole number of at least 1; got \(3, 32, 32\)"
    ):
        check_widths("widths", {"image": (3, 32, 32)})


def test_a_long_value_is_shown_on_one_short_line():
    assert len(shown(torch.zeros(50, 50))) == 60
    assert "\n" not in shown(torch.zeros(3, 3))
    assert shown(test_a_long_value_is_shown_on_one_short_line).startswith("the function test_a_long")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (RandomMask(0.4), "RandomMask(p=0.4)"),
        (LearnedMask(sparsity=0.03, over="tokens"), "LearnedMask(sparsity=0.03, over='tokens')"),
        (Gaussian(), "Gaussian()"),
        (Gaussian(2, "full"), "Gaussian(dim=2, covariance='full')"),
        (Categorical([1.0, 2.5]), "Categorical(weight=[1.0, 2.5])"),
        (LinearWarmup(2.0, 5), "LinearWarmup(weight=2.0, steps=5)"),
        (OGM(stop=3), "OGM(stop=3, family=Categorical())"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_object_shows_the_settings_that_differ_from_its_defaults(made, said):
    assert repr(made) == said
