"""Runs of single forms, joined into one folder by ``benchmarks/join_runs.py``."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

import synib
from synib.files import read_csv, read_json
from synib.report import build
from synib.studies import FairSearch, run

FORMS = ("vanilla", "stacked")


@pytest.fixture(scope="module")
def join():
    file = Path(synib.__file__).parents[2] / "benchmarks" / "join_runs.py"
    spec = importlib.util.spec_from_file_location("join_runs", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.join


def search(*forms):
    tiny = {form: {"width": 4, "epochs": 1} for form in forms}
    return FairSearch(task=("pid-xor",), form=forms, seeds=1, overrides=tiny)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    def examine(self, cell, learner, data):
        far = abs(cell.settings["lr"] - 3e-3)  # at the edge of the first grid
        return {"total": 1 - far, "synergy": 0.5, "ece": 0.0, "ece_calibrated": 0.0, "log_loss": far}

    root = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairSearch, "examine", examine)
        return [run(search(form), root / form, device="cpu") for form in FORMS]


def test_joined_parts_are_as_one_run_with_all_extensions(parts, tmp_path, join):
    whole = join(tmp_path / "all", parts, commit="c0de")
    code = read_json(tmp_path / "all" / "run.json")["code"]
    assert (code["commit"], code["changed"], code["recorded"]) == (
        "c0de",
        False,
        read_json(parts[0] / "run.json")["code"],
    )
    assert whole.form == FORMS
    assert sorted(whole.extend) == sorted(e for part in parts for e in read_json(part / "config.json")["extend"])
    rows = read_csv(tmp_path / "all" / "results.csv")
    assert len(rows) == sum(len(read_csv(part / "results.csv")) for part in parts)
    assert {row["form"] for row in rows} == set(FORMS)
    build(tmp_path / "all")
    assert read_json(tmp_path / "all" / "settings.json")["pid-xor"].keys() == set(FORMS)


def test_of_a_stopped_search_finished_candidates_are_kept_and_a_part_without_its_first_grid_is_left_out(
    parts, tmp_path, join, capsys
):
    shutil.copytree(parts[0], tmp_path / "a")
    shutil.copytree(parts[1], tmp_path / "b")
    recorded = read_json(tmp_path / "a" / "shards.json")
    last = recorded[-1]
    for file in (tmp_path / "a" / "shards").glob("*.json"):
        if [row["cell"] for row in json.loads(file.read_text())["rows"]] == last:
            file.unlink()
    for file in sorted((tmp_path / "b" / "shards").glob("*.json"))[:-1]:
        file.unlink()
    whole = join(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    assert whole.form == ("vanilla",)
    assert len(read_csv(tmp_path / "all" / "results.csv")) == sum(map(len, recorded)) - len(last)
    assert "left out: b" in capsys.readouterr().out
