"""Spoken × written digits: cells, data, leads over rivals, and the page."""

import math

import pytest
import torch

from synib.files import read_csv
from synib.measure import interval
from synib.report import build
from synib.studies import DigitsPlenty, DigitsScarce, run
from synib.studies.digits import experiment as module

TWO = ("vanilla", "experts")
ONE_EPOCH = {method: {"epochs": 1, "hidden": 64, "latent": 16} for method in TWO}


@pytest.fixture(autouse=True)
def _cache_cleared():
    """Data of 9,000 pairs are not kept after these tests."""
    yield
    module.digits_data.cache_clear()


@pytest.fixture(scope="module")
def small(digits_root):
    return DigitsScarce(root=str(digits_root), seeds=2, methods=TWO, overrides=ONE_EPOCH)


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    path = run(small, tmp_path_factory.mktemp("digits"), device="cpu")
    return build(path), read_csv(path / "results.csv"), path


@pytest.mark.parametrize(("kind", "synergy"), [(DigitsScarce, 0.10), (DigitsPlenty, 0.30)])
def test_there_is_one_point_the_mixture_and_a_cell_for_every_method_and_seed(kind, synergy):
    experiment = kind()
    (point,) = experiment.points()
    assert tuple(point) == experiment.factors == ("p_u1", "p_u2", "p_r", "p_s")
    assert sum(point.values()) == pytest.approx(1)
    assert (point["p_u2"], point["p_s"]) == (0, synergy)
    assert point["p_u1"] == point["p_r"]
    assert experiment.searched_at() == point
    cells = experiment.cells()
    assert {(c.method, c.seed) for c in cells} == {(m, s) for m in experiment.methods for s in range(10)}
    assert len(cells) == 10 * len(experiment.methods)
    assert all(c.factors == point for c in cells)
    assert f"{100 * synergy:.0f} %" in experiment.about


def test_a_cells_data_are_of_its_mixture_and_seed(small, digits_root):
    plenty = DigitsPlenty(root=small.root)
    for experiment, share in ((small, 0.10), (plenty, 0.30)):
        data = experiment.data(experiment.cells()[0])
        assert len(data.train) == 4000
        assert data.train.groups["S"].float().mean().item() == pytest.approx(share, abs=0.03)
    first, second = (small.data(cell) for cell in small.cells()[:2])
    assert not torch.equal(first.train.target, second.train.target)


def test_the_folder_in_the_environment_counts_when_it_changes(digits_root, tmp_path, monkeypatch):
    experiment = DigitsScarce(seeds=1)
    monkeypatch.setenv("SYNIB_DATA", str(digits_root))
    assert len(experiment.data(experiment.cells()[0]).train) == 4000
    monkeypatch.setenv("SYNIB_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="no recordings"):
        experiment.data(experiment.cells()[0])


def result(method, seed, synergy, total=0.9):
    return {
        "experiment": "digits-scarce", "method": method, "p_u1": 0.45, "p_u2": 0.0, "p_r": 0.45, "p_s": 0.1, "seed": seed,
        "test_accuracy": total, "test_accuracy_S": synergy, "ece": 0.2, "ece_calibrated": 0.03, "cell": "c", "versions": "v",
    }  # fmt: skip


SEEDS = (0.5, 0.6, 0.7)  # of vanilla: seeds differ much, a method's lead little
RESULTS = [
    *(result("vanilla", s, x) for s, x in enumerate(SEEDS)),
    *(result("confidence", s, x + 0.05) for s, x in enumerate(SEEDS)),
    *(result("experts", s, x + 0.2 + 0.01 * s) for s, x in enumerate(SEEDS)),
]


@pytest.fixture(scope="module")
def compared():
    experiment = DigitsScarce(seeds=3, methods=("vanilla", "confidence", "experts"))
    return experiment, experiment.summary(RESULTS)


def test_the_table_has_accuracies_leads_and_calibration_with_intervals(compared):
    experiment, summary = compared
    (table,) = experiment.tables(summary)
    assert table.columns == [
        "total", "synergy", "synergy above vanilla", "synergy above confidence", "ECE", "ECE, recalibrated",
    ]  # fmt: skip
    assert list(table.rows) == ["vanilla", "confidence", "experts"]
    means = [cell["mean"] for cell in table.rows["experts"]]
    assert means == pytest.approx([0.9, 0.81, 0.21, 0.16, 0.2, 0.03])
    assert [cell is None for cell in table.rows["vanilla"]] == [False, False, True, False, False, False]
    assert "n = 3" in table.note
    for rival, mean in (("vanilla", 0.21), ("confidence", 0.16)):
        low, high = interval(mean, 0.01 / math.sqrt(3), 3, test_share=1 / 6)
        assert f"Above {rival}: experts {mean:+.3f} [{low:+.3f}, {high:+.3f}]" in table.note
    assert ": confidence" not in table.note  # only SynIB's leads are stated


def test_a_run_leaves_a_row_for_every_cell_and_a_page_with_its_table(small, finished):
    summary, rows, path = finished
    assert [row["cell"] for row in rows] == [cell.id for cell in small.cells()]
    for row in rows:
        for name in ("test_accuracy", "test_accuracy_S", "test_accuracy_U1", "ece", "ece_calibrated"):
            assert 0 <= row[name] <= 1
        assert row["temperature"] > 0
    assert rows[0]["test_accuracy"] > 0.8  # the cue is learnt at once
    lead = next(r for r in summary if (r["method"], r["metric"]) == ("experts", "synergy_over_vanilla"))
    assert lead["n"] == 2
    for file in ("report.html", "README.md"):
        assert f"experts {lead['mean']:+.3f} [" in (path / file).read_text()
    assert not (path / "curves.csv").exists()
