"""The experiments on PID-controlled XOR: their cells, and what is shown of their results."""

import pytest
import torch

from synib.files import read_csv
from synib.report import build
from synib.studies import LearnedMasks, PIDDynamics, PIDSimplex
from synib.studies.charts import Chart, Panels
from synib.studies.pid_xor.simplex import SETTINGS
from synib.training.folder import Folder
from synib.training.sweep import sweep

SMALL = {"width": 8, "epochs": 1}
FEW = ("vanilla", "synib-random")


def run(experiment, path):
    sweep(experiment, experiment.cells(), Folder(path, experiment.config()))
    return experiment.summary(read_csv(path / "results.csv"))


@pytest.fixture(scope="module")
def corners(tmp_path_factory):
    """The corners and the middles of the edges: six mixtures, three of them without synergy."""
    path = tmp_path_factory.mktemp("simplex")
    experiment = PIDSimplex(seeds=2, step=0.5, methods=FEW, **SMALL)
    return experiment, run(experiment, path), path


class TestSimplex:
    def test_the_grid_has_every_mixture_once(self):
        cells = PIDSimplex().cells()
        mixtures = {tuple(c.factors.values()) for c in cells}
        assert len(mixtures) == 231
        assert all(sum(m) == pytest.approx(1) and min(m) >= 0 for m in mixtures)
        assert len(cells) == 231 * 3 * len(SETTINGS)
        assert (0.45, 0.45, 0.1) in mixtures
        assert len({c.program for c in cells}) == len(SETTINGS)  # a column trains as one

    def test_synergy_is_missing_where_there_is_none_and_never_zero(self, corners):
        _, summary, path = corners
        none = [r for r in summary if r["metric"] == "synergy_accuracy" and r["p_s"] == 0.0]
        assert len(none) == 3 * len(FEW)
        assert all(r["mean"] is None and r["n"] == 0 for r in none)
        rows = [r for r in read_csv(path / "results.csv") if r["p_s"] == 0.0]
        assert rows
        assert all(r["test_accuracy_S"] is None for r in rows)
        assert all(r["mean"] is not None for r in summary if r["metric"] == "synergy_accuracy" and r["p_s"])

    def test_means_over_the_simplex_are_of_each_seed_first(self, corners):
        experiment, summary, path = corners
        rows = [r for r in read_csv(path / "results.csv") if r["method"] == "vanilla"]
        of_seed = [[r["test_accuracy_S"] for r in rows if r["seed"] == s and r["p_s"]] for s in range(2)]
        means = [sum(x) / len(x) for x in of_seed]
        (row,) = [
            r for r in summary if r["p_u1"] is None and (r["method"], r["metric"]) == ("vanilla", "synergy_accuracy")
        ]
        assert row["mean"] == pytest.approx(sum(means) / 2)
        assert row["se"] == pytest.approx(abs(means[0] - means[1]) / 2)
        assert (row["n"], row["paper"]) == (2, 0.727)  # the authors' archived mean
        (table,) = experiment.tables(summary)  # the reference mixture is not on this grid
        assert table.rows["vanilla"][1] == row
        everywhere = dict.fromkeys(experiment.factors)
        assert experiment.paper("confidence", everywhere, "synergy_accuracy") == 0.939
        assert experiment.paper("synib-learned", everywhere, "synergy_accuracy") is None

    def test_the_plain_regime_has_no_dropout_and_says_so(self):
        plain = PIDSimplex(regime="plain", overrides={"vanilla": {"lr": 1.0}}, seeds=1)
        assert {(s["dropout"], s["detach_heads"]) for s in plain.settings().values()} == {(0.0, False)}
        assert plain.settings()["vanilla"]["lr"] == 1.0
        assert "no dropout" in plain.caution
        assert not PIDSimplex().caution
        networks = LearnedMasks(regime="plain").settings()["synib-amortized"]
        assert (networks["dropout"], networks["lr"]) == (0.0, 3e-5)

    def test_the_page_is_whole_and_marked_as_smaller(self, corners):
        _, _, path = corners
        build(path)
        page = (path / "report.html").read_text()
        assert "width 8 instead of 1,024" in page
        assert "corrupted nothing" in page
        assert "Plotly.react(" in page
        assert not (path / "curves.csv").exists()
        assert "curves.csv" not in (path / "README.md").read_text()
        assert (path / "figure.svg").read_text().startswith("<?xml")


