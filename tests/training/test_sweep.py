"""Sweeps: resumed, killed and repeated ones end with the same bytes."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from synib.files import read_csv, read_json
from synib.training import fleet
from synib.training.sweep import row


@pytest.fixture
def trained(monkeypatch):
    """The ids of the cells of every shard that is trained."""
    seen, train = [], fleet.train

    def spied(recipe, shard, *rest):
        seen.append([c.id for c in shard])
        return train(recipe, shard, *rest)

    monkeypatch.setattr(fleet, "train", spied)
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny, cells, run):
    """A finished run, two models at a time: its folder, its tables, and the ids of each shard in the order of training."""
    path = tmp_path_factory.mktemp("whole")
    tables = run(path, tiny(), cells, together=2)
    return SimpleNamespace(path=path, tables=tables, shards=read_json(path / "shards.json"))


@pytest.fixture
def copied(whole, tmp_path):
    """A copy of its folder, with the times of its files."""
    return shutil.copytree(whole.path, tmp_path / "copy")


def test_a_sweep_leaves_a_row_for_every_cell(whole, cells):
    rows = read_csv(whole.path / "results.csv")
    assert list(rows[0]) == [
        "experiment", "method", "beta", "seed", "train_accuracy", "validation_accuracy", "test_accuracy", "cell",
        "versions",
    ]  # fmt: skip
    assert [(r["method"], r["beta"], r["seed"], r["cell"]) for r in rows] == [
        (c.method, c.factors["beta"], c.seed, c.id) for c in cells
    ]
    assert all(0 <= r["test_accuracy"] <= 1 and f"torch {torch.__version__}" in r["versions"] for r in rows)
    kinds = {(c.method, c.factors["beta"]) for c in cells}
    assert len(read_csv(whole.path / "curves.csv")) == len(kinds) * 2 * 2  # two epochs, training and validation
    assert len(whole.shards) == 3


@pytest.mark.parametrize("together", [1, 100])
def test_the_rows_do_not_depend_on_how_many_train_at_once(tmp_path, tiny, cells, whole, run, together):
    run(tmp_path, tiny(), cells, together=together)
    for a, b in zip(read_csv(whole.path / "results.csv"), read_csv(tmp_path / "results.csv"), strict=True):
        assert a.keys() == b.keys()
        assert all(a[name] == pytest.approx(b[name]) for name in a)


@pytest.mark.parametrize("calls", [0, 3, 8])
def test_a_run_killed_anywhere_trains_what_is_left_and_nothing_else(
    tmp_path, tiny, cells, device, run, run_killed, calls
):
    tables = run(tmp_path / "whole", tiny(), cells, together=2)
    everything = list(device.tried)
    finished = run_killed(calls, tmp_path / "killed", tiny(), cells, together=2)
    device.tried.clear()
    assert run(tmp_path / "killed", tiny(), cells, together=5) == tables
    assert device.tried == everything[finished:]


def test_what_is_finished_is_written_before_the_next_shard_begins(tmp_path, tiny, cells, device, run):
    written = []
    run(
        tmp_path,
        tiny(),
        cells,
        together=2,
        on_progress=lambda *_: written.append(len(list((tmp_path / "shards").iterdir()))),
    )
    assert written == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]  # the start, then two epochs and an end for each of three shards


def test_a_finished_run_is_not_trained_again(tiny, cells, whole, copied, run, kept, trained):
    before = kept(copied)
    assert run(copied, tiny(), cells, together=1) == whole.tables
    assert trained == []
    assert kept(copied) == before


def test_progress_rises_to_all_there_is_and_a_dearer_method_counts_more(tmp_path, tiny, cells, device, run):
    seen = []
    run(tmp_path, tiny(), cells, together=2, on_progress=lambda done, of: seen.append((done, of)))
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(seen[-1][1])
    assert len({of for _, of in seen}) == 1
    assert done[:2] == [0, pytest.approx(2)]  # an epoch of two vanilla models
    assert done[7] - done[6] > 2  # and of two with random masks
    seen.clear()
    run(tmp_path, tiny(), cells, on_progress=lambda done, of: seen.append((done, of)))
    assert seen == [(done[-1], done[-1])]  # all is finished


def test_a_row_has_no_clock_and_no_nan_in_it(cell):
    result = row(cell(seed=4), {"test_accuracy": 0.5, "test_accuracy_S": float("nan")})
    assert list(result) == ["experiment", "method", "beta", "seed", "test_accuracy", "cell", "versions"]
