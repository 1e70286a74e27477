"""Mask recovery from end to end."""

import math

import pytest

from synib.files import read_csv
from synib.report import build
from synib.studies import MaskRecovery, run
from synib.studies.mask_recovery.experiment import METRICS
from synib.studies.mask_recovery.regions import pictures, regions

TASKS = ("spurious-xor", "pid-xor")


def test_models_are_trained_with_the_settings_of_their_own_study():
    cells = {cell.factors["task"]: cell.settings for cell in MaskRecovery(seeds=1).cells()}
    assert (cells["spurious-xor"]["steps"], cells["spurious-xor"]["init"]) == (50, -4.0)
    assert (cells["digits"]["noise"], cells["digits"]["weight_schedule"]) == ("shuffled", "anneal")
    assert cells["pid-xor"]["width"] == 1024


def test_a_narrower_network_is_said():
    assert MaskRecovery().caution == ""
    assert MaskRecovery(width=64, task=("digits",)).caution == ""
    assert "64 wide" in MaskRecovery(width=64).caution


def test_an_unknown_task_gets_a_sentence():
    with pytest.raises(ValueError, match="task must be one of spurious-xor, pid-xor, digits; got 'irony'"):
        MaskRecovery(task=("irony",))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    shorter = {"synib-learned": {"epochs": 1, "steps": 2}}
    experiment = MaskRecovery(seeds=2, task=TASKS, width=8, overrides=shorter)
    path = run(experiment, tmp_path_factory.mktemp("masks"), device="cpu")
    return experiment, path, build(path, interactive=False)


def test_a_run_has_the_agreement_with_every_region_and_how_often_each_coordinate_is_kept(done):
    _, path, summary = done
    assert not any(name.startswith("test") for name in read_csv(path / "results.csv")[0])
    found = {(row["task"], row["metric"]): row for row in summary}
    for task in TASKS:
        expected = {f"{region.column}_{metric}" for region in regions(task) for metric in METRICS.values()}
        expected |= {p.column(i, j) for p in pictures(task) for i in range(p.shape[0]) for j in range(p.shape[1])}
        assert {metric for of, metric in found if of == task} == expected | {"validation_accuracy"}
    assert {row["n"] for row in summary} == {2}
    assert all(0 <= row["mean"] <= 1 and math.isfinite(row["mean"]) for row in summary)


def test_every_task_has_a_table_and_a_picture(done):
    experiment, path, summary = done
    tables, figures = experiment.tables(summary), experiment.charts(summary, [])
    assert [list(table.rows) for table in tables] == [[region.label for region in regions(task)] for task in TASKS]
    assert all(cell is not None for table in tables for row in table.rows.values() for cell in row)
    assert all((path / f"{figure.file}.svg").exists() for figure in figures)
    strips = figures[0].maps[0]
    assert list(strips.rows) == ["x1", "x2"]
    assert list(strips.outlined) == [(0, j) for j in range(4, 10)]
    found = {row["metric"]: row["mean"] for row in summary if row["task"] == "spurious-xor"}
    assert [cell["mean"] for cell in strips.cells[1]] == [found[f"kept_x2_all_00_{j:02d}"] for j in range(64)]


def test_a_spectrogram_has_its_highest_band_on_top():
    experiment = MaskRecovery(seeds=1, task=("digits",))
    rows = [
        {"task": "digits", "metric": p.column(i, j), "mean": i / 40, "se": None, "n": 1}
        for p in pictures("digits")
        for i in range(p.shape[0])
        for j in range(p.shape[1])
    ]
    (figure,) = experiment.charts(rows, [])
    audio, image = figure.maps
    assert (audio.rows[0], audio.rows[-1]) == ("39", "0")
    assert audio.cells[0][0]["mean"] == 39 / 40
    assert image.rows[0] == "0"
    assert {audio.rows[i] for i, _ in audio.outlined} == {"32", "33", "36", "37", "38"}
    assert {image.columns[j] for _, j in image.outlined} == {"0", "26"}
