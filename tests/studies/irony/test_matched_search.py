"""The search of matched irony: equal grids on validation actors, one rule, and the shared extension of edges."""

import math
from collections import Counter

import pytest

from synib.files import read_csv, read_json
from synib.methods.hooks import TrainsInStages
from synib.report import build
from synib.studies import MatchedSearch, run
from synib.studies.fair.catalogue import LADDERS
from synib.studies.fair.search import parsed
from synib.studies.irony.matched_search import SEARCHED_AT, START, TASK
from synib.training.cells import learner
from synib.training.step import backward


def test_every_form_begins_with_nine_candidates_on_its_ladders_and_all_fills_are_swapped():
    search = MatchedSearch(seeds=1)
    assert set(Counter(cell.factors["form"] for cell in search.cells()).values()) == {9}
    for cell in search.cells():
        own = parsed(cell.factors["candidate"])
        assert own.items() <= cell.settings.items()
        assert all(value in LADDERS[name] for name, value in own.items())
        assert cell.settings.get("noise", "shuffled") == "shuffled"
    for name, values in START.items():
        at = LADDERS[name].index(values[0])
        assert LADDERS[name][at : at + len(values)] == values


def test_splits_of_the_search_validate_on_different_actors_and_have_no_test_data(takes_root):
    search = MatchedSearch(root=str(takes_root), form=("vanilla",))
    data = [search.data(cell) for cell in search.cells()[:3]]
    assert all(d.test is None for d in data)
    assert len(SEARCHED_AT) == search.seeds
    seen = [set(d.validation.columns["video_id"]) for d in data]
    assert sum(map(len, seen)) == len(set.union(*seen))
    with pytest.raises(ValueError, match="The search has 3 splits; got seeds=4"):
        MatchedSearch(seeds=4)


def test_every_kind_of_form_takes_a_step_and_is_measured(takes_root):
    methods = MatchedSearch().methods
    search = MatchedSearch(
        root=str(takes_root), seeds=1, overrides={method: {"hidden": 8, "latent": 4} for method in methods}
    )
    kinds = {(c.method, c.settings.get("reference")): c for c in search.cells()}
    assert {("synib-random", "prior"), ("synib-random", "unimodal"), ("dnr", None), ("unimodal-audio", None)} <= set(
        kinds
    )
    for cell in kinds.values():
        data = search.data(cell)
        trained = learner(search, cell, data)
        if isinstance(trained.method, TrainsInStages):
            trained.method.begin(0)
        x = {name: v[:24] for name, v in data.train.modalities.items()}
        loss, _ = backward(trained.method, trained.train().model, x, data.train.target[:24])
        assert loss.isfinite(), cell.factors
        scores = search.examine(cell, trained.eval(), data)
        assert 0 <= scores["synergy"] <= 1


def test_the_best_auc_is_chosen_and_edges_are_extended(tmp_path, takes_root, monkeypatch):
    def examine(self, cell, learner, data):
        s = cell.settings
        far = abs(math.log(s["lr"] / 3e-3)) + s["dropout"] + abs(math.log(s["weight"] / 3))
        return {"total": far, "synergy": 1 / (1 + far), "ece": 0.0, "ece_calibrated": 0.0, "log_loss": 0.0}

    monkeypatch.setattr(MatchedSearch, "examine", examine)
    tiny = {"confidence": {"hidden": 8, "latent": 4, "epochs": 1}}
    search = MatchedSearch(root=str(takes_root), form=("confidence",), seeds=1, overrides=tiny)
    folder = run(search, tmp_path / "out", device="cpu")
    build(folder)
    chosen = read_json(folder / "matched.json")["confidence"]
    assert chosen["settings"] == {"lr": 3e-3, "dropout": 0.0, "weight": 3.0}
    assert chosen["validation_auc"] == pytest.approx(1.0)
    assert read_json(folder / "at_the_end_of_a_ladder.json") == []
    tried = {row["candidate"] for row in read_csv(folder / "results.csv")}
    assert {"lr=0.01, dropout=0, weight=3", "lr=0.003, dropout=0, weight=10"} <= tried
    assert read_json(folder / "config.json")["extend"][0].startswith(f"{TASK} | confidence | ")
    assert "of 1 forms were trained" in (folder / "README.md").read_text()
