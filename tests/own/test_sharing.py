"""Shards that are trained in several threads: the same models in the same order, one report at a time, and an end to errors."""

import threading
import time
from itertools import chain

import numpy as np
import pytest
import torch

from synib.own import cell_training, sharing
from synib.own.cell_training import train_cells
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.learning_curve import learning_curve
from synib.own.recipe import TableRecipe
from synib.own.sharing import ShardPool
from synib.own.subset import controls

METHODS = ["unimodal-a", "vanilla", "additive", "synib-random", "experts"]


@pytest.fixture
def in_threads(monkeypatch):
    """Trains shards in three threads on a CPU, too; the names of the threads that trained one are added to the list."""
    used, train_shard = [], cell_training._train_shard

    def named(*arguments):
        used.append(threading.current_thread().name)
        return train_shard(*arguments)

    def use(count=3):
        monkeypatch.setattr(sharing, "threads_on", lambda device: count)
        monkeypatch.setattr(cell_training, "_train_shard", named)
        return used

    return use


def assert_same(ours, theirs):
    """Whether two methods have the same models and predictions, to the last digit."""
    assert ours.chosen == theirs.chosen
    for name in ("predictions", "losses", "temperature"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name), equal_nan=True)
    assert all(np.array_equal(a, b) for a, b in zip(ours.validation, theirs.validation, strict=True))
    for mine, other in zip(chain(*ours.learners), chain(*theirs.learners), strict=True):
        here, there = mine.state_dict(), other.state_dict()
        assert list(here) == list(there)
        assert all(torch.equal(here[name], there[name]) for name in here)


@pytest.mark.parametrize("lacks", [0.0, 0.3])
def test_models_of_several_threads_are_those_of_one(table, in_threads, lacks):
    made = table(n=120, lacks=lacks)
    run = {"parts": folds(made, 3), "methods": METHODS, "budget": 3, "seeds": 2, "epochs": 4, "device": "cpu"}
    alone = train(made, **run)
    used = in_threads()
    together = train(made, **run)
    assert list(together.methods) == METHODS
    for name in METHODS:
        assert_same(together.methods[name], alone.methods[name])
    assert {settings["dropout"] for name in METHODS for settings in alone.methods[name].chosen} == {0.0, 0.3}
    assert len(set(used)) == 3
    assert all(name.startswith("synib-shard") for name in used)


def test_controls_and_learning_curve_of_several_threads_are_those_of_one(table, in_threads):
    made = table(n=120)
    outcome = train(made, folds(made, 3), ["vanilla", "experts"], budget=1, seeds=2, epochs=4, device="cpu")
    alone = controls(outcome, ["vanilla", "experts"], "cpu"), learning_curve(outcome, "cpu")
    used = in_threads()
    together = controls(outcome, ["vanilla", "experts"], "cpu"), learning_curve(outcome, "cpu")
    for name, control in alone[0].items():
        assert_same(together[0][name], control)
        assert not np.array_equal(control.predictions, outcome.methods[name].predictions)
    assert together[1] == alone[1]
    assert len(used) == 6
    assert len(set(used)) > 1


def test_progress_of_several_threads_only_grows_and_is_complete(table, in_threads):
    made, reports, inside = table(n=60), [], threading.Lock()

    def report(done, total):
        assert inside.acquire(blocking=False)
        time.sleep(0.001)
        reports.append((done, total))
        inside.release()

    in_threads()
    train(made, folds(made, 3), METHODS, budget=2, epochs=3, device="cpu", on_progress=report)
    done, totals = zip(*reports, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert done[-1] == pytest.approx(totals[0])


@pytest.mark.parametrize("method", ["experts", "synib-random", "vanilla"])  # the three that begin
def test_an_error_in_a_thread_is_raised_as_it_is_and_ends_the_other_shards(method, table, in_threads, monkeypatch):
    made, epochs, used = table(n=60), [], in_threads()
    train_shard = cell_training._train_shard

    def failing(recipe, shard, *rest):
        if shard[0].method == method:
            raise ValueError(f"Training {method} failed.")
        return train_shard(recipe, shard, *rest)

    monkeypatch.setattr(cell_training, "_train_shard", failing)
    run = {"budget": 1, "epochs": 1000, "device": "cpu", "on_progress": lambda done, total: epochs.append(done)}
    with pytest.raises(ValueError, match=f"Training {method} failed"):
        train(made, folds(made, 3), METHODS, **run)
    assert len(epochs) < 500
    assert len(used) < 3  # those that were waiting have not begun
    assert not [t for t in threading.enumerate() if t.name.startswith("synib-shard")]


def test_an_interrupt_ends_all_threads(table, in_threads, monkeypatch):
    made, epochs = table(n=60), []
    in_threads()

    def interrupt(programs):
        raise KeyboardInterrupt

    monkeypatch.setattr("synib.own.fitting.merged", interrupt)
    run = {"budget": 1, "epochs": 1000, "device": "cpu", "on_progress": lambda done, total: epochs.append(done)}
    with pytest.raises(KeyboardInterrupt):
        train(made, folds(made, 3), METHODS, **run)
    assert len(epochs) < 500
    assert not [t for t in threading.enumerate() if t.name.startswith("synib-shard")]


def test_a_mistake_in_a_report_of_progress_is_raised(table, in_threads):
    made = table(n=60)
    in_threads()
    with pytest.raises(ZeroDivisionError):
        train(
            made, folds(made, 3), METHODS, budget=1, epochs=2, device="cpu", on_progress=lambda done, of: done and 1 / 0
        )


def test_shards_that_may_not_fit_train_in_the_calling_thread_after_the_others(table, in_threads, monkeypatch):
    made, used = table(n=60), in_threads()
    recipe = TableRecipe(made, folds(made, 3), 2)
    cells = recipe.cells("vanilla", budget=3)
    small, large = (sum(cell.settings["dropout"] == p for cell in cells) for p in (0.3, 0.0))
    assert small < large
    monkeypatch.setattr(cell_training, "most_bytes", lambda recipe, cells: len(cells))
    monkeypatch.setattr(ShardPool, "fits", lambda self, size: size <= small)
    trained = train_cells(recipe, cells, "cpu")
    assert [name == "MainThread" for name in used] == [False, True]
    in_threads(1)
    alone = train_cells(recipe, cells, "cpu")
    assert all(torch.equal(trained[cell.id].validation, alone[cell.id].validation) for cell in cells)


@pytest.mark.parametrize(("count", "share"), [(2, 0.25), (3, 0.25), (4, 0.2125)])
def test_all_threads_together_have_the_memory_that_their_shards_need(in_threads, count, share):
    in_threads(count)
    with ShardPool("cpu") as pool:
        pool.free = 1000.0
        assert pool.fits(1000 * share - 1)
        assert not pool.fits(1000 * share)


def test_on_a_cpu_functions_run_one_after_the_other_in_the_calling_thread_when_their_results_are_demanded():
    calls = []
    with ShardPool("cpu") as pool:
        assert not pool.fits(0)
        results = [pool.submit(lambda i=i: calls.append((i, threading.current_thread())) or i, True) for i in range(3)]
        assert calls == []
        assert [result() for result in results] == [0, 1, 2]
    assert calls == [(i, threading.main_thread()) for i in range(3)]
