"""The cells of a user's table: sized alike, built alike, cut to one size."""

import math

import numpy as np
import pytest
import torch

from synib.files.pages import RowReader
from synib.methods.hooks import AddsModules
from synib.objective import Bernoulli, Categorical, Gaussian, MultiLabel
from synib.own import recipe as recipe_module
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.recipe import TableRecipe, family_of, make_method
from synib.own.search_space import methods_of
from synib.tokens import values
from synib.training.cells import programs
from synib.training.lazy_rows import LazyRows


@pytest.mark.parametrize(("classes", "family", "outputs"), [(2, Bernoulli, 1), (3, Categorical, 3), (0, Gaussian, 2)])
def test_the_family_follows_from_the_target_and_every_method_can_be_built(table, classes, family, outputs):
    made = table(n=40, classes=classes)
    recipe = TableRecipe(made, folds(made, 4))
    assert isinstance(recipe.family, family)
    methods = methods_of(made)
    assert methods[:2] == ["unimodal-a", "unimodal-b"]
    assert ("experts" in methods) == bool(classes)
    for name in methods:
        cell = recipe.cells(name, 1)[0]
        data = recipe.data(cell)
        model, method = recipe.model(cell, data), recipe.method(cell, data)
        if isinstance(method, AddsModules):
            method.attach(model)
        assert method.predict(model, data.validation.modalities).shape == (len(data.validation), outputs)


def test_labels_have_a_probability_each_and_ordered_classes_are_classes(table):
    made = table(n=40, kind="labels")
    recipe = TableRecipe(made, folds(made, 4))
    assert isinstance(recipe.family, MultiLabel)
    assert recipe.outputs == 3
    assert recipe.split(0, np.arange(5)).target.shape == (5, 3)
    assert "synib-marginal" in methods_of(made)
    assert "experts" not in methods_of(made)
    for kind, classes, family, outputs in (
        ("ordinal", "abc", Categorical, 3),
        ("ordinal", "ab", Bernoulli, 1),
        ("multilabel", "ab", MultiLabel, 2),
        ("regression", "", Gaussian, 2),
    ):
        made_family, made_outputs = family_of(kind, classes)
        assert type(made_family) is family
        assert made_outputs == outputs
    with pytest.raises(ValueError, match="multilabel or regression; got 'number'"):
        family_of("number")


def test_folds_are_cut_to_one_size_where_that_costs_less_than_a_row_each_and_test_rows_never_are(table):
    made = table(n=43, target=np.arange(43) % 2)
    parts = folds(made, 4)
    recipe = TableRecipe(made, parts)
    assert {len(f.train) for f in parts} == {25, 26}
    ((train, validation),) = {(len(f.train), len(f.validation)) for f in recipe.parts}
    assert (train, validation) == (25, 7)
    for before, after in zip(parts, recipe.parts, strict=True):
        assert np.array_equal(before.test, after.test)
        assert set(after.train) <= set(before.train)
        assert set(after.validation) <= set(before.validation)
        assert np.bincount(made.target[after.train]).min() >= 10
    assert "each has 25 training and 7 validation rows; up to 1 of each were left out" in recipe.notes[0]
    assert len(programs(recipe.cells("vanilla", 2))) == 2  # with dropout and without, all folds together


def test_folds_of_very_different_sizes_are_trained_apart_and_whole(table):
    group = np.array([f"g{i // 12}" if i < 36 else f"g{i}" for i in range(40)])
    made = table(n=40, group=group)
    parts = folds(made, 3)
    recipe = TableRecipe(made, [parts[0], parts[1]._replace(train=parts[1].train[:5])])
    assert recipe.notes == ()
    assert [len(f.train) for f in recipe.parts] == [len(parts[0].train), 5]
    assert len(programs(recipe.cells("vanilla", 1))) == 2


def test_networks_are_narrow_where_rows_are_few(table):
    widths = {}
    for n in (100, 2000, 20_000):
        made = table(n=n)
        recipe = TableRecipe(made, folds(made, 5))
        widths[n] = recipe.width
        assert recipe.settings("vanilla", {}, 0)["hidden"] == [recipe.width] * 2
    assert widths == {100: 32, 2000: 64, 20_000: 128}


def test_the_weight_of_one_synib_model_falls_to_nothing_before_training_ends(table):
    made = table(n=40)
    recipe = TableRecipe(made, folds(made, 4))
    settings = recipe.settings("synib-random", {"lr": 1e-3, "dropout": 0.0, "weight": 3.0}, 0)
    steps = settings["epochs"] * math.ceil(settings["rows"][0] / settings["batch_size"])
    assert settings["weight_steps"] == 4 * steps // 5
    objective = make_method("synib-random", recipe.family, settings)
    assert [objective.weight(torch.tensor(step)).item() for step in (0, steps)] == [3.0, 0.0]
    assert "weight_schedule" not in recipe.settings("experts", {"lr": 1e-3, "dropout": 0.0, "weight": 3.0}, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_large_table_is_read_batch_by_batch_with_the_same_results(table, monkeypatch, dtype):
    made = table(n=90, lacks=0.2)
    made.modalities.update({name: x.astype(dtype) for name, x in made.modalities.items()})
    parts = folds(made, 3)
    outcomes = []
    for large in (recipe_module.LARGE, 0):
        monkeypatch.setattr(recipe_module, "LARGE", large)
        outcome = train(made, parts, ["vanilla", "experts", "unimodal-b"], budget=2, epochs=3, device="cpu")
        assert outcome.recipe.lazy == (large == 0)
        outcomes.append(outcome)
    whole, lazy = outcomes
    fold = parts[0]
    assert isinstance(lazy.recipe.view(0, fold.test).modalities["a"], LazyRows)
    for name, x in whole.recipe.split(0, fold.test).modalities.items():
        assert torch.equal(values(x), values(lazy.recipe.view(0, fold.test).modalities[name][:]))
    for method, trained in whole.methods.items():
        assert np.array_equal(trained.predictions, lazy.methods[method].predictions)
        assert np.array_equal(trained.losses, lazy.methods[method].losses)
        assert np.array_equal(trained.temperature, lazy.methods[method].temperature)


def test_a_unimodal_model_of_a_large_table_does_not_read_the_other_modalities(table, monkeypatch):
    made = table(n=90)
    monkeypatch.setattr(recipe_module, "LARGE", 0)
    read, seen = RowReader.__call__, set()
    monkeypatch.setattr(
        RowReader, "__call__", lambda self, rows: seen.add(self.width * (len(rows) > 2)) or read(self, rows)
    )
    made.modalities["b"] = np.concatenate([made.modalities["b"], made.modalities["b"][:, :1]], 1)  # of another width
    train(made, folds(made, 3), ["unimodal-a"], budget=1, epochs=1, device="cpu")
    assert seen - {0} == {made.modalities["a"].shape[1]}
