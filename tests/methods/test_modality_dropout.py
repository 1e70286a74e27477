"""Modality dropout: which modalities go, what takes their place, and who learns from them."""

import pytest
import torch

from synib import Bernoulli, FusionModel, keys
from synib.masks import ClassShuffledNoise, ShuffledNoise, ZeroNoise
from synib.methods import ModalityDropout

N = 400


@pytest.fixture
def model():
    return FusionModel.mlp({"a": 5, "b": 4, "c": 3}, hidden=[8], classes=1, head_hidden=[])


@pytest.fixture
def batch():
    x = {"a": torch.randn(N, 5), "b": torch.randn(N, 4), "c": torch.randn(N, 3)}
    return x, torch.randint(2, (N,))


def seen_by_fusion(method, model, batch, key):
    """What the encoders are given in a step."""
    given, encode = {}, model.encode

    def note(name, x):
        given[name] = x
        return encode(name, x)

    model.encode = note
    result = method(model, *batch, key=key)
    model.encode = encode
    return given, result


def test_modalities_are_dropped_independently_with_their_probability_and_never_all(model, batch, key):
    given, _ = seen_by_fusion(ModalityDropout(0.3, family=Bernoulli()), model, batch, key)
    dropped = torch.stack([(given[name] == 0).all(1) for name in "abc"]).float()
    assert not dropped.all(0).any()
    # All three go with probability .027, and then none does.
    assert dropped.mean(1).tolist() == pytest.approx([0.3 - 0.027] * 3, abs=0.07)
    both = (dropped[0] * dropped[1]).mean().item()
    assert both == pytest.approx(0.09 - 0.027, abs=0.04)
    for name in "abc":
        rows = (given[name] != 0).any(1)
        assert torch.equal(given[name][rows], batch[0][name][rows])


@pytest.mark.parametrize(("noise", "same"), [(ZeroNoise(), 0), (ShuffledNoise(), N)])
def test_what_takes_a_modalitys_place_is_the_chosen_fill(model, batch, key, noise, same):
    given, _ = seen_by_fusion(ModalityDropout(0.5, noise, family=Bernoulli()), model, batch, key)
    changed = (given["a"] != batch[0]["a"]).any(1)
    assert 0 < changed.sum() < N
    rows = {tuple(row) for row in batch[0]["a"].tolist()}
    of_others = sum(tuple(row) in rows for row in given["a"][changed].tolist())
    assert of_others == (0 if same == 0 else int(changed.sum()))


def test_a_head_learns_from_the_examples_that_kept_its_modality(model, batch, key):
    given, (loss, parts) = seen_by_fusion(ModalityDropout(0.5, family=Bernoulli()), model, batch, key)
    nll = Bernoulli().nll
    expected = nll(model(given), batch[1]).mean()
    for name in "abc":
        kept = (given[name] != 0).any(1)
        own = nll(model.head(name, model.encode(name, batch[0][name][kept])), batch[1][kept]).mean()
        torch.testing.assert_close(parts[f"unimodal/{name}"], own.detach())
        expected = expected + own
    torch.testing.assert_close(loss, expected)


def test_a_single_example_has_none_to_swap_with_and_stays_intact(model):
    x, y = {"a": torch.randn(1, 5), "b": torch.randn(1, 4), "c": torch.randn(1, 3)}, torch.ones(1, dtype=torch.long)
    _, parts = ModalityDropout(0.9, ShuffledNoise(), family=Bernoulli())(model, x, y, key=keys.key(0))
    torch.testing.assert_close(parts["task"], Bernoulli().nll(model(x), y).mean().detach())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"p": 1.0}, "p must be a number"),
        ({"p": 0.5, "noise": ClassShuffledNoise()}, r"use ShuffledNoise\(\) for modality dropout"),
    ],
)
def test_what_cannot_be_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        ModalityDropout(**settings)
