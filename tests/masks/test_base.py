import pytest
import torch
from torch import nn

from synib import Tokens
from synib.masks.base import mask_shape, undisturbed


@pytest.mark.parametrize(
    ("over", "shape"),
    [("coordinates", (2, 5, 4, 3)), ("tokens", (2, 5, 1, 1)), ("modality", (2, 1, 1, 1))],
)
def test_a_mask_has_one_entry_for_what_is_corrupted_together(over, shape):
    x = torch.zeros(2, 5, 4, 3)
    assert mask_shape(x, over) == shape
    assert mask_shape(x, over, draws=3) == (6, *shape[1:])


def test_the_shape_over_tokens_is_that_of_their_values():
    assert mask_shape(Tokens(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.bool)), "tokens") == (2, 5, 1)


def test_vectors_have_no_tokens():
    with pytest.raises(ValueError, match=r"over tokens needs .* at least 3 dimensions; got \(2, 5\)"):
        mask_shape(torch.zeros(2, 5), "tokens")


def modes(module):
    return [m.training for m in module.modules()]


def test_modules_left_undisturbed_get_their_modes_back_even_after_an_error():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2).eval()))
    before = modes(module)
    with undisturbed([module]):
        assert not any(modes(module))
    assert modes(module) == before
    with pytest.raises(KeyError), undisturbed([module]):
        raise KeyError
    assert modes(module) == before


def test_recurrent_layers_keep_their_mode_because_cudnn_needs_it():
    module = nn.Sequential(nn.GRU(2, 2), nn.Dropout(0.5))
    with undisturbed([module]):
        assert module[0].training
        assert not module[1].training
