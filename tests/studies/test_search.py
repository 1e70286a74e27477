"""Choosing settings on validation accuracy."""

import json
import sys

import pytest

from synib import cli
from synib.report import build
from synib.studies import EXPERIMENTS, Parity, Search
from synib.studies.base import settings_of
from synib.studies.search import describe
from synib.training.folder import Folder
from synib.training.sweep import sweep


@pytest.fixture
def short(monkeypatch):
    """Parity with one epoch and two candidates."""
    brief = Parity(epochs=1).fixed()
    monkeypatch.setattr(Parity, "fixed", lambda self: brief)
    two = [{"lr": 1e-3}, {"lr": 1e-2}]
    monkeypatch.setattr(Parity, "candidates", lambda self: {"vanilla": two, "synib-oracle": two})


def test_every_candidate_is_a_cell():
    candidates = Parity().candidates()
    cells = Search(seeds=2).cells()
    assert len(cells) == 2 * 6 * len(candidates) == len({c.id for c in cells})
    assert {c.factors["candidate"] for c in cells if c.method == "vanilla"} == {
        describe(c) for c in candidates["vanilla"]
    }


def test_a_search_never_sees_test_data(tmp_path, short):
    search = Search(seeds=1)
    assert all(search.data(cell).test is None for cell in search.cells())
    folder = Folder(tmp_path, search.config())
    sweep(search, search.cells(), folder)
    summary = build(tmp_path)
    assert {row["metric"] for row in summary} == {"train_accuracy", "validation_accuracy"}
    assert not (tmp_path / "figure.svg").exists()
    assert "validation accuracy" in (tmp_path / "README.md").read_text().lower()


def test_it_searches_where_validation_has_no_shortcut():
    search = Search(seeds=1)
    cell = search.cells()[0]
    shortcut = search.data(cell).validation.modalities["x1"][:, 4:10].mean(1)
    target = search.data(cell).validation.target
    assert (shortcut[target == 1].mean() - shortcut[target == 0].mean()).abs() < 0.5


def test_the_best_mean_is_chosen_and_the_first_of_equals(short):
    search = Search(seeds=1)
    scores = {("vanilla", "lr=0.001"): 0.6, ("vanilla", "lr=0.01"): 0.7, ("synib-oracle", "lr=0.001"): 1.0, ("synib-oracle", "lr=0.01"): 1.0}  # fmt: skip  # noqa: E501
    summary = [
        {
            "method": m,
            "candidate": c,
            "metric": metric,
            "mean": mean if metric == "validation_accuracy" else 1 - mean,
            "n": 2,
        }
        for (m, c), mean in scores.items()
        for metric in ("train_accuracy", "validation_accuracy")
    ]
    assert search.choose(summary) == {"vanilla": {"lr": 1e-2}, "synib-oracle": {"lr": 1e-3}}
    summary[-1]["mean"] += 1e-15  # which is rounding, and not better
    assert search.choose(summary)["synib-oracle"] == {"lr": 1e-3}


@pytest.mark.parametrize("failed", [{"n": 1}, {"n": 0, "mean": None}])
def test_a_candidate_of_which_models_failed_is_not_chosen(short, failed):
    candidates = (("lr=0.001", 0.6), ("lr=0.01", 0.9))
    summary = [
        {"method": m, "candidate": c, "metric": "validation_accuracy", "mean": mean, "n": 2}
        | (failed if c == "lr=0.01" else {})
        for m in ("vanilla", "synib-oracle")
        for c, mean in candidates
    ]
    search = Search(seeds=2)
    assert search.choose(summary) == {"vanilla": {"lr": 1e-3}, "synib-oracle": {"lr": 1e-3}}
    assert len(search.tables(summary)) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"of": "spurious-xor"}, "spurious-xor has no candidates to search"),
        ({"of": "nonsense"}, "Unknown experiment 'nonsense': choose from spurious-xor, parity"),
        ({"of": "search"}, "Unknown experiment 'search'"),
        ({"methods": ("synib-learned",)}, "no candidates for 'synib-learned'"),
    ],
)
def test_what_cannot_be_searched_is_said(options, problem):
    with pytest.raises(ValueError, match=problem):
        Search(**options)


def test_the_command_leaves_the_choice(tmp_path, short, monkeypatch, capsys):
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["synib", "reproduce", "search", "--seeds", "1", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    chosen = json.loads((out / "chosen.json").read_text())
    assert chosen.keys() == {"vanilla", "synib-oracle"}
    assert "vanilla: {" in capsys.readouterr().out
    settings = json.loads((out / "settings.json").read_text())
    before = settings_of("synib.studies.spurious_xor")["parity"]
    assert settings == {"parity": {method: before[method] | chosen[method] for method in chosen}}
    assert EXPERIMENTS["search"] is Search
