"""Sampled counterfactuals: each example meets some of them, and in expectation nothing changes."""

import pytest
import torch

from synib import AmortizedMask, LearnedMask, MatchedNoise, Noise, OracleMask, RandomMask, StandardNoise, SynIB, keys
from synib.tokens import values

COORDINATES = {"a": [0, 2], "b": [1], "c": range(4)}
MASKS = {
    "random": lambda: RandomMask(0.5),
    "oracle": lambda: OracleMask(COORDINATES),
    "learned": lambda: LearnedMask(3, lr=1.0),
}


class Mirror(Noise):
    """A fill that depends on the row alone, so that batches can be cut and dealt."""

    def forward(self, x, key, modality="", draws=1):
        return torch.cat([-values(x) * (k + 1) for k in range(draws)])


@pytest.mark.parametrize(("subsets", "sample"), [("each", 1), ("each", 2), ("proper", 1), ("proper", 4)])
@pytest.mark.parametrize("rows", [12, 7])
def test_sampled_counterfactuals_give_every_penalty_without_bias(subsets, sample, rows, key, batch, fusion_model):
    x, y = batch(3, rows)
    model = fusion_model(3, heads=False)
    settings = {"mask": OracleMask({"a": [0, 2], "b": [1], "c": [0]}), "noise": Mirror(), "subsets": subsets}
    _, full = SynIB(**settings)(model, x, y, key=key)
    objective = SynIB(**settings, sample=sample)
    with torch.no_grad():
        runs = [objective(model, x, y, key=k)[1] for k in keys.split(key, 150)]
    for name in full:
        drawn = torch.stack([parts[name] for parts in runs])
        error = drawn.std() / len(drawn) ** 0.5
        assert (drawn.mean() - full[name]).abs() <= 4 * error + 1e-9, name


def test_asking_for_all_counterfactuals_or_more_is_the_full_penalty(key, batch, fusion_model):
    x, y = batch(3)
    model = fusion_model(3)
    losses = [SynIB(OracleMask(COORDINATES), Mirror(), sample=s)(model, x, y, key=key)[0] for s in (None, 3, 10)]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("mask", MASKS)
def test_batches_too_small_to_deal_out_give_no_nan(rows, draws, mask, key, batch, fusion_model):
    x, y = batch(3, rows)
    model = fusion_model(3)
    for noise in (StandardNoise(), MatchedNoise()):
        objective = SynIB(MASKS[mask](), noise, subsets="proper", sample=1, draws=draws)
        loss, parts = objective(model, x, y, key=key)
        loss.backward()
        assert loss.isfinite()
        assert all(p.isfinite() for p in parts.values())
        assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_mask_network_survives_batches_too_small_to_deal_out(key, batch, fusion_model):
    x, y = batch(3, 2)
    objective = SynIB(
        AmortizedMask({name: v.shape[1] for name, v in x.items()}), StandardNoise(), subsets="proper", sample=1
    ).double()
    loss, _ = objective(fusion_model(3), x, y, key=key)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)
