"""The defaults of weight and draws, and what debiasing does to the loss."""

import math

import pytest
import torch
from torch import nn

from synib import Annealing, FusionModel, LearnedMask, RandomMask, StandardNoise, SynIB, keys
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


@pytest.mark.parametrize("heads", [False, True])
def test_with_the_number_of_steps_whole_modalities_are_swapped_once(heads, key, batch, fusion_model):
    model, (x, y) = fusion_model(heads=heads), batch()
    weight = Annealing(10.0, 8, 0.1)
    loss = SynIB(steps=10)(model, x, y, key=key)[0]
    assert loss == SynIB(RandomMask(1.0), weight=weight, draws=1)(model, x, y, key=key)[0]
    assert loss != SynIB(RandomMask(1.0), weight=weight)(model, x, y, key=key)[0]  # 16 draws


def test_draws_and_a_mask_that_are_given_with_the_number_of_steps_are_kept(key, batch, fusion_model):
    model, (x, y) = fusion_model(heads=True), batch()
    weight = Annealing(10.0, 8, 0.1)
    loss = SynIB(steps=10, draws=16)(model, x, y, key=key)[0]
    assert loss == SynIB(weight=weight)(model, x, y, key=key)[0]
    mask = LearnedMask(4, 0.5, 0.01)
    assert SynIB(mask, steps=10)(model, x, y, key=key)[0] == SynIB(mask, weight=weight)(model, x, y, key=key)[0]


def test_with_the_number_of_steps_inputs_may_be_whole_numbers(key):
    tokens, y = torch.arange(24).reshape(8, 3) % 5, torch.arange(8) % 3
    encoders = {"words": nn.Sequential(nn.Embedding(5, 4), nn.Flatten()), "image": nn.Linear(2, 12)}
    model = FusionModel(encoders, ConcatFusion(dict.fromkeys(encoders, 12), [3]))
    loss = SynIB(steps=10)(model, {"words": tokens, "image": torch.randn(8, 2)}, y, key=key)[0]
    assert loss.isfinite()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


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
