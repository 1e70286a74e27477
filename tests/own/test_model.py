"""A model of a user's data: the same from disk, honest where a modality is missing, and no more than JSON and tensors."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from synib.measure import emap
from synib.own.answers import Answers
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.model import fit, load
from synib.own.recipe import methods_of
from synib.own.table import Table
from synib.tokens import take


def table(n=160, classes=2, kind="xor", lacks=0.0, seed=0, split=None, names=("no", "yes", "maybe")):
    """Two signs, one in each modality. The target is their product (xor), or the first of them (unique)."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (2, n))
    a, b = 5 + 0.2 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=(n, 2))
    a[:, 0] += signs[0]
    b[:, 0] += signs[1]
    truth = signs[0] * signs[1] if kind == "xor" else signs[0]
    present = {"a": rng.random(n) >= lacks, "b": np.ones(n, bool)}
    return Table(
        modalities={"a": a.astype(np.float32) * present["a"][:, None], "b": b.astype(np.float32)},
        present=present,
        target=7 + 3 * truth if not classes else (truth > 0).astype(np.int64) + (classes > 2) * (signs[1] > 0),
        classes=names[:classes],
        split=split,
        group=None,
        nuisance={},
        source="made.npz",
        notes=(),
    )


@pytest.fixture(scope="module")
def fitted():
    made = {"xor": table(), "unique": table(kind="unique"), "number": table(classes=0)}
    return {name: (one, fit(one, budget=1, epochs=30, device="cpu")) for name, one in made.items()}


def test_synib_is_experts_for_classes_and_marginal_for_numbers(fitted):
    assert fitted["xor"][1].method == "experts"
    assert fitted["number"][1].method == "synib-marginal"
    assert fitted["number"][1].settings["draws"] == 16


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


def test_a_prediction_without_a_modality_is_the_mean_over_the_background(fitted):
    one, model = fitted["xor"]
    row = {name: x[:1] for name, x in one.modalities.items()}
    brought, _ = model._brought(row, None)
    assert {len(b) for b in model.background.values()} == {64}
    with torch.no_grad():
        each = [
            torch.sigmoid(model.answers.combine({"a": a[None], "b": brought["b"]}) / model.temperature)
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
    alone = fit(one, "unimodal-a", budget=1, epochs=2, device="cpu")
    assert np.allclose(alone.needs_both(one.modalities), 0, atol=1e-6)


def test_the_score_is_what_the_surest_modality_alone_leaves_open(fitted):
    one, model = fitted["xor"]
    together = model.predict(one.modalities)
    answer, rows = together.argmax(1), np.arange(len(together))
    alone = [model.predict({name: x})[rows, answer] for name, x in one.modalities.items()]
    expected = np.maximum(0, together[rows, answer] - np.max(alone, axis=0))
    assert np.allclose(model.needs_both(one.modalities), expected)
    assert ((expected >= 0) & (expected <= 1)).all()


def test_absence_is_learned_from_many_rows_and_averaged_over_where_few_lacked_it():
    often, rarely = (fit(table(n=200, lacks=lacks), "vanilla", budget=1, epochs=3) for lacks in (0.5, 0.1))
    assert (often.missing, often.learned) == (("a",), ("a",))
    assert (rarely.missing, rarely.learned) == (("a",), ())
    one = table(n=20)
    for model in (often, rarely):
        brought, there = model._brought({"b": one.modalities["b"]}, None)
        assert not there["a"].any()
        assert len(brought["a"].unique(dim=0)) == 1
        assert np.isfinite(model.predict({"b": one.modalities["b"]})).all()
    both = often.needs_both(one.modalities)
    assert (both > 0).any()  # a modality that is there is marginalised all the same
    latent = often.answers.learner.model.project("a", often.answers.learner.model.encoders["a"].missing[None])
    assert torch.allclose(often._brought({"b": one.modalities["b"]}, None)[0]["a"][0, :-1], latent[0], atol=1e-6)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_every_method_in_parts_answers_as_it_does_whole(classes):
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


def test_a_saved_model_predicts_the_same_and_says_how_it_was_made(fitted, tmp_path):
    for name, (one, model) in fitted.items():
        again = load(model.save(tmp_path / name))
        assert np.array_equal(again.predict(one.modalities), model.predict(one.modalities))
        assert np.array_equal(again.needs_both(one.modalities), model.needs_both(one.modalities))
        assert repr(again) == repr(model)
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["model.json", "model.safetensors"]
    said = json.loads((tmp_path / "xor" / "model.json").read_text())
    assert said["classes"] == ["no", "yes"]
    assert said["about"]["rows"] == {"train": 128, "validation": 32, "test": 0}
    assert said["about"]["budget"] == 1
    assert said["settings"]["lr"] == 3e-3
    assert {"torch", "numpy", "python"} <= said["versions"].keys()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(fitted)


def test_rows_kept_for_testing_are_not_touched():
    split = np.array(["train"] * 60 + ["validation"] * 20 + ["test"] * 20)
    one, other = table(n=100, split=split), table(n=100, split=split)
    other.modalities["a"][80:] = 99
    other.target[80:] = 1 - other.target[80:]
    first, second = (fit(t, "vanilla", budget=2, epochs=2, device="cpu") for t in (one, other))
    assert first.about["rows"] == {"train": 60, "validation": 20, "test": 20}
    assert np.array_equal(first.predict(one.modalities), second.predict(one.modalities))


def test_the_best_seed_is_kept_and_the_choice_is_recorded():
    model = fit(table(n=60), "vanilla", budget=3, seeds=2, epochs=2, device="cpu")
    assert len(model.about["validation_log_loss"]) == 3
    assert model.about["kept"]["validation_log_loss"] <= min(model.about["validation_log_loss"]) + 1e-9


@pytest.fixture
def folder(fitted, tmp_path):
    return fitted["xor"][1].save(tmp_path / "model")


def test_a_model_may_take_the_place_of_an_earlier_one_and_of_nothing_else(fitted, folder, tmp_path):
    model = fitted["unique"][1]
    model.save(folder)
    assert np.array_equal(load(folder).background["a"], model.background["a"])
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.json").write_text('{"my": "settings"}')
    for place, said in (
        (folder, r"holds other files \(notes.txt\); choose an empty folder"),
        (tmp_path / "file", "is a file; choose another"),
        (other, "does not describe a model of ours"),
    ):
        with pytest.raises(ValueError, match=said):
            model.save(place)
    assert (other / "model.json").read_text() == '{"my": "settings"}'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "model", "other"]


