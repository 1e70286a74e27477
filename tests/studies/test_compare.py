"""All methods on the synthetic tasks, searched and trained alike."""

import pytest

from synib.files import read_csv
from synib.studies import ComparePID, CompareXOR
from synib.studies.compare import BALANCING, COEFFICIENTS
from synib.training.cells import learner
from synib.training.folder import Folder
from synib.training.sweep import sweep

BOTH = [CompareXOR, ComparePID]


@pytest.mark.parametrize("kind", BOTH)
class TestBoth:
    def test_every_method_takes_part(self, kind):
        shown = set(kind().methods)
        assert {m.removesuffix("-x1").removesuffix("-x2") for m in shown} >= {"unimodal", "vanilla", *BALANCING}
        assert shown == set(COEFFICIENTS)
        assert kind().caution == ""
        assert {"unimodal-x1", "unimodal-x2"} <= shown

    def test_a_method_that_was_not_searched_can_be_named_and_the_page_says_so(self, kind):
        experiment = kind(methods=("vanilla", "synib-amortized"), overrides={"synib-amortized": {"sparsity": 0.1}})
        assert experiment.caution.endswith("otherwise default settings: synib-amortized.")
        settings = experiment.settings()
        assert settings["synib-amortized"]["lr"] == settings["vanilla"]["lr"]
        cell = experiment.cells()[-1]
        assert experiment.method(cell, experiment.data(cell)).mask.sparsity.item() == pytest.approx(0.1)

    def test_all_start_from_the_same_weights(self, kind):
        experiment = kind(seeds=1, **({"width": 8} if kind is ComparePID else {}))
        starts = []
        for cell in experiment.cells():
            one = learner(experiment, cell, experiment.data(cell))
            starts.append({name: p.detach() for name, p in one.model.named_parameters()})
        assert all((start[name] == starts[0][name]).all() for start in starts for name in starts[0])


def test_leads_are_over_the_best_balancing_method_seed_by_seed():
    def row(method, seed, accuracy):
        return {"method": method, "seed": seed, "beta": 1.0, "test_accuracy": accuracy}

    found = {"vanilla": (0.5, 0.6), "dnr": (0.5, 0.7), "mcr": (0.6, 0.9), "synib-random": (0.7, 1.0)}
    experiment = CompareXOR(seeds=2, methods=tuple(found))
    summary = experiment.summary([row(m, s, v[s]) for m, v in found.items() for s in range(2)])
    leads = {r["method"]: r for r in summary if r["metric"] == "test_accuracy_over_mcr"}
    assert leads.keys() == {"vanilla", "dnr", "synib-random"}
    assert leads["synib-random"]["mean"] == pytest.approx(0.1)
    assert leads["synib-random"]["se"] == pytest.approx(0.0)
    (table,) = experiment.tables(summary)
    assert table.columns == ["test accuracy", "test accuracy, above mcr"]
    assert "is mcr." in table.note
    assert "synib-random +0.100 [+0.100, +0.100]" in table.note
    assert table.rows["mcr"][1] is None
    assert table.rows["vanilla"][1]["mean"] == pytest.approx(-0.2)


def test_all_methods_train_and_stand_in_one_table(tmp_path):
    experiment = ComparePID(seeds=1, width=8, overrides={m: {"epochs": 1} for m in COEFFICIENTS})
    sweep(experiment, experiment.cells(), Folder(tmp_path, experiment.config()))
    summary = experiment.summary(read_csv(tmp_path / "results.csv"))
    (table,) = experiment.tables(summary)
    assert list(table.rows) == list(COEFFICIENTS)
    assert table.columns[0] == "total"
    assert [c.split(", above ")[0] for c in table.columns] == ["total", "total", "synergy", "synergy"]
    assert all(c.split(", above ")[-1] in BALANCING for c in table.columns[1::2])
    assert all(row[0]["mean"] is not None and row[2]["mean"] is not None for row in table.rows.values())
