"""The geometry of gradients over training."""

import pytest

from synib.files import read_csv
from synib.measure import ntk
from synib.report import build
from synib.studies import GradientGeometry
from synib.studies.charts import Panels
from synib.studies.pid_xor.ntk import MOST, PAIRS, SOURCES
from synib.training import fleet
from synib.training.folder import Folder
from synib.training.sweep import sweep

SMALL = {"width": 8, "epochs": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("ntk")
    experiment = GradientGeometry(seeds=2, methods=("vanilla", "synib-random"), **SMALL)
    sweep(experiment, experiment.cells(), Folder(path, experiment.config()))
    return experiment, build(path), path


def test_what_the_fleet_watches_is_what_the_model_it_leaves_shows(made):
    """The last epoch's numbers are those of the trained model, taken by itself."""
    experiment, _, _ = made
    cells = [c for c in experiment.cells() if c.method == "synib-random"]
    trained = fleet.train(experiment, cells)
    for i, cell in enumerate(cells):
        data = experiment.data(cell)
        groups = {source: data.train.groups[source].bool() for source in SOURCES}
        model = trained.learners[i].model
        for of, prefix in (("logits", ""), ("probabilities", "probability_")):
            found = ntk(model, data.train.modalities, data.train.target, groups, experiment.family, MOST, of)
            for source in SOURCES:
                expected = found.strength[source]
                assert trained.metrics[i][f"{prefix}strength_{source}"] == pytest.approx(expected, rel=1e-3)
            for g, h in PAIRS:
                expected = found.cosine[g, h]
                assert trained.metrics[i][f"{prefix}cosine_{g}_{h}"] == pytest.approx(expected, abs=1e-3)
        nll = experiment.family.nll(model.eval()(data.validation.modalities), data.validation.target)
        members = data.validation.groups["S"].bool()
        assert trained.metrics[i]["validation_loss_S"] == pytest.approx(nll[members].mean().item(), rel=1e-4)


def test_watching_changes_nothing_about_training(made):
    experiment, _, _ = made
    cells = [c for c in experiment.cells() if c.method == "vanilla"]

    class Blind:
        curves = False
        data, model, method = experiment.data, experiment.model, experiment.method

    watched, blind = fleet.train(experiment, cells), fleet.train(Blind(), cells)
    for a, b in zip(watched.learners, blind.learners, strict=True):
        assert all((x == y).all() for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not any("strength" in name for name in blind.metrics[0])


def test_there_is_a_figure_for_each_method_with_axes_of_their_own(made):
    experiment, summary, path = made
    figures = experiment.charts(summary, read_csv(path / "curves.csv"))
    assert [f.file for f in figures] == ["figure", "synib-random"]
    for figure in figures:
        assert isinstance(figure, Panels)
        assert [p.title for p in figure.panels] == ["strength", "strength, probabilities", "alignment", "loss"]
        assert all(list(s.x) == [1, 2] for panel in figure.panels for s in panel.series)
        assert all(panel.y for panel in figure.panels)
    assert (path / "synib-random.svg").exists()
    assert "mathdefault" not in (path / "figure.svg").read_text()
    page = (path / "report.html").read_text()
    assert "no dropout" in page
    assert "n = 2" in page


def test_the_tables_say_how_strong_how_aligned_how_lost_and_how_right(made):
    experiment, summary, _ = made
    tables = experiment.tables(summary)
    assert [len(t.columns) for t in tables] == [6, 6, 6, 2]
    assert all(cell is not None and cell["mean"] is not None for t in tables for row in t.rows.values() for cell in row)