def rewrite(folder, **changes):
    said = json.loads((folder / "model.json").read_text()) | changes
    (folder / "model.json").write_text(json.dumps({k: v for k, v in said.items() if v != "gone"}))


def retensor(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    rewrite(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


BROKEN = {
    "is not there": lambda f: shutil.rmtree(f),
    "has no model.json that can be read": lambda f: (f / "model.json").unlink(),
    "has no model.safetensors that can be read": lambda f: (f / "model.safetensors").unlink(),
    "model.json is no JSON": lambda f: (f / "model.json").write_bytes(b"\x80\x04K\x01."),
    "no JSON: it is no model": lambda f: (f / "model.json").write_text("[" * 100_000),
    "no JSON: it is": lambda f: (f / "model.json").write_text('{"format": NaN}'),
    "does not describe a model": lambda f: (f / "model.json").write_text("[1]"),
    "is of format 7, made by synib '.*'; this one reads 1": lambda f: rewrite(f, format=7),
    "is damaged: widths is None": lambda f: rewrite(f, widths="gone"),
    "is damaged: temperature is True": lambda f: rewrite(f, temperature=True),
    "temperature is positive; got -1": lambda f: rewrite(f, temperature=-1),
    "is not the file that model.json belongs to": lambda f: (f / "model.safetensors").write_bytes(b"x" * 99),
    "target is a mean and a positive deviation": lambda f: rewrite(f, target=[0.0, 0.0]),
    "hidden is a list of widths": lambda f: rewrite(f, settings={"hidden": "wide"}),
    "a network of these widths is larger": lambda f: rewrite(f, widths={"a": 10**12, "b": 2}),
    "its settings do not make a model": lambda f: rewrite(f, settings={"hidden": [32, 32]}),
    "No method is called 'evil'": lambda f: rewrite(f, method="evil"),
    "classes are texts": lambda f: rewrite(f, classes=[1, 2]),
    "do not fit each other": lambda f: rewrite(f, learned=["a"]),
    "has other tensors: 'background.a'": lambda f: retensor(f, lambda t: t.pop("background.a")),
    r"background.a is \(0,\) of": lambda f: retensor(f, lambda t: t.update({"background.a": torch.zeros(0)})),
    r"mean.a is \(3,\) of torch.float32, and not \(3,\) of torch.float64": lambda f: retensor(
        f, lambda t: t.update({"mean.a": torch.zeros(3)})
    ),
    "factor.b holds numbers that are not finite": lambda f: retensor(f, lambda t: t["factor.b"].fill_(np.nan)),
}


@pytest.mark.parametrize("said", BROKEN)
def test_a_broken_folder_is_one_sentence(folder, said):
    BROKEN[said](folder)
    with pytest.raises(ValueError, match=said):
        load(folder)


def test_what_is_no_safetensors_is_refused_even_with_its_checksum(folder):
    (folder / "model.safetensors").write_bytes(b"\x80\x04K\x01." * 9)
    rewrite(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="is no safetensors file"):
        load(folder)


A, B = np.zeros((4, 3)), np.zeros((4, 2))


@pytest.mark.parametrize(
    ("given", "present", "said"),
    [
        ({}, None, "There is nothing to predict from; give some of 'a', 'b'"),
        ({"a": A[:0]}, None, "There are no rows to predict"),
        ([A, B], None, "modalities are a dict"),
        ({"a": A, "bb": B}, None, "The model has no modality 'bb': did you mean 'b'"),
        ({"a": A, "zzz": B}, None, "no modality 'zzz': it has 'a', 'b'"),
        ({"a": B}, None, r"'a' is \(rows, 3\), as in training; got \(4, 2\)"),
        ({"a": [["x", "y", "z"]]}, None, r"'a' is an array of numbers, \(rows, 3\); got list"),
        ({"a": A, "b": B[:2]}, None, "as many rows; got a 4, b 2"),
        ({"a": np.where(np.eye(4, 3), np.nan, 0)}, None, "'a' has NaN beside numbers, or infinite ones, in row 0"),
        ({"a": A + 1e39}, None, "infinite ones, in row 0"),
        ({"a": A}, {"a": np.ones(3, bool)}, r"says true or false of each of 4 rows; got bool of shape \(3,\)"),
        ({"a": A * np.nan}, {"a": np.ones(4, bool)}, r"'a' should be there in row 0 \(from 0\), but is NaN"),
    ],
)
def test_what_cannot_be_predicted_from_is_one_sentence(fitted, given, present, said):
    with pytest.raises(ValueError, match=said):
        fitted["xor"][1].predict(given, present)


def test_experts_need_classes():
    with pytest.raises(ValueError, match="the target is a number: use synib or synib-marginal"):
        fit(table(classes=0), "experts")
