import pytest
import torch

from synib import HideTokens, LearnedMask, RandomMask, ShuffledNoise, StandardNoise, SynIB, Tokens
from synib.models import affect_model
from synib.models.affect import SequenceEncoder

WIDTHS = {"vision": 4, "text": 3}
SMALL = {"width": 10, "layers": 2, "heads": 5, "feedforward": 8, "fusion_hidden": 6}


def batch(rows=6, steps=5):
    padding = torch.arange(steps) >= 1 + torch.arange(rows)[:, None] % steps
    return {name: Tokens(torch.randn(rows, steps, n), padding) for name, n in WIDTHS.items()}, torch.arange(rows) % 2


def small(**settings):
    return affect_model(WIDTHS, **SMALL | {"dropout": 0.0} | settings)


def test_its_shapes_are_multibenchs():
    model = affect_model({"vision": 20, "text": 300})
    encoder = model.encoders["text"]
    assert encoder.map.weight.shape == (40, 300)
    assert len(encoder.layers) == 5
    assert {(layer.heads, layer.up.out_features, layer.dropout) for layer in encoder.layers} == {(5, 2048, 0.1)}
    assert [s.weight.shape for s in model.fusion.slices.values()] == [(64, 40), (64, 40)]
    assert [type(m).__name__ for m in model.fusion.rest] == ["ReLU", "Dropout", "Linear"]
    assert model.fusion.rest[-1].weight.shape == (2, 64)


@pytest.mark.parametrize("pool", ["first", "mean"])
def test_a_sequence_becomes_one_vector_and_a_prediction(pool):
    model = small(pool=pool, classes=3)
    x, _ = batch()
    assert {name: z.shape for name, z in model.encode_all(x).items()} == dict.fromkeys(WIDTHS, (6, 10))
    assert model(x).shape == (6, 3)
    assert {p.shape for p in model.unimodal(x).values()} == {(6, 3)}


@pytest.mark.parametrize("pool", ["first", "mean"])
def test_padding_does_not_matter_neither_its_numbers_nor_how_much_there_is(pool):
    encoder = SequenceEncoder(4, 10, 2, 5, 8, 0.0, pool)
    x = batch()[0]["vision"]
    other = Tokens(torch.where(x.padding[..., None], torch.nan, x.values), x.padding)
    longer = Tokens(
        torch.cat([x.values, torch.randn(6, 2, 4)], 1), torch.nn.functional.pad(x.padding, (0, 2), value=True)
    )
    for same in (other, longer):
        torch.testing.assert_close(encoder(same), encoder(x))


@pytest.mark.parametrize("pool", ["first", "mean"])
def test_hidden_steps_say_nothing(pool):
    encoder = SequenceEncoder(4, 10, 2, 5, 8, 0.0, pool)
    x, other = torch.randn(2, 3, 5, 4)
    hidden = torch.tensor([[1, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]]).bool()
    mixed = torch.where(hidden[..., None], other, x)
    torch.testing.assert_close(encoder(Tokens(x, hidden)), encoder(Tokens(mixed, hidden)))
    assert not torch.allclose(encoder(Tokens(x, hidden))[0], encoder(Tokens(x, torch.zeros_like(hidden)))[0])


def test_a_tensor_is_a_sequence_without_padding():
    encoder = SequenceEncoder(4, 10, 1, 5, 8, 0.0)
    x = torch.randn(3, 5, 4)
    assert torch.equal(encoder(x), encoder(Tokens(x, torch.zeros(3, 5, dtype=torch.bool))))


@pytest.mark.parametrize(
    ("mask", "noise"),
    [
        (RandomMask(0.5), StandardNoise()),
        (RandomMask(0.5, over="tokens"), HideTokens()),
        (RandomMask(1.0), ShuffledNoise()),
        (LearnedMask(steps=2), StandardNoise()),
    ],
    ids=["coordinates", "hidden", "swapped", "learned"],
)
def test_the_shared_pass_is_separate_ones(key, mask, noise, separate_passes):
    model = small()
    x, y = batch()
    gradients = []
    for given in (model, separate_passes(model)):
        model.zero_grad()
        SynIB(mask, noise, draws=1)(given, x, y, key=key)[0].backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    assert all(g.isfinite().all() for g in gradients[0].values())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_wrong_settings_and_batches_are_one_sentence():
    with pytest.raises(ValueError, match=r"pool must be 'first' or 'mean'; got 'last'\."):
        small(pool="last")
    with pytest.raises(ValueError, match=r"heads must divide the width of a token, 10; got 3\."):
        small(heads=3)
    with pytest.raises(ValueError, match=r"This encoder expects steps of width 4; got 3\."):
        small().encoders["vision"](torch.randn(2, 5, 3))
