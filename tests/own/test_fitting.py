"""Training on a user's rows: who finds an XOR, and whether test rows can be seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from synib.measure.stats import temperature, tempered
from synib.own.cell_training import log_loss
from synib.own.fitting import predict, train
from synib.own.folds import folds
from synib.own.recipe import TableRecipe
from synib.own.search_space import methods_of
from synib.own.sharing import at_once
from synib.training import fleet

FEW = {"epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def found(table):
    made = table(n=150)
    methods = ["unimodal-a", "unimodal-b", "vanilla", "synib-random", "experts"]
    return made, train(made, folds(made, 3), methods, budget=1, epochs=25, device="cpu")


def accuracy(outcome, made, method):
    said = torch.from_numpy(outcome.methods[method].predictions[0])
    return float((outcome.family.predict(said).numpy() == made.target).mean())


def test_synib_finds_an_xor_and_no_modality_alone_does(found):
    made, outcome = found
    for method in ("synib-random", "experts"):
        assert accuracy(outcome, made, method) > 0.93
        assert log_loss(outcome.family, outcome.calibrated(method)[0], made.target) < 0.35
    for method in ("unimodal-a", "unimodal-b"):
        assert accuracy(outcome, made, method) < 0.65


def test_every_row_is_predicted_by_a_model_of_the_fold_that_tests_it(found):
    made, outcome = found
    recipe = outcome.recipe
    for one in outcome.methods.values():
        assert one.predictions.shape == (1, 150, 1)
        assert np.isfinite(one.predictions).all()
        for i, fold in enumerate(outcome.parts):
            said = predict(one.learners[i][0], recipe.split(i, fold.test)).numpy()
            assert np.array_equal(one.predictions[0, fold.test], said)
            on_validation = predict(one.learners[i][0], recipe.split(i, fold.validation)).numpy()
            assert np.allclose(one.validation[i][0], on_validation, atol=1e-5)
            target = torch.from_numpy(made.target[fold.validation])
            fitted = temperature(torch.from_numpy(on_validation), target, outcome.family, pseudocount=1.0)
            assert one.temperature[0, i] == pytest.approx(fitted, rel=1e-3)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_all_methods_train_where_rows_lack_a_modality(classes, table):
    made = table(n=60, classes=classes, lacks=0.3)
    outcome = train(made, folds(made, 3), methods_of(made), budget=1, **FEW)
    assert list(outcome.methods) == methods_of(made)
    for one in outcome.methods.values():
        assert np.isfinite(one.predictions).all()
        assert one.predictions.shape == (1, 60, classes if classes > 2 else 1 if classes else 2)


@pytest.mark.parametrize("classes", [0, 2])
def test_nothing_but_predictions_of_test_rows_depends_on_test_rows(classes, table):
    split = np.where(np.arange(60) < 40, "train", "test")
    made = table(n=60, classes=classes, split=split)
    parts = folds(made)
    (train_rows, validation, test) = parts[0]
    target = made.target.copy()
    target[test] = np.roll(target[test], 7) if classes else target[test] * 100
    strange = {name: x.copy() for name, x in made.modalities.items()}
    for x in strange.values():
        x[test] = 50 - x[test]
    run = {"methods": ["vanilla", "synib-random"], "budget": 2, **FEW}
    before = train(made, parts, **run)
    other_targets = train(replace(made, target=target), parts, **run)
    other_rows = train(replace(made, modalities=strange), parts, **run)
    for method, one in before.methods.items():
        for other in (other_targets.methods[method], other_rows.methods[method]):
            assert one.chosen == other.chosen
            assert np.array_equal(one.losses, other.losses)
            assert np.array_equal(one.temperature, other.temperature)
            assert np.array_equal(one.validation[0], other.validation[0])
            ours, theirs = one.learners[0][0].state_dict(), other.learners[0][0].state_dict()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        same, changed = other_targets.methods[method].predictions, other_rows.methods[method].predictions
        assert np.array_equal(one.predictions, same, equal_nan=True)
        assert not np.array_equal(one.predictions[0, test], changed[0, test])
        assert np.isnan(one.predictions[0, np.r_[train_rows, validation]]).all()


def test_the_candidate_of_a_fold_is_the_best_on_its_validation_rows_over_seeds(table):
    made = table(n=60)
    outcome = train(made, folds(made, 3), ["vanilla"], budget=3, seeds=2, **FEW)
    one = outcome.methods["vanilla"]
    assert one.losses.shape == (3, 3)
    assert one.temperature.shape == (2, 3)
    assert [len(each) for each in one.learners] == [2, 2, 2]
    tried = [(3e-3, 0.0), (1e-3, 0.3), (1e-2, 0.0)]
    for i, fold in enumerate(outcome.parts):
        best = int(one.losses[i].argmin())
        assert (one.chosen[i]["lr"], one.chosen[i]["dropout"]) == tried[best]
        again = [
            log_loss(outcome.family, tempered(outcome.family, one.validation[i][s], one.temperature[s, i]),
                     made.target[fold.validation])
            for s in range(2)
        ]  # fmt: skip
        assert np.mean(again) == pytest.approx(one.losses[i, best], rel=1e-4)
    assert not np.array_equal(one.predictions[0], one.predictions[1])
    assert "1 methods, 3 candidates for each in each of 3 folds, 2 seeds: 18 models" in str(outcome)


def test_threads_are_as_many_afterwards_also_when_training_fails(monkeypatch, table):
    made, seen = table(n=30), []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    train(made, folds(made, 3), ["vanilla"], budget=1, **FEW)
    with pytest.raises(ZeroDivisionError):
        train(made, folds(made, 3), ["vanilla"], budget=1, on_progress=lambda done, of: done and 1 / 0, **FEW)
    assert seen == [1, 7, 1, 7]


def test_weights_of_rows_decide_training_choices_and_temperature(table):
    made = table(n=60)
    weight = np.where(np.arange(60) % 2, 3.0, 0.5)
    plain, weighted = (
        train(replace(made, weight=w), folds(made, 3), ["experts"], budget=2, **FEW) for w in (None, weight)
    )
    ours, theirs = weighted.methods["experts"], plain.methods["experts"]
    assert not np.array_equal(ours.losses, theirs.losses)
    assert not np.array_equal(ours.temperature, theirs.temperature)
    for i, fold in enumerate(weighted.parts):
        calibrated = tempered(weighted.family, ours.validation[i][0], ours.temperature[0, i])
        again = log_loss(weighted.family, calibrated, made.target[fold.validation], weight[fold.validation])
        assert again == pytest.approx(ours.losses[i].min(), rel=1e-4)
    same = train(replace(made, weight=np.ones(60)), folds(made, 3), ["vanilla"], budget=1, **FEW).methods["vanilla"]
    equal = train(made, folds(made, 3), ["vanilla"], budget=1, **FEW).methods["vanilla"]
    assert np.allclose(same.predictions, equal.predictions, atol=1e-4)


@pytest.mark.parametrize(("free", "together"), [(1 << 37, 12), (1 << 28, 7)])
def test_on_a_gpu_memory_is_measured_only_where_models_may_not_fit(table, monkeypatch, free, together):
    made = table(n=150)
    recipe = TableRecipe(made, folds(made, 3))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1 << 38))
    monkeypatch.setattr(fleet, "capacity", lambda *_: 7)
    cells = recipe.cells("vanilla", budget=2, seeds=2)
    assert at_once(recipe, cells, "cuda", None) == together
