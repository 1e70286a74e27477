import pytest
import torch
from torch import nn

from synib import Mask, Tokens
from synib.masks.base import check_over, mask_shape, undisturbed


@pytest.mark.parametrize(
    ("over", "shape"),
    [("coordinates", (2, 5, 4, 3)), ("tokens", (2, 5, 1, 1)), ("channels", (2, 5, 1, 1)), ("modality", (2, 1, 1, 1))],
)
def test_a_mask_has_one_entry_for_what_is_corrupted_together(over, shape):
    x = torch.zeros(2, 5, 4, 3)
    assert mask_shape(x, over) == shape
    assert mask_shape(x, over, draws=3) == (6, *shape[1:])


def test_the_shape_over_tokens_is_that_of_their_values():
    assert mask_shape(Tokens(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.bool)), "tokens") == (2, 5, 1)


@pytest.mark.parametrize("over", ["tokens", "channels"])
def test_vectors_have_no_tokens_or_channels(over):
    with pytest.raises(ValueError, match=rf"over {over} needs .* at least 3 dimensions; got \(2, 5\)"):
        mask_shape(torch.zeros(2, 5), over)


def test_an_unknown_granularity_is_refused():
    with pytest.raises(ValueError, match=r"coordinates, tokens, channels, modality; got over='pixels'"):
        check_over("pixels")


def test_a_mask_must_define_its_forward(key, probe):
    with pytest.raises(NotImplementedError, match="Mask must define forward"):
        Mask()(torch.zeros(2, 3), key, probe)
    assert Mask().loss(torch.zeros(2, 3), key, probe) is None


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
