"""Irony on RAVDESS's features: data, scores, what is pooled over folds, and what a modality alone gives away."""

import math

import numpy as np
import pytest
import torch

from synib.data import features
from synib.data.irony import Irony
from synib.data.ravdess import CONTRADICTIONS, FOLDS
from synib.engines import fleet
from synib.engines.cells import programs
from synib.engines.folder import Folder, read_csv
from synib.engines.sweep import sweep
from synib.experiments import IronyRates, Search
from synib.experiments.irony import OWN, auc, best_shift, f1_by_class, without_model
from synib.measure import interval, scores
from synib.report import build


@pytest.fixture(scope="module")
def small(ravdess_root):
    return IronyRates(
        root=str(ravdess_root), methods=("vanilla", "synib-marginal"), alpha=(0.5, 2.0), fold=(0, 1, 4), epochs=3
    )


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("irony")
    sweep(small, small.cells(), Folder(path, small.config()))
    return build(path), read_csv(path / "results.csv"), path


def parts(data):
    return data.train, data.validation, data.test


def test_cells_of_one_program_have_splits_of_one_size_whatever_their_fold(small):
    every = IronyRates(root=small.root)
    for same in programs([c for c in every.cells() if c.method == "vanilla" and c.factors["alpha"] == 1.0]):
        assert len({tuple(map(len, parts(every.data(cell)))) for cell in same}) == 1
    assert len(programs(every.cells())) == 3 * len(OWN)  # one fold has fewer actors, at test or at validation


def test_an_example_shows_the_face_and_the_voice_of_its_clips_and_only_contradictions_are_ironic(small):
    plain = features.ravdess(small.root, fold=0, standardise="actor")
    known = {
        name: (y, split.modalities["visual"][i], split.modalities["audio"][i], actor)
        for split in parts(plain)
        for i, (name, y, actor) in enumerate(
            zip(split.columns["id"], split.target.tolist(), split.columns["actor"], strict=True)
        )
    }
    for cell in small.cells()[:6]:
        for split in parts(small.data(cell)):
            assert set(split.modalities) == {"video", "audio"}
            for i, (face, voice) in enumerate(zip(split.columns["video_id"], split.columns["audio_id"], strict=True)):
                assert torch.equal(split.modalities["video"][i], known[face][1])
                assert torch.equal(split.modalities["audio"][i], known[voice][2])
                assert split.target[i] == (known[face][0] if face == voice else 8)
                assert bool(split.groups["ironic"][i]) == (known[face][0] != known[voice][0])
        actors = [{known[n][3] for n in s.columns["video_id"]} for s in parts(small.data(cell))]
        assert sum(map(len, actors)) == len(set.union(*actors)) == 24
        assert actors[2] == set(FOLDS[cell.factors["fold"]])


def test_who_is_ironic_depends_on_the_assignment_and_not_on_the_seed_or_the_method(small):
    several = IronyRates(**{**small.__dict__, "seeds": 2, "assignments": 2})
    tests = {}
    for cell in several.cells():
        data = several.data(cell)
        key = tuple(cell.factors.values())
        assert tests.setdefault(key, data.test.columns["audio_id"]) == data.test.columns["audio_id"]
    first, second = (tests[0.5, "paper", 0, k] for k in (0, 1))
    assert first != second


def test_irony_is_as_frequent_as_alpha_says(small):
    for cell in small.cells():
        for split in parts(small.data(cell)):
            assert int(split.groups["ironic"].sum()) == math.floor(cell.factors["alpha"] * len(split) / 8)


def test_every_cell_has_a_row_with_its_scores(small, made):
    _, rows, _ = made
    assert [row["cell"] for row in rows] == [cell.id for cell in small.cells()]
    for row in rows:
        for name in ("irony_auc", "irony_f1", "macro_f1", "shifted_irony_f1", "shifted_macro_f1", "test_accuracy"):
            assert 0 <= row[name] <= 1


