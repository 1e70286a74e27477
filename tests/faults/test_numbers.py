"""A model whose numbers are none any more fails alone, with its cause and its last good state; the others go on."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from synib.files import read_csv
from synib.report import build
from synib.studies import SpuriousXOR, run
from synib.training import fleet
from synib.training.folder import Folder
from synib.training.sweep import sweep

SAID = "vanilla with seed 1 had a loss or a parameter that is not finite in epoch {} of 2 at learning rate {:g}"


@pytest.fixture
def with_failure(small):
    """The small experiment's cells, the second with a learning rate that no model survives."""
    first, second, third = small.cells()
    return [first, replace(second, settings={**second.settings, "lr": 1e20}), third]


@pytest.mark.parametrize("engine", ["fleet", "solo"])
def test_a_model_that_fails_leaves_a_row_with_its_cause_and_the_others_as_they_would_be(
    small, with_failure, tmp_path, engine
):
    alone, said = [with_failure[0], with_failure[2]], []
    sweep(small, alone, Folder(tmp_path / "alone", {}), engine=engine)
    assert "error" not in read_csv(tmp_path / "alone" / "results.csv")[0]
    assert not (tmp_path / "alone" / "failed").exists()
    folder = Folder(tmp_path / "run", {})
    sweep(small, with_failure, folder, engine=engine, say=said.append)
    rows = read_csv(folder.path / "results.csv")
    assert list(rows[0])[-3:] == ["cell", "versions", "error"]
    assert SAID.format(1, 1e20) in rows[1]["error"]
    assert [rows[1][name] for name in ("train_accuracy", "validation_accuracy", "test_accuracy")] == [None] * 3
    assert said == [
        f"1 of 3 models failed. The first error: {rows[1]['error']} The column error of results.csv lists all of them."
    ]
    for row, want in zip((rows[0], rows[2]), read_csv(tmp_path / "alone" / "results.csv"), strict=True):
        assert row.pop("error") is None
        assert row == pytest.approx(want)
    assert {row["n"] for row in read_csv(folder.path / "curves.csv")} == {2}

    # Its last good state are its initial weights: it failed in the first epoch.
    kept = load_file(folder.path / "failed" / f"{with_failure[1].id}.safetensors")
    torch.manual_seed(1)
    fresh = small.model(with_failure[1], small.data(with_failure[1]))
    assert all(torch.equal(kept[f"model.{name}"], p) for name, p in fresh.named_parameters())


def test_a_model_that_fails_later_is_held_at_its_last_good_epoch_and_stays_there(small, monkeypatch):
    cells = [replace(cell, settings={**cell.settings, "epochs": 4}) for cell in small.cells()]

    class Poisoned(fleet.StackedModels):
        def epoch(self, split, epoch):
            super().epoch(split, epoch)
            if epoch == 2:
                next(iter(self.parameters.values()))[1].fill_(float("inf"))

    good = fleet.train(small, [replace(cells[1], settings={**cells[1].settings, "epochs": 2})])
    untouched = fleet.train(small, cells)
    monkeypatch.setattr(fleet, "StackedModels", Poisoned)
    trained = fleet.train(small, cells)
    assert list(trained.failures) == [1]
    assert "in epoch 3 of 4" in trained.failures[1]
    assert (trained.metrics[1], trained.curves[1]) == ({}, {})
    for i in (0, 2):
        assert trained.metrics[i] == untouched.metrics[i]
        assert trained.curves[i] == untouched.curves[i]
    held, want = (dict(t.learners[i].named_parameters()) for t, i in ((trained, 1), (good, 0)))
    for name, p in want.items():
        torch.testing.assert_close(held[name], p)


def test_a_report_says_how_many_failed_and_leaves_them_out(tmp_path):
    half = SpuriousXOR(seeds=1, beta=(0.0, 1.0), methods=("vanilla", "confidence"), epochs=1)
    bad = {"vanilla": {"lr": 1e20}}
    path = run(replace(half, overrides=bad), tmp_path / "run", device="cpu")
    summary = build(path, interactive=False)
    assert {(row["method"], row["n"], row["mean"] is None) for row in summary} == {
        ("vanilla", 0, True),
        ("confidence", 1, False),
    }
    for name in ("README.md", "report.html"):
        assert "2 of 4 models failed" in (path / name).read_text()
    assert "all models of vanilla 0.0, vanilla 1.0 failed." in (path / "README.md").read_text()


def test_a_run_in_which_all_fail_is_one_sentence(tmp_path, synib_command):
    options = ["--seeds", "1", "--beta", "1.0", "--method", "vanilla", "--epochs", "1", "--device", "cpu"]
    code, _, err = synib_command("reproduce", "spurious-xor", *options, "--set", "vanilla.lr=1e20", "--out", "run")
    assert code == 2
    assert err.startswith(
        "synib: All 1 models of run failed; the first error: vanilla with seed 0 had a loss or a parameter"
    )
