import pytest
import torch

from synib import RandomMask, Tokens

SHAPES = {"coordinates": (3000, 7), "tokens": (3000, 7, 1), "modality": (3000, 1)}
INPUTS = {
    "coordinates": torch.zeros(3000, 7),
    "tokens": Tokens(torch.zeros(3000, 7, 2), torch.zeros(3000, 7, dtype=torch.bool)),
    "modality": torch.zeros(3000, 7),
}


@pytest.mark.parametrize("over", SHAPES)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_each_entry_is_corrupted_with_probability_p(over, p, key, probe):
    mask = RandomMask(p, over=over)(INPUTS[over], key, probe)
    assert mask.dtype == torch.bool
    assert mask.shape == SHAPES[over]
    entries = mask.numel()
    assert mask.float().mean() == pytest.approx(p, abs=4 * (p * (1 - p) / entries) ** 0.5)
    columns = mask.float().flatten(1).mean(0)
    assert (columns - p).abs().max() < 0.04


@pytest.mark.parametrize("over", SHAPES)
@pytest.mark.parametrize(("p", "answer"), [(0.0, False), (1.0, True)])
def test_p_of_zero_and_one_need_no_draw(over, p, answer, key, probe):
    mask = RandomMask(p, over=over)
    assert (mask(INPUTS[over], key, probe) == answer).all()
    assert mask.whole is answer


def test_every_draw_has_its_own_mask(key, probe):
    mask = RandomMask(0.5)(torch.zeros(5, 7), key, probe, draws=3)
    first, second, third = mask.split(5)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)