class TestData:
    def test_projections_are_each_seeds_own_or_one_for_all(self):
        def difference(projections, seeds):
            experiment = PIDSimplex(projections=projections, seeds=2, methods=("vanilla",))
            a, b = (experiment.data(c).train for c in experiment.cells() if c.factors["p_s"] == 1.0 and c.seed in seeds)
            # The first examples' synergy blocks span the columns of the projection, whatever the examples are.
            one, two = (torch.linalg.svd(x.modalities["x1"][:, 12:18], full_matrices=False).Vh[:4] for x in (a, b))
            return (one.T @ one - two.T @ two).abs().max().item()

        assert difference("fixed", (0, 1)) < 0.2  # up to the standardisation
        assert difference("own", (0, 1)) > 0.2

    def test_the_oracle_may_corrupt_synergistic_examples_only(self):
        experiment = PIDDynamics(methods=("synib-oracle",), overrides={"synib-oracle": {"only_source": "S"}}, seeds=1)
        (cell,) = experiment.cells()
        data = experiment.data(cell)
        assert torch.equal(experiment.method(cell, data).mask.only, data.train.groups["S"])


class TestDynamics:
    @pytest.fixture(scope="class")
    @staticmethod
    def made(tmp_path_factory):
        path = tmp_path_factory.mktemp("dynamics")
        experiment = PIDDynamics(seeds=2, methods=FEW, width=8, epochs=2)
        return experiment, run(experiment, path), read_csv(path / "curves.csv")

    def test_there_is_a_panel_for_each_method_with_every_source_and_a_synergy_chart(self, made):
        experiment, summary, curves = made
        panels, chart = experiment.charts(summary, curves)
        assert isinstance(panels, Panels)
        assert [p.title for p in panels.panels] == ["vanilla fusion", "SynIB, random masks"]
        for panel in panels.panels:
            assert [(s.name, s.dashed) for s in panel.series] == [
                (n, d) for n in ("U1", "R", "S") for d in (False, True)
            ]
            assert all(list(s.x) == [1, 2] for s in panel.series)  # U2 has no examples: no line, not one at zero
            assert "synergy at test: 0." in panel.remark
        assert isinstance(chart, Chart)
        assert [s.name for s in chart.series] == list(FEW)

    def test_the_table_has_total_and_each_source_with_the_papers_values(self, made):
        experiment, summary, _ = made
        (table,) = experiment.tables(summary)
        assert table.columns == ["total", "S", "S above confidence", "U1", "R"]
        assert [cell and cell["paper"] for cell in table.rows["vanilla"]] == [0.944, 0.50, None, None, None]
        assert table.rows["vanilla"][2] is None  # without the control there is nothing to be above

    def test_without_synergistic_examples_there_is_no_synergy_chart(self, tmp_path):
        experiment = PIDDynamics(seeds=1, methods=("vanilla",), mixture=(0.5, 0.0, 0.5, 0.0), **SMALL)
        summary = run(experiment, tmp_path)
        (panels,) = experiment.charts(summary, read_csv(tmp_path / "curves.csv"))
        assert panels.panels[0].remark == ""
        assert experiment.tables(summary)[0].rows["vanilla"][1] is None


class TestLearnedMasks:
    def test_ways_differ_in_how_masks_are_searched_and_in_nothing_else(self):
        cells = {c.factors["variant"]: c for c in LearnedMasks(seeds=1).cells()}
        own = ("steps", "mask_lr")
        rest = [{k: v for k, v in c.settings.items() if k not in own} for c in cells.values()]
        assert all(r == rest[0] for r in rest)
        assert all(
            c.settings["steps"] * c.settings["mask_lr"] == pytest.approx(2.0)
            for name, c in cells.items()
            if name.endswith(("step", "steps"))
        )

    def test_every_way_trains_and_the_table_has_a_row_for_each(self, tmp_path):
        experiment = LearnedMasks(seeds=1, variants=("2 steps", "network"), **SMALL)
        (table,) = experiment.tables(run(experiment, tmp_path))
        assert list(table.rows) == ["2 steps", "network"]
        assert all(cell["mean"] is not None for row in table.rows.values() for cell in row)
