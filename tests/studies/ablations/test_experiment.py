"""Ablations from end to end: each combination is trained once, on validation data, and shown in every map that has it."""

import pytest

from synib.files import read_csv
from synib.report import build
from synib.studies import Ablations, run
from synib.studies.ablations.catalogue import MAPS
from synib.training.cells import programs

SMALL = {method: {"width": 8, "epochs": 1} for method in ("vanilla", "confidence", "synib-random", "synib-learned")}


def test_a_combination_that_two_maps_show_is_trained_once():
    both, first, second = (Ablations(maps=maps, seeds=1) for maps in (("masking", "draws"), ("masking",), ("draws",)))
    ids = [cell.id for cell in both.cells()]
    assert len(set(ids)) == len(ids)
    assert set(ids) != {cell.id for cell in first.cells()}
    shared = {str(c.factors) for c in first.cells()} & {str(c.factors) for c in second.cells()}
    assert len(shared) == 2 * 5  # one draw of whole modalities at five weights, on two tasks


def test_models_on_different_data_are_not_trained_together():
    for same in programs(Ablations(seeds=2).cells()):
        assert len({(cell.factors["task"], cell.factors["share"]) for cell in same}) == 1


def test_values_can_be_left_out_and_the_page_says_which():
    whole, fewer = Ablations(), Ablations(task=("digits",), maps=("draws", "share"), leave_out=("weight=3", "draws=4"))
    assert whole.caution == ""
    assert list(fewer.columns_of("draws")) == ["1", "10", "30", "100"]
    assert list(fewer.rows_of("draws")) == ["1 draw", "16 draws"]
    assert {cell.factors["weight"] for cell in fewer.cells()} == {None, 1.0, 10.0, 30.0, 100.0}
    assert fewer.caution == (
        "Not trained in this run: tasks pid-xor; maps masking, annealing, reference, learned; values weight=3, draws=4."
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"leave_out": ("weight=7",)}, "weight=3; got 'weight=7'"),
        ({"leave_out": tuple(f"draws={k}" for k in (1, 4, 16))}, "Nothing is left of the map"),
        ({"maps": ("colour",)}, "maps must be one of"),
        ({"task": ("irony",)}, "task must be one of"),
        ({"overrides": {"synib-random": {"weight": 2.0}}}, "weight is what a map varies"),
    ],
)
def test_a_mistake_gets_a_sentence(options, said):
    with pytest.raises(ValueError, match=said):
        Ablations(**options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    left_out = ("weight=3", "weight=30", "share=0.02", "share=0.05", "steps=16", "sparsity=0.001")
    experiment = Ablations(
        seeds=2, task=("pid-xor",), maps=("draws", "learned", "share"), overrides=SMALL, leave_out=left_out
    )
    path = run(experiment, tmp_path_factory.mktemp("ablations"), device="cpu")
    return experiment, path, build(path, interactive=False)


def test_a_run_has_synergy_and_total_of_every_cell_and_nothing_of_test_data(done):
    experiment, path, summary = done
    results = read_csv(path / "results.csv")
    assert len(results) == len(experiment.cells())
    assert not any(name.startswith("test") for name in results[0])
    for row in results:
        assert 0 <= row["synergy"] <= 1
        assert row["total"] == pytest.approx(row["validation_accuracy"], abs=1e-5)
    assert {row["metric"] for row in summary} == {"synergy", "total"}
    assert {row["n"] for row in summary} == {2}


def test_every_map_has_a_figure_and_its_tables_and_no_cell_is_empty(done):
    experiment, path, summary = done
    figures = experiment.charts(summary, [])
    assert [figure.file for figure in figures] == [f"figure-pid-xor-{name}" for name in experiment.maps]
    means = {(r["method"], *(r[f] for f in experiment.factors), r["metric"]): r["mean"] for r in summary}
    for figure, name in zip(figures, experiment.maps, strict=True):
        assert (path / f"{figure.file}.svg").exists()
        assert [drawn.title for drawn in figure.maps] == ["synergy accuracy", "total accuracy"]
        for drawn in figure.maps:
            assert [len(row) for row in drawn.cells] == [len(experiment.columns_of(name))] * len(
                experiment.rows_of(name)
            )
            assert all(cell is not None and cell["mean"] is not None for row in drawn.cells for cell in row)
    at = {"share": 0.1, "weight": 10.0, "annealing": 0.8, "p": 1.0, "draws": 16, "reference": "uniform"}
    centre = means["synib-random", "pid-xor", *at.values(), None, None, "synergy"]
    draws, _, share = (figure.maps[0] for figure in figures)
    assert draws.cells[2][draws.columns.index("10")]["mean"] == centre
    assert share.cells[list(share.rows).index("SynIB, λ = 10")][share.columns.index("0.1")]["mean"] == centre
    tables = experiment.tables(summary)
    assert len(tables) == 2 * len(figures)
    assert list(tables[0].rows) == list(MAPS["draws"].rows)
    assert tables[0].note.startswith("Synergy is highest at")


def test_the_page_says_that_these_are_no_results_at_test(done):
    text = (done[1] / "README.md").read_text()
    for words in ("sensitivity maps", "test data is not read", "Not trained in this run: tasks digits"):
        assert words in " ".join(text.split())
