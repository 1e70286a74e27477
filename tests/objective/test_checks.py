import math

import pytest
import torch

from synib import Bernoulli, FusionModel, RandomMask, StandardNoise, SynIB, Tokens
from synib.methods import Vanilla

MODEL = FusionModel.mlp({"image": 3, "text": 2}, hidden=[4], classes=3)
Y = torch.arange(8) % 3


def good(**changes):
    return {"image": torch.randn(8, 3), "text": torch.randn(8, 2)} | changes


def with_bad(rows, value):
    x = torch.randn(8, 3)
    x[rows, 1] = value
    return x


REFUSED = {
    "mismatched batches": (good(text=torch.randn(7, 2)), "same batch size; got 'image' 8, 'text' 7"),
    "an empty batch": ({"image": torch.zeros(0, 3), "text": torch.zeros(0, 2)}, "every modality has 0 rows"),
    "an unknown name": (good(audio=torch.randn(8, 2)), "modalities are 'image', 'text'; unknown: 'audio'"),
    "a misspelt name": ({"image": torch.randn(8, 3), "txt": torch.randn(8, 2)}, "'image', 'text'; unknown: 'txt'"),
    "one modality": ({"image": torch.randn(8, 3)}, r"at least two modalities; got 1 \('image'\)"),
    "no modality": ({}, r"at least two modalities; got 0 \(none\)"),
    "a list": ([torch.randn(8, 3)] * 2, "a dict of name → tensor; got list"),
    "a list inside": (good(text=[1, 2]), "Modality 'text' must be a tensor or synib.Tokens; got list"),
    "one dimension": (
        good(text=torch.randn(8)),
        r"'text' must have shape \(batch, ...\) with at least 2 .* got \(8,\)",
    ),
    "a NaN": (good(image=with_bad([2], math.nan)), "'image' holds 1 NaN or Inf of 24 values, in row 2; expected"),
    "infinities": (good(image=with_bad([1, 5], -math.inf)), "'image' holds 2 NaN or Inf .* in rows 1, 5; expected"),
    "many": (good(image=with_bad(range(8), math.nan)), "holds 8 NaN .* in rows 0, 1, 2, 3, 4 and 3 more; expected"),
    "tokens": (good(text=Tokens(torch.full((8, 2, 2), math.nan), torch.zeros(8, 2).bool())), "'text' holds 32 NaN"),
    "padding": (
        good(text=Tokens(torch.zeros(8, 3, 2), torch.zeros(8, 5).bool())),
        r"padding of 'text' must be boolean",
    ),
}
OBJECTIVES = [SynIB(RandomMask(), StandardNoise()), Vanilla()]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["synib", "vanilla"])
@pytest.mark.parametrize(("modalities", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_mistake_in_the_modalities_is_named_in_one_sentence(objective, modalities, message):
    with pytest.raises(ValueError, match=message):
        objective(MODEL, modalities, Y)


@pytest.mark.parametrize("rows", [0, 7, 9])
def test_a_target_of_another_length_is_refused(rows):
    with pytest.raises(ValueError, match=rf"one row for each of 8 examples; got shape \({rows},\)"):
        SynIB(sample=1)(MODEL, good(), torch.zeros(rows, dtype=torch.int64))


def test_values_are_not_looked_at_with_check_false():
    objective = SynIB(RandomMask(), StandardNoise(), check=False)
    assert objective(MODEL, good(image=with_bad([2], math.nan)), Y)[0].isnan()
    bernoulli = SynIB(RandomMask(), StandardNoise(), family=Bernoulli(), check=False)
    model = FusionModel.mlp({"image": 3, "text": 2}, hidden=[4], classes=1)
    assert bernoulli(model, good(), torch.full((8,), 2.0))[0].isfinite()


@pytest.mark.parametrize("check", [None, True])
def test_on_the_cpu_every_batch_is_looked_at(check):
    objective = SynIB(RandomMask(), StandardNoise(), check=check)
    objective(MODEL, good(), Y)
    with pytest.raises(ValueError, match="'image' holds 1 NaN"):
        objective(MODEL, good(image=with_bad([2], math.nan)), Y)
