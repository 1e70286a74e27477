"""Masked inputs as augmentation."""

import pytest
import torch

from synib import Bernoulli, FusionModel, OracleMask, RandomMask, StandardNoise, keys
from synib.methods import MaskedInput


@pytest.fixture
def model():
    return FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], classes=1, head_hidden=[])


@pytest.fixture
def batch():
    return {"a": torch.randn(12, 5), "b": torch.randn(12, 4)}, torch.randint(2, (12,))


def test_the_loss_is_the_mean_over_intact_and_masked_copies(model, batch):
    modalities, target = batch
    noise = StandardNoise()
    method = MaskedInput(OracleMask({"a": [0, 1], "b": [3]}), noise, family=Bernoulli(), unimodal_weight=0.0)
    loss, parts = method(model, modalities, target, key=keys.key(3))
    copies = {}
    for name, chosen in (("a", [0, 1]), ("b", [3])):
        copies[name] = modalities[name].clone()
        drawn = noise(modalities[name], keys.fold(keys.key(3), name, "noise"))
        copies[name][:, chosen] = drawn[:, chosen]
    nll = Bernoulli().nll
    expected = (nll(model(modalities), target).mean() + nll(model(copies), target).mean()) / 2
    torch.testing.assert_close(loss, expected)
    assert set(parts) == {"task", "unimodal/a", "unimodal/b"}


def test_every_modality_of_a_copy_is_masked(model, batch):
    seen = []
    original = model.combine
    model.combine = lambda projected: seen.append(projected) or original(projected)
    MaskedInput(RandomMask(1.0), StandardNoise(), family=Bernoulli())(model, *batch)
    for projected in seen[0].values():
        intact, masked = projected.split(12)
        assert not torch.isclose(intact, masked).all(1).any()
