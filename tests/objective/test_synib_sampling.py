"""Sampled counterfactuals: each example meets some of them, and in expectation nothing changes."""

import pytest
import torch

from synib import (
    AmortizedMask,
    BlackBoxModel,
    LearnedMask,
    MatchedNoise,
    Noise,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Vanilla,
    keys,
)
from synib.tokens import values

COORDINATES = {"a": [0, 2], "b": [1], "c": [0, 1, 2, 3]}
MASKS = {
    "random": lambda: RandomMask(0.5),
    "oracle": lambda: OracleMask(COORDINATES),
    "learned": lambda: LearnedMask(3, lr=1.0),
    "amortized": lambda: AmortizedMask({"a": 4, "b": 3, "c": 5}),
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
        runs = [objective(model, x, y, key=k)[1] for k in keys.split(key, 60)]
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
@pytest.mark.parametrize("noise", [StandardNoise, MatchedNoise, ShuffledNoise])
@pytest.mark.filterwarnings("ignore:A batch of one example")
def test_batches_too_small_to_deal_out_give_no_nan(rows, draws, mask, noise, key, batch, fusion_model):
    x, y = batch(3, rows)
    model = fusion_model(3)
    torch.manual_seed(1)
    objective = SynIB(MASKS[mask](), noise(), subsets="proper", sample=1, draws=draws).double()
    loss, parts = objective(model, x, y, key=key)
    loss.backward()
    assert loss.isfinite()
    assert all(p.isfinite() for p in parts.values())
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)


@pytest.mark.parametrize("draws", [1, 2])
def test_dealt_rows_take_values_from_any_row_of_the_batch(draws, key, batch, fusion_model):
    x, y = batch(3, 7)
    model = fusion_model(3, heads=False)
    objective = SynIB(OracleMask(COORDINATES), ShuffledNoise(), sample=1, draws=draws)
    for name, given in objective.counterfactuals(BlackBoxModel(model), x, y, key)[1].items():
        (other,) = [o for o in x if o != name][:1]
        rows = [int((x[other] == row).all(1).nonzero()) for row in given[other]]
        for row, corrupted in zip(rows, given[name], strict=True):
            donors = [i for i in range(7) if torch.equal(x[name][i, COORDINATES[name]], corrupted[COORDINATES[name]])]
            assert len(donors) == 1
            assert donors != [row]
    # Two draws of one row have different donors, though only two or three rows are corrupted together.
    first, second = given[name].chunk(2) if draws == 2 else (0, 1)
    assert draws == 1 or not torch.equal(first, second)


@pytest.mark.parametrize("mask", [RandomMask(1.0), RandomMask(0.5)], ids=["whole", "partial"])
def test_a_batch_of_one_row_has_no_penalty_to_shuffle_for_and_says_so_once(mask, key, batch, fusion_model):
    x, y = batch(2, 1)
    model, objective = fusion_model(2), SynIB(mask, ShuffledNoise())
    with pytest.warns(UserWarning, match="A batch of one example") as said:
        loss, parts = objective(model, x, y, key=key)
    assert len(said) == 1
    plain, of_plain = Vanilla()(model, x, y)
    assert loss == plain
    assert parts.keys() - {"weight"} == of_plain.keys()
    objective(model, x, y, key=key)  # a second warning would be an error
    x, y = batch(2, 2)
    assert "penalty/a" in objective(model, x, y, key=key)[1]


def test_noise_that_needs_no_other_row_penalises_a_batch_of_one(key, batch, fusion_model):
    x, y = batch(2, 1)
    assert SynIB(RandomMask(0.5), StandardNoise())(fusion_model(2), x, y, key=key)[1]["penalty/a"] > 0
