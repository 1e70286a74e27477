"""What models are given of a user's rows: scaled by training rows, sized alike, searched alike."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from synib.objective import Bernoulli, Categorical, Gaussian
from synib.own.folds import Fold, folds
from synib.own.recipe import CANDIDATES, OWN, Own, Scaling, candidates, make_method, methods_of, pace
from synib.own.table import Table
from synib.tokens import Tokens
from synib.training.cells import programs


def table(n=40, classes=2, lacks=(), seed=0, target=None, group=None, dtype=np.float32):
    rng = np.random.default_rng(seed)
    present = {name: np.ones(n, bool) for name in ("a", "b")}
    for name in lacks:
        present[name] = rng.random(n) > 0.3
    if target is None:
        target = np.arange(n) % classes if classes else rng.normal(3.0, 5.0, n)
    return Table(
        modalities={
            "a": (7 + 3 * rng.normal(size=(n, 4))).astype(dtype) * present["a"][:, None],
            "b": rng.normal(size=(n, 3)).astype(dtype) * present["b"][:, None],
        },
        present=present,
        target=np.asarray(target, dtype=np.int64 if classes else np.float64),
        classes=tuple(str(c) for c in range(classes)),
        split=None,
        group=group,
        nuisance={},
        source="made.npz",
        notes=(),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_modalities_are_standardised_by_the_training_rows_that_have_them_and_in_single_precision(dtype):
    made = table(lacks=["a"], dtype=dtype)
    recipe = Own(made, folds(made, 4))
    for cell in recipe.cells("vanilla", 1):
        data = recipe.data(cell)
        a, b = data.train.modalities["a"], data.train.modalities["b"]
        assert isinstance(a, Tokens)
        assert not isinstance(b, Tokens)
        assert b.dtype == a.values.dtype == torch.float32
        there = a.values[~a.padding]
        for seen in (there, b):
            assert torch.allclose(seen.mean(0), torch.zeros(seen.shape[1]), atol=1e-4)
            assert torch.allclose(seen.std(0, correction=0), torch.ones(seen.shape[1]), atol=1e-3)
        fold = recipe.parts[cell.factors["fold"]]
        assert np.array_equal(~a.padding[:, 0].numpy(), made.present["a"][fold.train])
        assert data.test is None


def test_a_column_that_is_constant_in_training_is_0_whatever_comes_later():
    made = table()
    made.modalities["a"][:, 2] = 0.1
    (train, validation, test), *_ = folds(made, 4)
    made.modalities["a"][test, 2] = 1e6
    recipe = Own(made, [Fold(train, validation, test)])
    assert (recipe.inputs(0, test)["a"][:, 2] == 0).all()
    assert (recipe.inputs(0, train)["a"][:, 2] == 0).all()
    assert (recipe.inputs(0, train)["a"][:, 1] != 0).all()


def test_numbers_are_standardised_and_predictions_come_back_in_their_units():
    made = table(classes=0)
    recipe = Own(made, folds(made, 4))
    assert isinstance(recipe.family, Gaussian)
    split = recipe.split(0, recipe.parts[0].train)
    assert split.target.shape == (len(recipe.parts[0].train), 1)
    assert float(split.target.mean()) == pytest.approx(0, abs=1e-5)
    assert float(split.target.std(correction=0)) == pytest.approx(1, abs=1e-5)
    said = torch.cat([split.target, torch.zeros_like(split.target)], 1).numpy()
    back = recipe.scaling(0).parameters(recipe.family, said)
    true = made.target[recipe.parts[0].train]
    assert np.allclose(back[:, 0], true, atol=1e-4)
    assert np.allclose(np.exp(back[:, 1] / 2), true.std(), rtol=1e-4)


@pytest.mark.parametrize(("classes", "family", "outputs"), [(2, Bernoulli, 1), (3, Categorical, 3), (0, Gaussian, 2)])
def test_the_family_follows_from_the_target_and_every_method_can_be_built(classes, family, outputs):
    made = table(classes=classes)
    recipe = Own(made, folds(made, 4))
    assert isinstance(recipe.family, family)
    methods = methods_of(made)
    assert methods[:2] == ["unimodal-a", "unimodal-b"]
    assert ("experts" in methods) == bool(classes)
    for name in methods:
        cell = recipe.cells(name, 1)[0]
        data = recipe.data(cell)
        model, method = recipe.model(cell, data), recipe.method(cell, data)
        method.attach(model)
        assert method.predict(model, data.validation.modalities).shape == (10, outputs)


def test_every_method_has_as_many_candidates_and_all_are_different():
    for name in ("vanilla", "unimodal-a", *OWN):
        for budget in (1, 4, CANDIDATES):
            tried = candidates(name, budget)
            assert len({tuple(c.items()) for c in tried}) == budget
        assert {c["lr"] for c in candidates(name, 3)} == {1e-3, 3e-3, 1e-2}
        assert {c["dropout"] for c in candidates(name, 2)} == {0.0, 0.3}
        own = [key for key in candidates(name, 1)[0] if key not in ("lr", "dropout")]
        assert own == (["weight"] if name in OWN else ["weight_decay"])
        assert len({c[own[0]] for c in candidates(name, 3)}) == 3
    with pytest.raises(ValueError, match="budget is how many candidates each method gets, at most 18; got 19"):
        candidates("vanilla", 19)


def test_no_batch_is_a_row_alone_and_training_ends():
    for rows in [*range(2, 6000), *range(50_000, 50_600)]:
        batch, epochs = pace(rows)
        assert rows % batch != 1
        assert 2 <= epochs <= 40


def test_folds_are_cut_to_one_size_where_that_costs_less_than_a_row_each_and_test_rows_never_are():
    made = table(n=43)
    parts = folds(made, 4)
    recipe = Own(made, parts)
    assert {len(f.train) for f in parts} == {21, 22}
    assert {(len(f.train), len(f.validation)) for f in recipe.parts} == {(21, 10)}
    for before, after in zip(parts, recipe.parts, strict=True):
        assert np.array_equal(before.test, after.test)
        assert set(after.train) <= set(before.train)
        assert set(after.validation) <= set(before.validation)
        assert np.bincount(made.target[after.train]).min() >= 10
    assert "each has 21 training and 10 validation rows: up to 1 of each were left out" in recipe.notes[0]
    assert len(programs(recipe.cells("vanilla", 2))) == 2  # with dropout and without, all folds together


def test_folds_of_very_different_sizes_are_trained_apart_and_whole():
    group = np.array([f"g{i // 12}" if i < 36 else f"g{i}" for i in range(40)])
    made = replace(table(), group=group)
    parts = folds(made, 3)
    recipe = Own(made, [parts[0], parts[1]._replace(train=parts[1].train[:5])])
    assert recipe.notes == ()
    assert [len(f.train) for f in recipe.parts] == [len(parts[0].train), 5]
    assert len(programs(recipe.cells("vanilla", 1))) == 2


def test_networks_are_narrow_where_rows_are_few():
    widths = {}
    for n in (100, 2000, 20_000):
        made = table(n=n)
        recipe = Own(made, folds(made, 5))
        widths[n] = recipe.width
        assert recipe.settings("vanilla", {}, 0)["hidden"] == [recipe.width] * 2
    assert widths == {100: 32, 2000: 64, 20_000: 128}


def test_what_cannot_be_trained_on_is_one_sentence():
    made = table(classes=0, target=np.r_[np.full(30, 5.0), np.arange(10)])
    with pytest.raises(ValueError, match="The target is 5 in all 30 rows to train on"):
        Scaling.of(made, np.arange(30))
    with pytest.raises(ValueError, match="There are no folds"):
        Own(made, [])
    with pytest.raises(ValueError, match="needs validation rows"):
        Own(made, [Fold(np.arange(10), np.arange(0), np.arange(10, 20))])
    with pytest.raises(ValueError, match="At least 2 rows are needed to train on; there is 1"):
        Own(made, [Fold(np.arange(1), np.arange(2, 4), np.arange(10, 20))])
    with pytest.raises(ValueError, match="epochs is a whole number of at least 1; got 0"):
        Own(made, folds(made, 4), epochs=0)


def test_the_weight_of_one_synib_model_falls_to_nothing_before_training_ends():
    made = table()
    own = Own(made, folds(made, 4))
    settings = own.settings("synib-random", {"lr": 1e-3, "dropout": 0.0, "weight": 3.0}, 0)
    steps = settings["epochs"] * math.ceil(settings["rows"][0] / settings["batch_size"])
    assert settings["weight_steps"] == 4 * steps // 5
    objective = make_method("synib-random", own.family, settings)
    assert [objective.weight(torch.tensor(step)).item() for step in (0, steps)] == [3.0, 0.0]
    assert "weight_schedule" not in own.settings("experts", {"lr": 1e-3, "dropout": 0.0, "weight": 3.0}, 0)


def test_the_rows_of_a_file_are_not_changed():
    made = table(lacks=["b"])
    recipe = Own(made, folds(made, 4))
    before = made.modalities["a"].copy()
    recipe.inputs(0, recipe.parts[0].train)
    assert np.array_equal(made.modalities["a"], before)
