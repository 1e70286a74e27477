"""What every instrument that asks a model does: encode once, leave the model as it was, answer mistakes with one sentence."""

import dataclasses
import importlib.util
import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from synib import Bernoulli, RandomMask, ShuffledNoise, StandardNoise
from synib.measure import emap, interaction, scores_under_corruption, usage


def asks(measure, **settings):
    return lambda model, x, y, **more: measure(model, x, y, **settings | more)


INSTRUMENTS = {
    "emap": asks(emap),
    "emap, drawn": asks(emap, pairs=9),
    "interaction": asks(interaction, draws=6),
    "usage": asks(usage, draws=3),
    "usage, one draw": asks(usage, draws=1),
    "usage, part shuffled": asks(usage, mask=RandomMask(0.4), noise=ShuffledNoise(), draws=3),
    "usage, part noise": asks(usage, mask=RandomMask(0.4), noise=StandardNoise(), draws=3),
    "corruption": asks(scores_under_corruption, draws=2, resamples=5),
    "corruption, noise": asks(scores_under_corruption, noise=StandardNoise(), draws=2, resamples=5),
}
SWAPS = ["emap", "emap, drawn", "interaction", "usage", "usage, one draw", "corruption"]
SCORES = pytest.mark.skipif(importlib.util.find_spec("torchmetrics") is None, reason="needs torchmetrics")


def of(names):
    marks = {name: SCORES if name.startswith("corruption") else () for name in names}
    return pytest.mark.parametrize("measure", [pytest.param(INSTRUMENTS[n], marks=marks[n], id=n) for n in names])


def numbers(found):
    """All numbers of a result, one after the other."""
    if dataclasses.is_dataclass(found):
        found = [getattr(found, field.name) for field in dataclasses.fields(found)]
    elif isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, list | tuple):
        return np.concatenate([numbers(one) for one in found]) if found else np.empty(0)
    return np.empty(0) if isinstance(found, str) else np.asarray(found, dtype=float).reshape(-1)


def close(a, b):
    np.testing.assert_allclose(numbers(a), numbers(b), atol=1e-5)


@of(INSTRUMENTS)
@pytest.mark.parametrize("n", [2, 3])
def test_encoding_once_equals_running_the_whole_model_on_every_mixture(measure, n, mixed_case):
    model, x, y = mixed_case(n, 20)
    model.eval()
    close(measure(model, x, y), measure(lambda m: model(m), x, y))


@of(SWAPS)
def test_where_rows_are_swapped_encoders_run_once_for_each_example(measure, mixed_case):
    model, x, y = mixed_case(2, 20)
    seen = []
    model.encoders["x0"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    measure(model, x, y)
    assert seen == [20]


@of(INSTRUMENTS)
def test_the_chunk_bounds_what_goes_through_the_model_and_changes_nothing(measure, mixed_case):
    model, x, y = mixed_case(2, 20)
    sizes = []

    def watched(m):
        sizes.append(len(m["x0"]))
        return model(m)

    model.eval()
    small = measure(watched, x, y, chunk=7)
    assert max(sizes) == 7
    close(small, measure(model, x, y, chunk=7))
    close(small, measure(model, x, y, chunk=100_000))


@of(INSTRUMENTS)
def test_the_model_is_left_as_it_was_and_arrays_and_tensors_take_its_type(measure, mixed_case):
    model, x, y = mixed_case(2, 20)
    model.train()
    model.encoders["x0"].eval()
    modes = [m.training for m in model.modules()]
    arrays = measure(model, {name: v.double().numpy() for name, v in x.items()}, y.numpy())
    assert [m.training for m in model.modules()] == modes
    assert all(p.grad is None for p in model.parameters())
    for same in (x, {name: v.double() for name, v in x.items()}):
        np.testing.assert_array_equal(numbers(arrays), numbers(measure(model.eval(), same, y)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"modalities": [1, 2]}, "Modalities must be a dict of name → tensor; got list"),
        ({"modalities": {"x0": torch.zeros(20, 4)}}, "at least two modalities"),
        ({"modalities": {"x0": torch.zeros(20, 4), "y": torch.zeros(20, 4)}}, "unknown: 'y'; missing: 'x1'"),
        ({"modalities": {"x0": torch.zeros(20, 4), "x1": torch.zeros(3, 4)}}, "same batch size"),
        ({"modalities": {"x0": torch.zeros(20, 4), "x1": torch.full((20, 4), math.nan)}}, "'x1' holds 80 NaN"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1; got 0"),
        ({"target": torch.arange(20)}, "Categorical targets must be classes 0 to 2; got 3"),
        ({"target": torch.arange(20) + 0.5}, r"one integer class for each example; got shape \(20,\)"),
        ({"family": Bernoulli()}, r"one logit for each example.*; got \(20, 3\)"),
        ({"predict": lambda m: m["x0"][:, :1]}, "For a single logit, use Bernoulli"),
        ({"predict": lambda m: m["x0"][:, :1], "family": Bernoulli(), "target": torch.arange(20)}, "got 2"),
        ({"predict": lambda m: (m["x0"], m["x1"])}, "must return a tensor of the family's parameters; got tuple"),
    ],
)
@of(INSTRUMENTS)
def test_mistakes_get_one_sentence(measure, wrong, sentence, mixed_case):
    refused(measure, mixed_case(2, 20), wrong, sentence)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"target": torch.arange(5) % 3}, r"one row for each of 20 examples; got shape \(5,\)"),
        ({"target": torch.ones(20).long()}, "All 20 targets are class 1; .* at least 2 classes"),
        ({"target": "labels"}, "The target must be one class or value for each example; got str"),
        ({"target": Bernoulli()}, "The target must be one class or value for each example; got Bernoulli"),
        ({"predict": lambda m: m["x0"][:, :3] / 0.0}, "The model's predictions contain NaN or infinite values"),
    ],
)
@pytest.mark.parametrize("measure", [emap, interaction, usage])
def test_targets_and_predictions_that_tell_nothing_are_refused(measure, wrong, sentence, mixed_case):
    refused(asks(measure), mixed_case(2, 20), wrong, sentence)


def refused(measure, case, wrong, sentence):
    given = dict(zip(("predict", "modalities", "target"), case, strict=True)) | wrong
    with pytest.raises(ValueError, match=sentence):
        measure(given.pop("predict"), given.pop("modalities"), given.pop("target"), **given)


@pytest.mark.parametrize("measure", [emap, usage])
def test_a_missing_target_is_refused(measure, mixed_case):
    model, x, _ = mixed_case(2, 20)
    with pytest.raises(ValueError, match="The target must be one class or value for each example; got NoneType"):
        measure(model, x, None)
