import pytest
import torch
from torch import nn

from synib.models.transformer import TransformerLayer


def batch(rows=4, tokens=7, width=6):
    padding = torch.arange(tokens) >= torch.tensor([7, 3, 1, 5])[:rows, None]
    return torch.randn(rows, tokens, width), padding


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_it_is_torchs_layer(keyed, norm_first):
    ours = TransformerLayer(6, 3, 10, norm_first=norm_first, keyed=keyed)
    theirs = nn.TransformerEncoderLayer(6, 3, 10, dropout=0.0, batch_first=True, norm_first=norm_first)
    pairs = {
        theirs.self_attn.in_proj_weight: ours.qkv.weight,
        theirs.self_attn.in_proj_bias: ours.qkv.bias,
        theirs.self_attn.out_proj.weight: ours.out.weight,
        theirs.self_attn.out_proj.bias: ours.out.bias,
        theirs.linear1.weight: ours.up.weight,
        theirs.linear1.bias: ours.up.bias,
        theirs.linear2.weight: ours.down.weight,
        theirs.linear2.bias: ours.down.bias,
    }
    with torch.no_grad():
        for their, our in pairs.items():
            their.copy_(our)
    x, padding = batch()
    there = ~padding
    torch.testing.assert_close(ours(x, padding)[there], theirs(x, src_key_padding_mask=padding)[there])


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_few_queries_are_the_first_of_all(keyed, norm_first):
    layer = TransformerLayer(6, 2, 10, norm_first=norm_first, keyed=keyed)
    x, padding = batch()
    torch.testing.assert_close(layer(x, padding, queries=2), layer(x, padding)[:, :2])


@pytest.mark.parametrize("keyed", [True, False])
def test_nobody_looks_at_padding(keyed):
    layer = TransformerLayer(6, 2, 10, keyed=keyed)
    x, padding = batch()
    other = torch.where(padding[..., None], 100.0, x)
    torch.testing.assert_close(layer(x, padding)[~padding], layer(other, padding)[~padding])


def test_where_all_is_padding_numbers_and_gradients_are_finite():
    layer = TransformerLayer(6, 2, 10, dropout=0.2)
    x = torch.randn(2, 3, 6, requires_grad=True)
    layer(x, torch.ones(2, 3, dtype=torch.bool)).sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("keyed", [True, False])
def test_it_drops_in_training_only(keyed):
    layer = TransformerLayer(6, 2, 10, dropout=0.5, keyed=keyed)
    x, padding = batch()
    assert not torch.equal(layer(x, padding), layer(x, padding))
    layer.eval()
    assert torch.equal(layer(x, padding), layer(x, padding))


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match=r"heads must divide the width of a token, 6; got 4\."):
        TransformerLayer(6, 4, 10)
