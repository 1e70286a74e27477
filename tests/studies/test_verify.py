"""Do a run's numbers come out again?"""

import json
import shutil
from pathlib import Path

import pytest

import synib
from synib.files import read_csv, write_csv
from synib.studies import SpuriousXOR, run
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.verify import compare, verify
from synib.training import Cell

SMALL = SpuriousXOR(seeds=3, beta=(0.0, 1.0), methods=("vanilla", "synib-random"), epochs=2)
PUBLISHED = Path(synib.__file__).parents[2] / "docs" / "results" / "spurious-xor"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run(SMALL, tmp_path_factory.mktemp("run") / "out", device="cpu")


@pytest.fixture
def folder(made, tmp_path):
    """A copy that may be changed, with what a published folder has."""
    for name in ("config.json", "results.csv", "run.json", "timings.csv"):
        shutil.copy(made / name, tmp_path)
    return tmp_path


def test_a_run_verifies_and_is_left_as_it_is(folder):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    found = verify(folder, share=1.0, device="cpu")
    assert found.matches
    assert (len(found.cells), found.of) == (12, 12)
    assert {one.state for one in found.cells} <= {"identical", "within tolerance"}
    assert all(one.metrics == 3 for one in found.cells)
    assert found.differences == found.data == ()
    assert found.tolerance == 0.01
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_share_is_at_least_one_cell_and_the_seed_decides_which(folder):
    drawn = [tuple(one.cell.id for one in verify(folder, seed=seed, device="cpu").cells) for seed in (0, 0, 1, 2, 3)]
    assert all(len(one) == 1 for one in drawn)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    assert len(verify(folder, cells=2, device="cpu").cells) == 2


def change(folder, place, **values):
    rows = read_csv(folder / "results.csv")
    rows[place] |= values
    write_csv(folder / "results.csv", rows)
    return rows[place]


def test_a_number_that_was_changed_is_found_when_its_cell_is_drawn(folder):
    right = read_csv(folder / "results.csv")[5]["test_accuracy"]
    changed = change(folder, 5, test_accuracy=right - 0.02)
    found = verify(folder, share=1.0, device="cpu")
    assert not found.matches
    (wrong,) = [one for one in found.cells if one.state == "differs"]
    assert wrong.cell.id == changed["cell"]
    assert wrong.where.startswith("test_accuracy: ")
    assert wrong.largest == pytest.approx(0.02, abs=1e-5)
    assert wrong.equal == 2
    assert verify(folder, share=1.0, tolerance=0.05, device="cpu").matches


def test_a_cell_under_another_name_and_a_metric_that_is_gone_differ(folder):
    change(folder, 0, seed=2, validation_accuracy=None)
    (wrong,) = [one for one in verify(folder, share=1.0, device="cpu").cells if one.state == "differs"]
    assert wrong.largest == float("inf")


def test_other_versions_and_machines_are_said_and_more_is_allowed(folder):
    record = json.loads((folder / "run.json").read_text())
    record["versions"]["torch"] = "1.0"
    record["precision"] = "tf32"
    (folder / "run.json").write_text(json.dumps(record))
    rows = read_csv(folder / "timings.csv")
    write_csv(folder / "timings.csv", [row | {"device": "a large GPU"} for row in rows])
    found = verify(folder, cells=1, device="cpu")
    assert found.matches
    assert found.tolerance == 0.1
    said = " ".join(found.differences)
    assert "torch was 1.0 there and is" in said
    assert "The run was on a large GPU; this is" in said
    assert "The run was in tf32, which cpu has not: this is in float32." in said


def test_other_data_are_said_and_do_not_match(digits_root, tmp_path):
    shutil.copytree(digits_root, tmp_path / "data")
    changes = {"vanilla": {"epochs": 1, "hidden": 8, "latent": 4}}
    few = DigitsScarce(seeds=1, methods=("vanilla",), root=str(tmp_path / "data"), overrides=changes)
    out = run(few, tmp_path / "out", device="cpu")
    assert verify(out, device="cpu").matches
    readme = tmp_path / "data" / "digits" / "mnist-test.npz"
    record = json.loads((out / "run.json").read_text())
    record["data"]["digits"][readme.name] = "0" * 64
    (out / "run.json").write_text(json.dumps(record))
    found = verify(out, device="cpu")
    assert found.data == ("digits",)
    assert not found.matches
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ValueError, match="root is a folder with data"):
        verify(out, device="cpu")


def test_differences_are_relative_above_one_and_text_must_be_the_same():
    cell = Cell("e", "m", {"beta": 1.0}, {}, 0)
    row = {"method": "m", "beta": 1.0, "seed": 0, "strength": 100.0, "accuracy": 0.5, "versions": "a"}
    assert compare(cell, row, row | {"versions": "b"}, 0).state == "identical"
    found = compare(cell, row, row | {"strength": 99.5}, 0.01)
    assert (found.state, found.largest, found.equal, found.metrics) == ("within tolerance", 0.005, 1, 2)
    assert compare(cell, row, row | {"accuracy": 0.515}, 0.01).state == "differs"
    assert compare(cell, row | {"error": "diverged"}, row, 1.0).state == "differs"


def test_a_published_folder_verifies(tmp_path):
    found = verify(PUBLISHED, cells=1, seed=2, device="cpu")
    assert found.matches
    assert found.of == 420


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda p: (p / "results.csv").write_text(""), "holds no table"),
        (lambda p: (p / "results.csv").unlink(), r"There is no results\.csv"),
        (lambda p: (p / "results.csv").write_text("cell,seed\n"), "it has no rows"),
        (lambda p: (p / "results.csv").write_text("seed,method\n1,vanilla\n"), "no column of cells"),
        (lambda p: (p / "results.csv").write_text("cell,seed\nabc,1\n"), "1 of 1 cells that are none of its config"),
        (lambda p: change(p, 0, cell=read_csv(p / "results.csv")[1]["cell"]), "it has a cell twice"),
        (lambda p: (p / "config.json").unlink(), "not the folder of a run"),
        (lambda p: (p / "run.json").write_text('{"precision": 3}'), "precision is 3"),
    ],
)
def test_a_mistake_is_a_sentence(folder, untrained, harm, said):
    harm(folder)
    with pytest.raises(ValueError, match=said):
        verify(folder, device="cpu")


@pytest.mark.parametrize(
    "wrong", [{"share": 0.0}, {"share": 1.5}, {"cells": 0}, {"tolerance": -1.0}, {"device": "tpu"}]
)
def test_an_option_that_cannot_be_is_a_sentence(folder, untrained, wrong):
    with pytest.raises(ValueError, match=rf"--{next(iter(wrong))} is"):
        verify(folder, **({"device": "cpu"} | wrong))
