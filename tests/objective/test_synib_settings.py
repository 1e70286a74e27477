"""The defaults of weight and draws, and what debiasing does to the loss."""

import math

import pytest
import torch
from torch import nn

from synib import Annealing, FusionModel, HideTokens, LearnedMask, RandomMask, StandardNoise, SynIB, keys
from synib.models import ConcatFusion


def unsure(m):
    """A logit of known distribution once ``a`` is replaced by a standard normal number."""
    logit = 2.0 * m["a"] + m["b"]
    return torch.cat([torch.zeros_like(logit), logit], -1)


def penalty_of(draws, debias, rows=4000, value=1.0):
    x = {"a": torch.zeros(rows, 1), "b": torch.full((rows, 1), value)}
    y = torch.zeros(rows, dtype=torch.int64)
    objective = SynIB(RandomMask(1.0), StandardNoise(), draws=draws, debias=debias)
    return objective(unsure, x, y, key=keys.key(3))[1]["penalty/a"].item()


def test_debiasing_removes_most_of_the_upward_bias_of_few_draws():
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    p = (torch.sigmoid(2 * z + 1) * density).sum() / density.sum()
    truth = (math.log(2) + p * p.log() + (1 - p) * (1 - p).log()).item()
    assert penalty_of(512, False, rows=200) == pytest.approx(truth, abs=1e-3)
    plain, debiased = penalty_of(4, False), penalty_of(4, True)
    assert plain - truth > 0.02
    assert abs(debiased - truth) < 0.25 * (plain - truth)


def test_with_the_number_of_steps_the_weight_falls_from_10_to_a_tenth_over_four_fifths_of_them(batch, fusion_model):
    objective, model, (x, y) = SynIB(steps=10), fusion_model(), batch()
    weights = [float(objective(model, x, y)[1]["weight"]) for _ in range(10)]
    assert weights == pytest.approx([0.1 + 9.9 * max(0.0, 1 - step / 8) for step in range(10)])


def test_a_number_and_the_number_of_steps_anneal_that_number_to_a_hundredth(batch, fusion_model):
    objective, model, (x, y) = SynIB(weight=4.0, steps=5), fusion_model(), batch()
    assert [float(objective(model, x, y)[1]["weight"]) for _ in range(5)] == pytest.approx(
        [4.0, 3.01, 2.02, 1.03, 0.04]
    )


def test_with_the_number_of_steps_masks_are_learned_where_every_corrupted_modality_has_a_head(key, batch, fusion_model):
    x, y = batch()
    weight = Annealing(10.0, 8, 0.1)
    learned, whole = LearnedMask(4, 0.5, 0.01), RandomMask(1.0)
    with_heads, without = fusion_model(heads=True), fusion_model(heads=False)
    some = fusion_model(heads=True)
    first, *_ = some.names
    del some.heads[first]
    for model, mask in ((with_heads, learned), (without, whole), (some, whole)):
        assert SynIB(steps=10)(model, x, y, key=key)[0] == SynIB(mask, weight=weight)(model, x, y, key=key)[0]
    others = some.names[1:]  # the modality without a head is not corrupted
    loss = SynIB(steps=10, corrupt=others)(some, x, y, key=key)[0]
    assert loss == SynIB(learned, weight=weight, corrupt=others)(some, x, y, key=key)[0]
    assert loss != SynIB(whole, weight=weight, corrupt=others)(some, x, y, key=key)[0]


def test_with_the_number_of_steps_inputs_that_cannot_be_mixed_are_swapped_whole(key):
    tokens, y = torch.arange(24).reshape(8, 3) % 5, torch.arange(8) % 3
    encoders = {"words": nn.Sequential(nn.Embedding(5, 4), nn.Flatten()), "image": nn.Linear(2, 12)}
    heads = {name: nn.Linear(12, 3) for name in encoders}
    model = FusionModel(encoders, ConcatFusion(dict.fromkeys(encoders, 12), [3]), heads)
    x = {"words": tokens, "image": torch.randn(8, 2)}
    loss = SynIB(steps=10)(model, x, y, key=key)[0]
    assert loss == SynIB(RandomMask(1.0), weight=Annealing(10.0, 8, 0.1))(model, x, y, key=key)[0]


def test_a_mask_that_is_given_and_a_noise_that_hides_tokens_are_kept():
    assert SynIB(RandomMask(0.5), steps=10).without_heads is None
    assert isinstance(SynIB(noise=HideTokens(), steps=10).mask, RandomMask)
    assert isinstance(SynIB().mask, RandomMask)


def test_steps_and_a_schedule_are_not_both_accepted():
    with pytest.raises(ValueError, match="either steps or a schedule"):
        SynIB(weight=Annealing(3.0, 10), steps=10)
    with pytest.raises(ValueError, match="steps must be"):
        SynIB(steps=0)


@pytest.mark.parametrize("kind", ["model in parts", "its latents", "plain function", "masks of coordinates"])
def test_predictions_are_averaged_over_16_draws_by_default_where_only_the_fusion_head_is_repeated(
    kind, key, batch, fusion_model
):
    model, (x, y) = fusion_model(heads=False), batch()
    mask = RandomMask(0.5) if kind == "masks of coordinates" else None
    default = SynIB(mask)
    predict = {"plain function": lambda m: model(m), "its latents": model.on_latents()}.get(kind, model)
    given = model.encode_all(x) if kind == "its latents" else x
    explicit = SynIB(mask, draws=16 if kind in ("model in parts", "its latents") else 1)
    other = SynIB(mask, draws=1 if kind in ("model in parts", "its latents") else 16)
    loss = default(predict, given, y, key=key)[0]
    assert loss == explicit(predict, given, y, key=key)[0]
    assert loss != other(predict, given, y, key=key)[0]


def test_debiasing_takes_16_draws_by_default(key, batch, fusion_model):
    model, (x, y) = fusion_model(), batch()
    settings = {"mask": RandomMask(0.5), "noise": StandardNoise(), "debias": True}
    loss = SynIB(**settings)(model, x, y, key=key)[0]
    assert loss == SynIB(**settings, draws=16)(model, x, y, key=key)[0]
