"""What ``docs/results`` says is what the code does: settings are those that were searched, results those of its cells."""

from pathlib import Path

import pytest

from synib.files import read_csv, read_json, write_csv
from synib.studies import (
    ComparePID,
    CompareXOR,
    CremaVotesEmotion,
    Fair,
    IronyForms,
    IronyMatched,
    IronyRates,
    PIDSimplex,
    load,
)
from synib.studies.base import SHARED, settings_of
from synib.studies.search import describe

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RUNS = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("config.json"))
SEARCHED = {"pid-search": PIDSimplex, "compare-pid-xor-search": ComparePID, "compare-spurious-xor-search": CompareXOR,
            "irony-search": IronyRates}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_published_table_has_a_row_for_every_cell_and_its_summary_follows_to_the_last_digit(name, tmp_path):
    """Means, errors, n, leads over rivals, rules without a model, and the paper's values, of every experiment."""
    experiment, rows = load(RESULTS / name), read_csv(RESULTS / name / "results.csv")
    assert [row["cell"] for row in rows] == [cell.id for cell in experiment.cells()]
    write_csv(tmp_path / "summary.csv", experiment.summary(rows))
    assert (tmp_path / "summary.csv").read_text() == (RESULTS / name / "summary.csv").read_text()


@pytest.mark.parametrize("name", [name for name in RUNS if (RESULTS / name / "chosen.json").exists()])
def test_a_published_choice_is_the_best_of_the_published_candidates(name):
    search = load(RESULTS / name)
    summary = search.summary(read_csv(RESULTS / name / "results.csv"))
    assert read_json(RESULTS / name / "chosen.json") == search.choose(summary)


@pytest.mark.parametrize(("name", "experiment"), SEARCHED.items())
def test_settings_are_those_that_the_published_search_chose(name, experiment):
    chosen = read_json(RESULTS / name / "chosen.json")
    settings = experiment().settings()
    assert chosen.keys() == set(experiment().methods)
    for method, values in chosen.items():
        assert values.items() <= settings[method].items(), method


@pytest.mark.parametrize(
    ("experiment", "files"),
    [
        (IronyMatched, ["irony-matched-search/matched.json"]),
        (IronyForms, ["irony-forms-search/forms.json", "irony-third-search/irony-matched/forms.json"]),
    ],
)
def test_settings_of_matched_irony_are_those_that_its_published_searches_chose(experiment, files):
    chosen = {form: own for file in files for form, own in read_json(RESULTS / file).items()}
    assert experiment()._chosen == chosen
    for form, cells in ((form, experiment(form=(form,), seeds=1).cells()) for form in chosen):
        assert all(chosen[form]["settings"].items() <= cell.settings.items() for cell in cells)


@pytest.mark.parametrize(
    "file", sorted(RESULTS.glob("fair*-search/*/settings.json")), ids=lambda f: f.parent.as_posix()[-40:]
)
def test_settings_of_the_fair_comparison_are_those_that_its_published_searches_chose(file):
    known = Fair()._chosen
    for task, forms in read_json(file).items():
        assert forms.items() <= known[task].items()


def test_settings_of_crema_votes_are_those_that_its_published_search_chose():
    chosen = read_json(RESULTS / "crema-votes-search" / "settings.json")
    assert settings_of(CremaVotesEmotion.__module__.rpartition(".")[0]) == {
        name: {method: methods[SHARED] | own for method, own in methods.items() if method != SHARED}
        for name, methods in chosen.items()
    }


def test_plain_settings_are_the_best_without_dropout_and_with_heads_that_train_encoders():
    rows = read_csv(RESULTS / "pid-search" / "summary.csv")
    scores = {(r["method"], r["candidate"]): r["mean"] for r in rows if r["metric"] == "validation_accuracy"}
    for method, candidates in PIDSimplex().candidates().items():
        plain = [c for c in candidates if not (c["dropout"] or c["detach_heads"])]
        best = max(plain, key=lambda c, m=method: scores[m, describe(c)])
        assert best.items() <= PIDSimplex(regime="plain").settings()[method].items(), method