def test_scores_are_those_of_the_model_alone_by_other_means(small, made):
    pytest.importorskip("torchmetrics")
    from torchmetrics.functional.classification import binary_auroc

    _, rows, _ = made
    cell = small.cells()[3]
    data = small.data(cell)
    learner = fleet.train(small, [cell]).learners[0].eval()
    with torch.no_grad():
        predicted = learner.method.predict(learner.model, data.test.modalities)
    other = scores(predicted, data.test.target, small.family, resamples=2)
    assert rows[3]["macro_f1"] == pytest.approx(other.macro_f1.value, abs=1e-5)
    assert rows[3]["irony_f1"] == pytest.approx(other.f1[-1].value, abs=1e-5)
    ranked = binary_auroc(predicted.softmax(1)[:, -1], (data.test.target == 8).long())
    assert rows[3]["irony_auc"] == pytest.approx(float(ranked), abs=1e-4)


def test_auc_counts_ties_as_half_and_f1_leaves_out_what_is_nowhere():
    assert auc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, True, False, True])) == 0.875
    assert math.isnan(auc(np.array([1.0]), np.array([True])))
    each = f1_by_class(np.array([0, 0, 1]), np.array([0, 1, 1]), 3)
    assert each[:2] == pytest.approx([2 / 3, 2 / 3])
    assert math.isnan(each[2])


def test_a_shift_never_costs_macro_f1_where_it_was_chosen_and_is_none_where_none_helps():
    rng = np.random.default_rng(0)
    target, last = rng.integers(0, 4, 200), np.eye(4)[3]
    logits = rng.normal(0, 1, (200, 4)) + 2 * np.eye(4)[target] - 4 * last  # well ranked, and hardly ever predicted

    def macro(shift):
        return np.nanmean(f1_by_class((logits + shift * last).argmax(1), target, 4))

    chosen = best_shift(logits, target)
    assert chosen == pytest.approx(4, abs=1)
    assert macro(chosen) > macro(0) + 0.1
    assert macro(chosen) >= max(macro(s) for s in np.linspace(-2, 8, 50)) - 1e-12
    assert best_shift(10 * np.eye(4)[target], target) == 0.0


def test_under_the_papers_donors_the_voice_gives_irony_away_and_under_balanced_ones_nobody_does():
    ids, labels = [f"c{i}" for i in range(2400)], np.arange(2400) % 8
    splits = {"train": np.arange(1600), "validation": np.arange(1600, 2000), "test": np.arange(2000, 2400)}
    paper, balanced = (
        without_model(Irony.make(ids, labels, CONTRADICTIONS, splits, 1.0, donors=donors))
        for donors in ("paper", "balanced")
    )
    assert paper["voice_irony_auc"] > 0.7
    assert paper["voice_irony_f1"] > 1.5 * paper["all_irony_f1"]
    assert paper["face_irony_auc"] == pytest.approx(0.5, abs=0.08)
    for who in ("voice", "face"):
        assert balanced[f"{who}_irony_auc"] == pytest.approx(0.5, abs=0.05)
        assert balanced[f"{who}_irony_f1"] <= balanced["all_irony_f1"] + 0.05


def result(method, fold, seed, number, alpha=0.5):
    scores = {"irony_auc": number, "irony_f1": number, "macro_f1": number, "voice_irony_auc": 0.7 + fold / 10}
    return {
        "experiment": "irony", "method": method, "alpha": alpha, "donors": "paper", "fold": fold, "assignment": 0, "seed": seed,
        **scores, "cell": "c", "versions": "v",
    }  # fmt: skip


def test_the_summary_is_over_folds_each_the_mean_of_its_models_and_compares_fold_by_fold():
    levels = {0: 0.2, 1: 0.5, 2: 0.8}  # folds differ much; a method's lead does not
    results = [result("vanilla", f, s, level + 0.01 * s) for f, level in levels.items() for s in (0, 1)]
    results += [result("synib-marginal", f, s, level + 0.1 + 0.02 * f) for f, level in levels.items() for s in (0, 1)]
    summary = {(r["method"], r["metric"]): r for r in IronyRates(seeds=2).summary(results)}
    row = summary["vanilla", "irony_auc"]
    assert (row["n"], row["alpha"], row["donors"]) == (3, 0.5, "paper")
    assert "fold" not in row
    assert row["mean"] == pytest.approx(0.505)
    lead = summary["synib-marginal", "irony_auc_over_vanilla"]
    assert (lead["n"], lead["mean"], lead["se"]) == (3, pytest.approx(0.115), pytest.approx(0.02 / math.sqrt(3)))
    low, high = interval(lead["mean"], lead["se"], lead["n"])
    assert 0 < low < lead["mean"] < high
    voice = summary["emotion of the voice", "irony_auc"]
    assert (voice["n"], voice["mean"]) == (3, pytest.approx(0.8))
    assert ("vanilla", "voice_irony_auc") not in summary


