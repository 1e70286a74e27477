import pytest
import torch

from synib import Bernoulli, HideTokens, LearnedMask, RandomMask, ShuffledNoise, SynIB, Tokens
from synib.models import attention_model

SHAPES = {"audio": (5, 4), "image": (3, 6)}


def batch(rows=6):
    padding = {name: torch.zeros(rows, steps, dtype=torch.bool) for name, (steps, _) in SHAPES.items()}
    x = {name: Tokens(torch.randn(rows, *shape), padding[name]) for name, shape in SHAPES.items()}
    return x, torch.arange(rows) % 2


def small(**settings):
    return attention_model(SHAPES, **{"width": 8, "heads": 2} | settings)


@pytest.mark.parametrize("fusion_layers", [1, 2])
def test_tokens_stay_tokens_until_the_fusion_reads_its_class_token(fusion_layers):
    model, (x, _) = small(fusion_layers=fusion_layers, classes=3), batch()
    assert {name: z.values.shape for name, z in model.encode_all(x).items()} == {"audio": (6, 5, 8), "image": (6, 3, 8)}
    assert model(x).shape == (6, 3)
    assert {p.shape for p in model.unimodal(x).values()} == {(6, 3)}


def test_the_order_of_steps_matters():
    model, (x, _) = small(), batch()
    turned = {**x, "audio": Tokens(x["audio"].values.flip(1), x["audio"].padding)}
    assert not torch.allclose(model(turned), model(x))


def test_hidden_steps_say_nothing_and_a_whole_modality_may_be_hidden():
    model, (x, _) = small(fusion_layers=2), batch()
    hidden = torch.tensor([True, False, True, True, False]).expand(6, 5)
    for padding in (hidden, torch.ones(6, 5, dtype=torch.bool)):
        other = torch.where(padding[..., None], torch.randn(6, 5, 4), x["audio"].values)
        same = (model({**x, "audio": Tokens(v, padding)}) for v in (x["audio"].values, other))
        torch.testing.assert_close(*same)
        assert not torch.allclose(model({**x, "audio": Tokens(other, padding)}), model(x))


@pytest.mark.parametrize(
    ("mask", "noise", "draws"),
    [
        (RandomMask(1.0), ShuffledNoise(), 4),
        (RandomMask(0.5, over="tokens"), ShuffledNoise(), 1),
        (RandomMask(0.5, over="tokens"), HideTokens(), 1),
        (RandomMask(1.0), HideTokens(), 1),
        (LearnedMask(2, 0.5, over="tokens"), ShuffledNoise(), 1),
    ],
)
def test_synib_masks_whole_modalities_or_single_tokens_swapped_or_hidden(mask, noise, draws):
    model, (x, y) = small(), batch()
    loss, parts = SynIB(mask, noise, family=Bernoulli(), draws=draws)(model, x, y)
    loss.backward()
    assert {"penalty/audio", "penalty/image"} <= parts.keys()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_other_shapes_are_refused():
    model, (x, _) = small(), batch()
    with pytest.raises(ValueError, match=r"Tokens of 5 steps of width 4; got \(6, 5, 4\)"):
        model.encode("audio", x["audio"].values)
    with pytest.raises(ValueError, match=r"5 steps of width 4; got \(6, 3, 6\)"):
        model.encode("audio", x["image"])
