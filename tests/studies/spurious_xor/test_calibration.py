"""Calibration, intact and with a modality gone."""

import math

import pytest

from synib.files import read_csv
from synib.report import build
from synib.studies import Calibration
from synib.studies.spurious_xor.calibration import CONDITIONS
from synib.training import fleet
from synib.training.folder import Folder
from synib.training.sweep import sweep


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration")
    experiment = Calibration(seeds=2, methods=("vanilla", "confidence"), epochs=20)
    sweep(experiment, experiment.cells(), Folder(path, experiment.config()))
    return experiment, build(path), read_csv(path / "results.csv"), path


def test_a_trained_model_is_examined_as_it_would_be_alone(made):
    experiment, _, rows, _ = made
    cell = experiment.cells()[0]
    learner = fleet.train(experiment, [cell]).learners[0]
    alone = experiment.examine(cell, learner.eval(), experiment.data(cell))
    for name in ("intact_ece", "x1_confidence", "x2_right"):
        assert rows[0][name] == pytest.approx(alone[name], abs=1e-4)


def test_what_scores_a_model_is_missed_before_training(monkeypatch):
    Calibration(seeds=1).check()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"torchmetrics: pip install 'synib\[audit\]'"):
        Calibration(seeds=1).check()


def test_scores_on_intact_data_are_those_of_the_results(made):
    _, _, rows, _ = made
    for row in rows:
        assert row["intact_right"] == pytest.approx(row["test_accuracy"], abs=1e-5)


def test_without_a_modality_nobody_is_right_and_vanilla_does_not_notice(made):
    _, _, rows, _ = made
    for row in rows:
        assert row["x1_right"] == pytest.approx(0.5, abs=0.02)
        assert row["x2_right"] == pytest.approx(0.5, abs=0.02)
    vanilla, confidence = ([r for r in rows if r["method"] == m] for m in ("vanilla", "confidence"))
    assert all(row["x2_confidence"] > 0.7 and row["x2_ece"] > 0.2 for row in vanilla)
    assert all(row["x2_confidence"] < 0.6 and row["x2_ece"] < 0.1 for row in confidence)


def test_a_bin_lies_where_its_predictions_are(made):
    _, _, rows, _ = made
    found = {k: v for k, v in rows[0].items() if "_bin_" in k and k.endswith("_confidence") and v is not None}
    assert len(found) > 5
    for name, confidence in found.items():
        b = int(name.split("_bin_")[1].split("_")[0])
        assert b / 15 - 1e-6 <= confidence <= (b + 1) / 15 + 1e-6
        assert 0 <= rows[0][name.replace("_confidence", "_accuracy")] <= 1


def test_there_is_a_panel_for_each_method_and_a_table_for_each_score(made):
    experiment, summary, _, path = made
    (figure,) = experiment.charts(summary, [])
    assert [p.title for p in figure.panels] == ["vanilla fusion", "confidence penalty"]
    assert [s.name for s in figure.panels[0].series] == [*CONDITIONS, "ideal"]
    assert all(not math.isnan(y) for p in figure.panels for s in p.series for y in s.mean)
    tables = experiment.tables(summary)
    assert [t.title for t in tables] == ["accuracy", "mean confidence", "expected calibration error"]
    assert all(cell["n"] == 2 for t in tables for row in t.rows.values() for cell in row)
    assert "x2 is noise" in (path / "report.html").read_text()