def test_tables_show_scores_leads_and_leaks_of_both_schemes_and_say_the_intervals(small, made):
    summary, _, path = made
    tables = {t.title: t for t in small.tables(summary)}
    assert list(tables) == [
        *(f"{what}, {d} donors" for d in ("paper", "balanced") for what in ("irony AUC", "irony F1", "macro F1")),
        "irony without a model",
    ]
    table = tables["irony AUC, paper donors"]
    assert table.columns == ["α = 0.5", "α = 0.5, above vanilla", "α = 2", "α = 2, above vanilla"]
    assert [cell and cell["n"] for cell in table.rows["vanilla"]] == [3, None, 3, None]
    lead = table.rows["synib-marginal"][1]
    low, high = interval(lead["mean"], lead["se"], 3)
    assert f"synib-marginal {lead['mean']:+.3f} [{low:+.3f}, {high:+.3f}]" in table.note
    assert len(tables["irony without a model"].rows) == 6
    assert all(cell["n"] == 3 for row in tables["irony without a model"].rows.values() for cell in row)
    page = (path / "report.html").read_text()
    assert "Tested on 3 of 5 folds only." in page
    assert "none stand beside these" in page


def test_the_figure_has_the_papers_two_panels_and_the_ranking_for_each_scheme(small, made):
    summary, _, path = made
    figures = small.charts(summary, [])
    assert [f.file for f in figures] == ["figure", "figure-balanced"]
    for figure in figures:
        assert [p.y for p in figure.panels] == ["irony F1", "macro F1", "irony AUC"]
        assert all(list(s.x) == [0.5, 2.0] for p in figure.panels for s in p.series)
        assert (path / f"{figure.file}.svg").exists()


def test_without_vanilla_there_is_nothing_to_be_above(small, made):
    _, rows, _ = made
    one = IronyRates(**{**small.__dict__, "methods": ("synib-marginal",)})
    summary = one.summary([r for r in rows if r["method"] == "synib-marginal"])
    table = one.tables(summary)[0]
    assert table.columns == ["α = 0.5", "α = 2"]
    assert table.note == "n counts folds."


def test_every_method_has_equally_many_candidates_and_the_search_takes_folds_in_turn(ravdess_root, monkeypatch):
    monkeypatch.setenv("SYNIB_DATA", str(ravdess_root))
    assert {len(found) for found in IronyRates().candidates().values()} == {27}
    search = Search(of="irony", seeds=4, methods=("vanilla",))
    data = [search.data(cell) for cell in search.cells()[:4]]
    assert all(d.test is None for d in data)
    assert len({tuple(map(len, parts(d)[:2])) for d in data}) == 1
    seen = [set(d.validation.columns["video_id"]) for d in data]
    assert seen[0] == seen[3]
    assert sum(map(len, seen[:3])) == len(set.union(*seen[:3]))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"source": "crema-d"}, "irony needs frozen features of crema-d's clips, which synib does not make yet"),
        ({"source": "iemocap"}, "source is 'ravdess' or 'crema-d'; got 'iemocap'"),
        ({"donor": ("papers",)}, "donor is 'paper' or 'balanced'; got 'papers'"),
        ({"fold": (0, 5)}, "fold is a whole number from 0 to 4; got 5"),
        ({"alpha": (0.1, 9.0)}, "alpha is a number from 0 to 8; got 9"),
        ({"fold": (1, 1)}, "fold names each value once"),
        ({"overrides": {"vanilla": {"epochs": 3}}}, "epochs is the same for all methods"),
    ],
)
def test_an_option_that_cannot_be_is_answered_by_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        IronyRates(**wrong)


def test_missing_data_are_said_before_training(tmp_path, monkeypatch):
    monkeypatch.delenv("SYNIB_DATA", raising=False)
    with pytest.raises(ValueError, match="give a folder as root"):
        IronyRates().check()
    with pytest.raises(ValueError, match="holds no features"):
        IronyRates(root=str(tmp_path)).check()
