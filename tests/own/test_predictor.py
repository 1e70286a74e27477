"""A model of a user's data: calibrated, unsure where a modality is missing, and able to say which rows need both."""

import dataclasses

import numpy as np
import pytest
import torch

from synib.measure import emap
from synib.own.answers import Answers
from synib.own.fit import fit
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.search_space import methods_of
from synib.tokens import take

EPOCHS = {"xor": 20, "unique": 20, "number": 40, "labels": 20}  # an annealed weight needs some steps without a penalty


@pytest.fixture(scope="module")
def fitted(table):
    split = np.array(["train"] * 128 + ["validation"] * 32)  # one model of each; folds are the subject of test_fit
    kinds = {"xor": {}, "unique": {"kind": "unique"}, "number": {"classes": 0}, "labels": {"kind": "labels"}}
    made = {name: table(split=split, **kind) for name, kind in kinds.items()}
    return {
        name: (one, fit(one, "synib", budget=1, epochs=EPOCHS[name], device="cpu", baselines=False))
        for name, one in made.items()
    }


def test_it_predicts_what_only_both_tell_and_is_calibrated(fitted):
    one, model = fitted["xor"]
    said = model.predict(one.modalities)
    assert said.shape == (160, 2)
    assert np.allclose(said.sum(1), 1)
    assert (said.argmax(1) == one.target).mean() > 0.95
    one, model = fitted["number"]
    mean, deviation = model.predict(one.modalities).T
    assert np.abs(mean - one.target).mean() < 1.0
    assert (deviation > 0).all()


def test_every_label_has_a_probability_of_its_own(fitted):
    one, model = fitted["labels"]
    said = model.predict(one.modalities)
    assert (model.kind, model.method, said.shape) == ("multilabel", "synib-marginal", (160, 3))
    assert ((said[:, :2] > 0.5) == one.target[:, :2]).mean() > 0.9
    assert said[:, 2].mean() == pytest.approx(one.target[:, 2].mean(), abs=0.1)
    assert np.median(model.needs_both(one.modalities)) > 0.2  # the first label is an XOR
    assert (model.needs_both({"a": one.modalities["a"]}) == 0).all()
    assert "3 labels from a (3), b (2)" in repr(model)


def test_without_a_modality_it_is_as_unsure_as_it_should_be(fitted):
    one, model = fitted["xor"]
    for name in ("a", "b"):
        said = model.predict({name: one.modalities[name]})
        assert np.abs(said - 0.5).max() < 0.25
    mean, deviation = fitted["number"][1].predict({"a": fitted["number"][0].modalities["a"]}).T
    assert np.abs(mean - 7).max() < 1.5
    assert np.abs(deviation - 3).max() < 1
    one, model = fitted["unique"]
    assert (model.predict({"a": one.modalities["a"]}).argmax(1) == one.target).mean() > 0.95
    assert np.ptp(model.predict({"b": one.modalities["b"]})[:, 0]) < 0.5


def test_without_a_second_model_a_prediction_without_a_modality_is_the_mean_over_the_background(fitted):
    one, model = fitted["xor"]
    model = dataclasses.replace(model, second=None)
    row = {name: x[:1] for name, x in one.modalities.items()}
    encoded, _ = model._encoded(row, None)
    assert {len(b) for b in model.background.values()} == {64}
    with torch.no_grad():
        each = [
            torch.sigmoid(model.answers.combine({"a": a[None], "b": encoded["b"]}) / model.temperature + model.bias[0])
            for a in model.background["a"]
        ]
    assert model.predict({"b": row["b"]})[0, 1] == pytest.approx(float(torch.stack(each).mean()), abs=1e-5)


def test_a_row_that_lacks_a_modality_is_predicted_as_if_it_stood_alone(fitted):
    one, model = fitted["xor"]
    some = {name: x[:6].copy() for name, x in one.modalities.items()}
    some["a"][2:4] = np.nan
    mixed = model.predict(some)
    assert np.allclose(mixed[[0, 1, 4, 5]], model.predict(one.modalities)[[0, 1, 4, 5]])
    assert np.allclose(mixed[2:4], model.predict({"b": some["b"]})[2:4])
    told = {"a": np.array([True, True, False, False, True, True])}
    assert np.array_equal(model.predict({n: x[:6] for n, x in one.modalities.items()}, told), mixed)
    some["b"][2] = np.nan
    nothing = model.predict(some)[2]
    assert np.abs(nothing - 0.5).max() < 0.2
    assert model.needs_both(some)[2] == model.needs_both(some)[3] == 0


