"""Are a run's numbers reproducible?"""

import json
import shutil
from pathlib import Path

import pytest

import synib
from synib.files import read_csv, read_json, write_csv
from synib.studies import SpuriousXOR, load, run
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.sample import recorded_shards
from synib.studies.verify import compare, verify
from synib.training import Cell

SMALL = SpuriousXOR(seeds=3, beta=(0.0, 1.0), methods=("vanilla", "synib-random"), epochs=1)
PUBLISHED = Path(synib.__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of 12 models in four shards."""
    return run(SMALL, tmp_path_factory.mktemp("run") / "out", device="cpu", together=3)


@pytest.fixture
def folder(finished, tmp_path):
    """A copy that may be changed, with what a published folder has."""
    for name in ("config.json", "results.csv", "run.json", "timings.csv"):
        shutil.copy(finished / name, tmp_path)
    return tmp_path


def test_a_run_verifies_and_is_left_as_it_is(folder):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    outcome = verify(folder, share=1.0, device="cpu")
    assert outcome.matches
    assert (len(outcome.cells), outcome.total) == (12, 12)
    assert all(one.state == "identical" and one.metrics == 3 for one in outcome.cells)
    assert outcome.differences == outcome.changed_data == ()
    assert outcome.tolerance == 0.01
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("recorded_in", ["shards.json", "timings.csv"])
def test_a_drawn_model_is_trained_again_with_its_whole_shard(finished, folder, recorded_in, monkeypatch):
    from synib.training import fleet

    trained, train = [], fleet.train
    monkeypatch.setattr(
        fleet, "train", lambda recipe, shard, *rest: (trained.append(shard), train(recipe, shard, *rest))[1]
    )
    if recorded_in == "shards.json":
        shutil.copy(finished / "shards.json", folder)
        (folder / "timings.csv").unlink()
    outcome = verify(folder, cells=1, device="cpu")
    assert [[cell.id for cell in shard] for shard in trained] == [[one.cell.id for one in outcome.cells]]
    assert [one.cell.id for one in outcome.cells] in read_json(finished / "shards.json")
    assert outcome.differences == ()


def test_where_no_shards_are_recorded_single_models_are_trained_and_more_is_allowed(folder):
    (folder / "timings.csv").unlink()
    outcome = verify(folder, cells=2, device="cpu")
    assert len(outcome.cells) == 2
    assert "in other groups than in the run" in " ".join(outcome.differences)
    assert outcome.tolerance == 0.1


@pytest.mark.parametrize("name", ["spurious-xor", "pid-simplex", "forms"])  # the last was halved, and has another order
def test_the_shards_of_published_folders_are_found(name):
    cells = load(PUBLISHED / name).cells()
    shards = recorded_shards(PUBLISHED / name, cells)
    assert len(shards) == len(read_csv(PUBLISHED / name / "timings.csv"))
    assert sum(map(len, shards)) == len(cells)


def test_a_published_folder_verifies():
    outcome = verify(PUBLISHED / "spurious-xor", cells=1, seed=6, device="cpu")
    assert outcome.matches
    assert outcome.total == 420


def test_the_seed_decides_what_is_drawn(folder):
    (folder / "timings.csv").unlink()
    drawn = [tuple(one.cell.id for one in verify(folder, seed=seed, device="cpu").cells) for seed in (0, 0, 1, 2)]
    assert all(len(one) == 1 for one in drawn)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def change(folder, place, **values):
    rows = read_csv(folder / "results.csv")
    rows[place] |= values
    write_csv(folder / "results.csv", rows)
    return rows[place]


def test_a_changed_number_is_detected(folder):
    right = read_csv(folder / "results.csv")[5]["test_accuracy"]
    changed = change(folder, 5, test_accuracy=right - 0.02)
    change(folder, 0, seed=2, validation_accuracy=None)
    outcome = verify(folder, share=1.0, device="cpu")
    assert not outcome.matches
    missing, wrong = (one for one in outcome.cells if one.state == "differs")
    assert missing.largest == float("inf")
    assert wrong.cell.id == changed["cell"]
    assert wrong.where.startswith("test_accuracy: ")
    assert wrong.largest == pytest.approx(0.02, abs=1e-5)
    assert wrong.equal == 2


def test_other_versions_and_machines_are_named_and_more_is_allowed(folder):
    record = json.loads((folder / "run.json").read_text())
    record["versions"]["torch"] = "1.0"
    record["precision"] = "tf32"
    (folder / "run.json").write_text(json.dumps(record))
    rows = read_csv(folder / "timings.csv")
    write_csv(folder / "timings.csv", [row | {"device": "a large GPU"} for row in rows])
    outcome = verify(folder, cells=1, device="cpu")
    assert outcome.matches
    assert outcome.tolerance == 0.1
    assert len(outcome.cells) == 1
    named = " ".join(outcome.differences)
    assert all(word in named for word in ("torch was 1.0", "a large GPU", "tf32", "other groups"))


def test_another_kind_of_cpu_is_another_machine(folder):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"hardware": "an abacus"}))
    outcome = verify(folder, cells=1, device="cpu")
    assert "an abacus" in outcome.differences[0]
    assert outcome.tolerance == 0.1


def test_other_data_do_not_match(digits_root, tmp_path):
    shutil.copytree(digits_root, tmp_path / "data")
    changes = {"vanilla": {"epochs": 1, "hidden": 8, "latent": 4}}
    few = DigitsScarce(seeds=1, methods=("vanilla",), root=str(tmp_path / "data"), overrides=changes)
    out = run(few, tmp_path / "out", device="cpu")
    record = json.loads((out / "run.json").read_text())
    record["data"]["digits"]["mnist-test.npz"] = "0" * 64
    (out / "run.json").write_text(json.dumps(record))
    outcome = verify(out, device="cpu")
    assert outcome.changed_data == ("digits",)
    assert not outcome.matches
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ValueError, match="root must be a folder with data"):
        verify(out, device="cpu")


def test_differences_are_relative_above_one_and_text_must_be_the_same():
    cell = Cell("e", "m", {"beta": 1.0}, {}, 0)
    row = {"method": "m", "beta": 1.0, "seed": 0, "strength": 100.0, "accuracy": 0.5, "versions": "a"}
    assert compare(cell, row, row | {"versions": "b"}, 0).state == "identical"
    relative = compare(cell, row, row | {"strength": 99.5}, 0.01)
    assert (relative.state, relative.largest, relative.equal, relative.metrics) == ("within tolerance", 0.005, 1, 2)
    assert compare(cell, row, row | {"accuracy": 0.515}, 0.01).state == "differs"
    assert compare(cell, row | {"error": "diverged"}, row, 1.0).state == "differs"


def test_a_difference_of_exactly_the_tolerance_is_within_it():
    cell = Cell("e", "m")
    assert 1.0 - 0.99 > 0.01  # in floating point
    assert compare(cell, {"accuracy": 0.99}, {"accuracy": 1.0}, 0.01).state == "within tolerance"
    assert compare(cell, {"accuracy": 0.989999}, {"accuracy": 1.0}, 0.01).state == "differs"


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda p: (p / "results.csv").write_text(""), "contains no table"),
        (lambda p: (p / "results.csv").unlink(), r"There is no results\.csv"),
        (lambda p: (p / "results.csv").write_text("cell,seed\n"), "it has no rows"),
        (lambda p: (p / "results.csv").write_text("seed,method\n1,vanilla\n"), "no column of cells"),
        (
            lambda p: (p / "results.csv").write_text("cell,seed\nabc,1\n"),
            "1 of 1 cells that do not belong to its config",
        ),
        (lambda p: write_csv(p / "results.csv", read_csv(p / "results.csv")[1:]), "it has 11 of 12 cells"),
        (lambda p: change(p, 0, cell=read_csv(p / "results.csv")[1]["cell"]), "it contains a cell twice"),
        (lambda p: (p / "config.json").unlink(), "not the folder of a run"),
        (lambda p: (p / "run.json").write_text('{"precision": 3}'), "precision is 3"),
        (lambda p: (p / "shards.json").write_text('[["abc"]]'), "does not contain the cells of the run"),
        (lambda p: (p / "shards.json").write_text("3"), "does not contain the cells of the run"),
    ],
)
def test_a_damaged_folder_is_refused(folder, untrained, harm, problem):
    harm(folder)
    with pytest.raises(ValueError, match=problem):
        verify(folder, device="cpu")


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.5}, {"cells": 0}, {"tolerance": -1.0}])
def test_an_impossible_option_is_refused(folder, untrained, wrong):
    with pytest.raises(ValueError, match=rf"^{next(iter(wrong))} must be"):
        verify(folder, **({"device": "cpu"} | wrong))
