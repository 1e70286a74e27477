"""Whole sweeps: resumed, killed and repeated ones end with the same bytes."""

import shutil

import pytest
import torch

from synib.engines import fleet
from synib.engines.folder import Folder, read_csv, read_json
from synib.engines.sweep import choose_device, device_name, row, sweep

CONFIG = {"experiment": "tiny"}
TABLES = ("results.csv", "curves.csv", "shards.json")


@pytest.fixture
def cells(cell):
    """Five cells in two programs: two at a time they make three shards, vanilla 2 + 1 and random 2."""
    return [cell(seed=s) for s in range(3)] + [cell("synib-random", seed=s, beta=0.5) for s in range(2)]


@pytest.fixture
def trained(monkeypatch):
    """The ids of the cells of every shard that is trained."""
    seen, train = [], fleet.train

    def spied(recipe, shard, *rest):
        seen.append([c.id for c in shard])
        return train(recipe, shard, *rest)

    monkeypatch.setattr(fleet, "train", spied)
    return seen


def run(path, recipe, cells, **options):
    sweep(recipe, cells, Folder(path, CONFIG), **options)
    return {name: (path / name).read_bytes() for name in TABLES}


class Killed(BaseException):
    pass


def killed_after(n):
    """Progress that ends the run at its nth call."""
    left = iter(range(n))

    def progress(done, of):
        if next(left, None) is None:
            raise Killed

    return progress


def test_a_sweep_leaves_a_row_for_every_cell(tmp_path, tiny, cells):
    run(tmp_path, tiny(), cells, together=2)
    rows = read_csv(tmp_path / "results.csv")
    assert list(rows[0]) == [
        "experiment", "method", "beta", "seed", "train_accuracy", "validation_accuracy", "test_accuracy", "cell",
        "versions",
    ]  # fmt: skip
    assert [(r["method"], r["beta"], r["seed"], r["cell"]) for r in rows] == [
        (c.method, c.factors["beta"], c.seed, c.id) for c in cells
    ]
    assert all(0 <= r["test_accuracy"] <= 1 and f"torch {torch.__version__}" in r["versions"] for r in rows)
    kinds = {(c.method, c.factors["beta"]) for c in cells}
    assert len(read_csv(tmp_path / "curves.csv")) == len(kinds) * 2 * 2  # two epochs, training and validation
    assert len(read_json(tmp_path / "shards.json")) == 3


def test_the_rows_do_not_depend_on_how_many_train_at_once(tmp_path, tiny, cells):
    run(tmp_path / "one", tiny(), cells, together=1)
    run(tmp_path / "all", tiny(), cells, together=100)
    one, together = read_csv(tmp_path / "one" / "results.csv"), read_csv(tmp_path / "all" / "results.csv")
    for a, b in zip(one, together, strict=True):
        assert a.keys() == b.keys()
        assert all(a[name] == pytest.approx(b[name]) for name in a)


@pytest.mark.parametrize("calls", [0, 2, 3, 5, 8])
def test_a_killed_run_goes_on_where_it_stopped_and_ends_with_the_same_bytes(tmp_path, tiny, cells, trained, calls):
    whole = run(tmp_path / "whole", tiny(), cells, together=2)
    everything = list(trained)
    trained.clear()

    with pytest.raises(Killed):
        run(tmp_path / "killed", tiny(), cells, together=2, on_progress=killed_after(calls))
    finished = len(list((tmp_path / "killed" / "shards").glob("*.json")))
    assert not (tmp_path / "killed" / "results.csv").exists()
    trained.clear()

    # With another shard size: the grouping that was recorded holds.
    assert run(tmp_path / "killed", tiny(), cells, together=5) == whole
    assert trained == everything[finished:]


def test_what_is_finished_is_written_before_the_next_shard_begins(tmp_path, tiny, cells):
    there = []
    run(
        tmp_path,
        tiny(),
        cells,
        together=2,
        on_progress=lambda *_: there.append(len(list((tmp_path / "shards").iterdir()))),
    )
    assert there == [0, 0, 1, 1, 1, 2, 2, 2, 3]  # two epochs and an end for each of three shards


def test_a_finished_run_is_not_trained_again(tmp_path, tiny, cells, trained):
    first = run(tmp_path, tiny(), cells, together=2)
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "shards").iterdir()}
    trained.clear()
    assert run(tmp_path, tiny(), cells, together=1) == first
    assert trained == []
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "shards").iterdir()} == kept


def test_a_removed_shard_is_trained_again_alone(tmp_path, tiny, cells, trained):
    first = run(tmp_path, tiny(), cells, together=2)
    trained.clear()
    gone = sorted((tmp_path / "shards").iterdir())[0]
    gone.unlink()
    assert run(tmp_path, tiny(), cells, together=2) == first
    assert len(trained) == 1
    assert gone.exists()


def test_a_damaged_shard_costs_nothing_but_itself(tmp_path, tiny, cells):
    first = run(tmp_path / "a", tiny(), cells, together=2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    damaged = sorted((tmp_path / "b" / "shards").iterdir())[0]
    damaged.write_text(damaged.read_text()[:40])
    with pytest.raises(ValueError, match=r"damaged.*remove it and run again"):
        run(tmp_path / "b", tiny(), cells)
    damaged.unlink()
    assert run(tmp_path / "b", tiny(), cells) == first


def test_progress_rises_to_all_there_is_and_a_dearer_method_counts_more(tmp_path, tiny, cells):
    seen = []
    run(tmp_path, tiny(), cells, together=2, on_progress=lambda done, of: seen.append((done, of)))
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(seen[-1][1])
    assert len({of for _, of in seen}) == 1
    assert done[0] == pytest.approx(2)  # an epoch of two vanilla models
    assert done[6] - done[5] > 2  # and of two with random masks
    seen.clear()
    run(tmp_path, tiny(), cells, on_progress=lambda done, of: seen.append((done, of)))
    assert len(seen) == 3  # finished shards pass at once
    assert seen[-1][0] == pytest.approx(seen[-1][1])


def test_a_row_has_no_clock_and_no_nan_in_it(cell):
    made = row(cell(seed=4), {"test_accuracy": 0.5, "test_accuracy_S": float("nan")})
    assert list(made) == ["experiment", "method", "beta", "seed", "test_accuracy", "cell", "versions"]


def test_auto_is_a_device_that_is_there():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == "cpu"
    assert "CPU" in device_name("cpu")


@pytest.mark.parametrize("wrong", ["gpu", "", "tpu:0", "meta"])
def test_a_device_that_is_none_is_quoted(wrong):
    with pytest.raises(ValueError, match=f"--device is auto, cpu or cuda; got '{wrong}'"):
        choose_device(wrong)


def test_cuda_where_there_is_none_is_said_and_never_replaced_in_silence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for asked in ("cuda", "cuda:0"):
        with pytest.raises(ValueError, match="finds no CUDA device here; use --device cpu"):
            choose_device(asked)
    assert choose_device("auto") == "cpu"