def test_the_score_is_all_confidence_beyond_chance_for_an_xor_and_0_where_one_modality_tells_all(fitted):
    one, model = fitted["xor"]
    score, sure = model.needs_both(one.modalities), model.predict(one.modalities).max(1)
    noise = 0.5 / np.sqrt(64)  # of a share of one half among 64 rows of the background
    assert np.abs(score - (sure - 0.5)).max() < 3 * noise
    one, model = fitted["unique"]
    assert model.needs_both(one.modalities).max() < 0.1
    one, model = fitted["number"]
    assert np.median(model.needs_both(one.modalities)) > 0.4
    alone = fit(one, "unimodal-a", budget=1, epochs=2, device="cpu", baselines=False)
    assert np.allclose(alone.needs_both(one.modalities), 0, atol=1e-6)


def test_the_score_is_what_the_surest_modality_alone_leaves_open(fitted):
    one, model = fitted["xor"]
    together = model.predict(one.modalities)
    answer, rows = together.argmax(1), np.arange(len(together))
    alone = [model.predict({name: x})[rows, answer] for name, x in one.modalities.items()]
    expected = np.maximum(0, together[rows, answer] - np.max(alone, axis=0))
    assert np.allclose(model.needs_both(one.modalities), expected)
    assert ((expected >= 0) & (expected <= 1)).all()


def test_absence_is_learned_from_many_rows_and_averaged_over_where_few_lacked_it(table):
    how = {"budget": 1, "epochs": 3, "device": "cpu", "baselines": False}
    often, rarely = (fit(table(n=200, lacks=lacks), "vanilla", **how) for lacks in (0.5, 0.1))
    assert (often.missing, often.learned) == (("a",), ("a",))
    assert (rarely.missing, rarely.learned) == (("a",), ())
    one = table(n=20)
    for model in (often, rarely):
        encoded, has = model._encoded({"b": one.modalities["b"]}, None)
        assert not has["a"].any()
        assert len(encoded["a"].unique(dim=0)) == 1
        assert np.isfinite(model.predict({"b": one.modalities["b"]})).all()
    both = often.needs_both(one.modalities)
    assert (both > 0).any()  # a modality that is there is marginalised all the same
    latent = often.answers.learner.model.project("a", often.answers.learner.model.encoders["a"].missing[None])
    assert torch.allclose(often._encoded({"b": one.modalities["b"]}, None)[0]["a"][0, :-1], latent[0], atol=1e-6)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_every_method_in_parts_predicts_as_it_does_whole(table, classes):
    one = table(n=60, classes=classes, lacks=0.2)
    outcome = train(one, folds(one, 3), methods_of(one), budget=1, epochs=1, device="cpu")
    recipe = outcome.recipe
    split = recipe.data(recipe.cells("vanilla", 1)[0]).validation
    for name, found in outcome.methods.items():
        learner = found.learners[0][0]
        answers = Answers(learner, recipe.outputs).eval()
        whole = learner.method.predict(learner.model, split.modalities)
        assert torch.allclose(answers(split.modalities), whole, atol=1e-6), name
    if classes == 2:  # and can be asked what a model in parts can be asked
        few = {name: take(x, slice(0, 12)) for name, x in split.modalities.items()}
        assert emap(answers, few, split.target[:12], recipe.family).exact


A, B = np.zeros((4, 3)), np.zeros((4, 2))


@pytest.mark.parametrize(
    ("given", "present", "said"),
    [
        ({}, None, "No modality was given; give at least one of 'a', 'b'"),
        ({"a": A[:0]}, None, "There are no rows to predict"),
        ([A, B], None, "modalities must be a dict"),
        ({"a": A, "bb": B}, None, "The model has no modality 'bb': did you mean 'b'"),
        ({"a": A, "zzz": B}, None, "no modality 'zzz': its modalities are 'a', 'b'"),
        ({"a": B}, None, r"'a' must have the shape \(rows, 3\), as in training; got \(4, 2\)"),
        ({"a": [["x", "y", "z"]]}, None, r"'a' must be an array of numbers, \(rows, 3\); got list"),
        ({"a": A, "b": B[:2]}, None, "the same number of rows; got a 4, b 2"),
        ({"a": np.where(np.eye(4, 3), np.nan, 0)}, None, "'a' has NaN next to numbers, or infinite values, in row 0"),
        ({"a": A + 1e39}, None, "infinite values, in row 0"),
        ({"a": A}, {"a": np.ones(3, bool)}, r"must be boolean, one for each of 4 rows; got bool, \(3,\)"),
        ({"a": A * np.nan}, {"a": np.ones(4, bool)}, r"'a' is marked as present in row 0 \(from 0\), but is NaN"),
    ],
)
def test_what_cannot_be_predicted_from_is_one_sentence(fitted, given, present, said):
    with pytest.raises(ValueError, match=said):
        fitted["xor"][1].predict(given, present)
