"""What holds for all data sets that are drawn at random: PID-XOR, Spurious XOR, parity, pairs of digits."""

import pytest
import torch

from synib.studies.digits.data import digits
from synib.studies.pid_xor.data import pid_xor
from synib.studies.spurious_xor.data import parity, spurious_xor

SMALL = {"train": 50, "validation": 40, "test": 60}


@pytest.fixture(params=[pid_xor, spurious_xor, parity, digits])
def draw(request, digits_root):
    """``draw(**arguments)`` → a small data set."""
    files = {"root": digits_root} if request.param is digits else {}
    return lambda **arguments: request.param(**{**files, **SMALL, **arguments})


def splits(data):
    return data.train, data.validation, data.test


def test_a_seed_gives_the_same_data_again_another_seed_other_data_and_torchs_generator_has_no_part(draw):
    state = torch.get_rng_state()
    first = draw(seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    for a, b, c in zip(splits(first), splits(draw(seed=1)), splits(draw(seed=2)), strict=True):
        assert torch.equal(a.target, b.target)
        for name, x in a.modalities.items():
            assert torch.equal(x, b.modalities[name])
            assert not torch.equal(x, c.modalities[name])
    x, y, z = (next(iter(split.modalities.values()))[:40] for split in splits(first))
    assert not any(torch.equal(*pair) for pair in ((x, y), (x, z), (y, z)))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (pid_xor, {"p_u1": 0.5, "p_u2": 0.5}, "non-negative and sum to 1; got"),
        (pid_xor, {"p_u1": -0.5, "p_u2": 0.95}, "non-negative and sum to 1; got"),
        (pid_xor, {"p_u1": float("nan")}, "non-negative and sum to 1; got"),
        (parity, {"beta": float("inf")}, "finite.*got inf"),
        (parity, {"train": 0}, "train=0"),
        (parity, {"test_shortcut": "none"}, "'independent' or 'constant'; got 'none'"),
        (digits, {"mixture": (0.5, 0.2, 0.2, 0.2)}, "A mixture .* sum to 1; got"),
        (digits, {"mixture": (1.5, -0.5, 0.0, 0.0)}, "A mixture .* non-negative"),
        (digits, {"mixture": (0.5, None, 0.0, 0.5)}, "A mixture .* sum to 1; got"),
        (digits, {"mixture": 1.0}, "A mixture .* sum to 1; got 1.0"),
    ],
)
def test_an_invalid_argument_is_named_with_what_was_expected(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**{**SMALL, **arguments})
