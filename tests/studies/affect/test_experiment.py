"""Sentiment, sarcasm and humour: splits, the subset and its control, baselines without a network, and the page."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from synib.files import read_csv
from synib.measure import calibration, correct, interval, temperature
from synib.report import build
from synib.studies import AffectMOSI, AffectMUStARD, AffectURFunny, Search, features, run
from synib.studies.affect import data as data_module
from synib.studies.affect.baselines import baselines, macro_f1
from synib.studies.affect.data import MODALITIES, SIMILAR_FOLDS
from synib.studies.affect.paper import PAPER
from synib.studies.control import REAL, SHUFFLED
from synib.studies.unimodal import regress
from synib.training import Cell, fleet
from synib.training.cells import programs

BRIEF = {"epochs": 1, "hidden": 8, "latent": 4}
SHORT = {"epochs": 1, "warmup": 0, "layers": 1, "feedforward": 8, "batch_size": 8}
SHARED = Path(os.environ.get("SYNIB_DATA") or Path(__file__).parents[4] / "shared" / "data")
needs_files = pytest.mark.skipif(
    not all((SHARED / name / "features.npz").is_file() for name in ("mosi", "mustard")),
    reason="neither SYNIB_DATA nor a folder shared/data beside the repository has mosi and mustard features",
)
WITH_FEATURES = pytest.mark.parametrize("kind", [AffectMOSI, AffectMUStARD])


@pytest.fixture(autouse=True)
def _caches_cleared():
    yield
    for cached in (data_module.load, data_module.read, baselines):
        cached.cache_clear()


@pytest.fixture(scope="module")
def finished(affect_root, tmp_path_factory):
    """A run of MUStARD with both splits, and its page."""
    methods = ("unimodal-text", "vanilla", "synib-marginal")
    experiment = AffectMUStARD(
        root=str(affect_root), seeds=1, methods=methods, fold=(1, 2), overrides=dict.fromkeys(methods, BRIEF)
    )
    path = run(experiment, tmp_path_factory.mktemp("affect"), device="cpu")
    return experiment, build(path), read_csv(path / "results.csv"), path


@pytest.mark.parametrize(("kind", "schemes"), [(AffectMOSI, 1), (AffectMUStARD, 2)])
def test_there_is_a_cell_for_every_method_fold_and_seed_and_a_control_for_each_of_vanilla(kind, schemes):
    experiment = kind(seeds=2)
    modalities = [m.removeprefix("unimodal-") for m in experiment.methods if m.startswith("unimodal-")]
    assert tuple(modalities) == MODALITIES[experiment.source, "features"]
    cells = experiment.cells()
    for training, methods in ((REAL, set(experiment.methods)), (SHUFFLED, {"vanilla"})):
        mine = [c for c in cells if c.factors["training"] == training]
        assert {c.method for c in mine} == methods
        assert len(mine) == len(methods) * schemes * 5 * 2


@WITH_FEATURES
def test_models_that_are_trained_together_have_splits_of_one_size(kind, affect_root):
    experiment = kind(root=str(affect_root), seeds=1, methods=("vanilla",))
    for same in programs(experiment.cells()):
        data = [experiment.data(cell) for cell in same]
        assert len({(len(d.train), len(d.validation), len(d.test)) for d in data}) == 1
        assert len(data[0].train) % 8 == 0  # no batch of one, whatever the batch size
    for scheme, groups in SIMILAR_FOLDS[experiment.source].items():
        assert sorted(f for folds in groups for f in folds) == [0, 1, 2, 3, 4], scheme


def test_a_cells_data_are_those_of_its_scheme_and_fold(affect_root):
    for kind in (AffectMOSI, AffectMUStARD):
        experiment = kind(root=str(affect_root), seeds=1, methods=("ensemble",))
        for cell in experiment.cells():
            data = experiment.data(cell)
            scheme = {} if kind is AffectMOSI else {"scheme": cell.factors["scheme"]}
            loaded = getattr(features, experiment.source)(affect_root, fold=cell.factors["fold"], **scheme)
            assert tuple(data.test.modalities) == MODALITIES[experiment.source, "features"]
            assert data.test.columns["id"] == loaded.test.columns["id"]
            assert set(data.validation.columns["id"]) <= set(loaded.validation.columns["id"])


@WITH_FEATURES
def test_a_search_takes_turns_at_folds_of_one_size_and_never_sees_what_is_tested(kind, affect_root, monkeypatch):
    monkeypatch.setenv("SYNIB_DATA", str(affect_root))
    settings = {m: s | BRIEF for m, s in kind().defaults().items()}
    monkeypatch.setattr(kind, "defaults", lambda self: settings)
    search = Search(of=kind.name, seeds=5, methods=("vanilla",))
    cells = search.cells()[:5]
    data = [search.data(cell) for cell in cells]
    assert len({(len(d.train), len(d.validation)) for d in data}) == 1
    assert len({tuple(d.validation.columns["id"]) for d in data}) == 5
    for d in data:
        seen = {*d.train.columns["id"], *d.validation.columns["id"]}
        if kind is AffectMOSI:
            assert seen.isdisjoint(f"e{i}" for i in range(150, 200))
        else:
            assert "FRIENDS" not in (*d.train.columns["show"], *d.validation.columns["show"])
    (metrics, *_) = fleet.train(search, cells).metrics
    assert metrics.keys() == {"train_accuracy", "validation_accuracy"}


def test_the_control_is_trained_on_shuffled_modalities_and_tested_on_real_ones(affect_root):
    experiment = AffectMOSI(root=str(affect_root), seeds=1, methods=("vanilla",), fold=(0,))
    real, control = (experiment.data(cell) for cell in experiment.cells())
    assert not torch.equal(control.train.modalities["text"], real.train.modalities["text"])
    assert torch.equal(control.train.target, real.train.target)
    assert control.test is real.test
    assert control.validation is real.validation


def test_the_subset_is_what_every_regression_gets_wrong_and_frames_are_no_modality(affect_root):
    experiment = AffectMUStARD(root=str(affect_root), seeds=1, methods=("ensemble",), fold=(0,), scheme=("official",))
    (cell,) = experiment.cells()
    data = experiment.data(cell)
    subset, scores = baselines(experiment.data_spec(cell))
    parts = (data.train, data.validation, data.test)
    y = [part.target for part in parts]
    wrong = {m: regress([p.modalities[m] for p in parts], y[:2]) != y[2] for m in ("text", "audio", "video")}
    assert torch.equal(subset, torch.stack(list(wrong.values())).all(0))
    assert 0 < subset.sum() < len(y[2])
    assert scores["alone_frame_test_accuracy"] > 0.8  # nine clips in ten
    for m, mistakes in wrong.items():
        assert scores[f"alone_{m}_test_accuracy"] == pytest.approx(1 - mistakes.double().mean().item())
    share = y[2].double().mean().item()
    assert scores["alone_constant_test_accuracy"] == pytest.approx(max(share, 1 - share))


def test_the_scores_of_a_model_are_those_of_the_measures(affect_root):
    overrides = {"vanilla": BRIEF | {"epochs": 4}}
    experiment = AffectMOSI(root=str(affect_root), seeds=1, methods=("vanilla",), fold=(3,), overrides=overrides)
    cell = experiment.cells()[0]
    shard = fleet.train(experiment, [cell])
    learner, data = shard.learners[0].eval(), experiment.data(cell)
    scores = shard.metrics[0]
    with torch.no_grad():
        logits, on_validation = (
            learner.method.predict(learner.model, s.modalities) for s in (data.test, data.validation)
        )
    assert scores["temperature"] == pytest.approx(temperature(on_validation, data.validation.target, experiment.family))
    ece = calibration(logits, data.test.target, family=experiment.family).error
    assert scores["ece"] == pytest.approx(ece)
    subset = baselines(experiment.data_spec(cell)).subset
    hits = correct(experiment.family, logits, data.test.target)
    assert scores["subset_accuracy"] == pytest.approx(hits[subset].mean().item())
    assert scores["subset_size"] == subset.sum()
    assert scores["macro_f1"] == pytest.approx(macro_f1(logits.argmax(1), data.test.target))
    assert experiment.examine(cell, learner, replace(data, test=None)) == {}


def result(method, fold, seed, accuracy, subset, training=REAL, scheme="official"):
    return {
        "experiment": "affect-mosi", "method": method, "scheme": scheme, "fold": fold, "training": training, "seed": seed,
        "test_accuracy": accuracy, "macro_f1": accuracy - 0.1, "ece": 0.2, "ece_calibrated": 0.1, "temperature": 2.0,
        "subset_accuracy": subset, "subset_size": 40 + fold, "alone_text_test_accuracy": 0.7 + 0.01 * fold,
        "alone_text_macro_f1": 0.6, "alone_constant_test_accuracy": 0.62, "alone_constant_macro_f1": 0.38,
        "cell": "c", "versions": "v",
    }  # fmt: skip


# Folds differ much, a method's lead little; seeds of a fold differ symmetrically.
RESULTS = [
    result(method, fold, seed, 0.6 + 0.1 * fold + lead * (1 + fold) + 0.02 * (seed - 0.5), on, training)
    for method, lead, on, training in (
        ("vanilla", 0.0, 0.30, REAL),
        ("vanilla", -0.01, 0.28, SHUFFLED),
        ("experts", 0.02, 0.40, REAL),
    )
    for fold in (0, 1, 2)
    for seed in (0, 1)
]


@pytest.fixture(scope="module")
def compared():
    experiment = AffectMOSI(seeds=2, fold=(0, 1, 2), methods=("vanilla", "experts"))
    summary = experiment.summary(RESULTS)
    return experiment, summary, {(r["method"], r["metric"]): r for r in summary}


def test_baselines_without_a_network_have_rows_of_their_own(compared):
    _, summary, rows = compared
    row = rows["text, logistic regression", "test_accuracy"]
    assert (row["mean"], row["n"]) == (pytest.approx(0.71), 3)
    assert rows["one answer for all", "macro_f1"]["mean"] == pytest.approx(0.38)
    assert not [r for r in summary if r["metric"].startswith("alone")]


def test_the_table_states_the_size_of_the_subset_that_tests_are_shared_and_the_intervals(compared):
    experiment, summary, _ = compared
    (table,) = experiment.tables(summary)
    assert list(table.rows) == ["vanilla", "experts", "control", "text, logistic regression", "one answer for all"]
    assert [c["mean"] for c in table.rows["experts"]] == pytest.approx([0.74, 0.04, 0.64, 0.4, 0.12, 0.2, 0.1])
    low, high = interval(0.04, 0.02 / math.sqrt(3), 3)
    for text in ("41 examples", "fewer than 97", "tested on the same", f"experts +0.040 [{low:+.3f}, {high:+.3f}]"):
        assert text in table.note
    other = AffectMUStARD(seeds=2, fold=(0, 1, 2), methods=("vanilla", "experts"), scheme=("official",))
    assert "tested on the same" not in other.tables(other.summary(RESULTS))[0].note
    rows = [{**r, "scheme": "speaker-independent"} for r in RESULTS]
    assert "tested on the same" in other.tables(other.summary(rows))[0].note


def test_folds_that_are_each_tested_once_have_corrected_resampled_t_intervals_in_note_and_figure(compared):
    low, high = interval(0.04, 0.02 / math.sqrt(3), 3, test_share=1 / 5)
    other = AffectMUStARD(seeds=2, fold=(0, 1, 2), methods=("vanilla", "experts"), scheme=("official",))
    summary = other.summary(RESULTS)
    note = other.tables(summary)[0].note
    assert f"(corrected resampled t): experts +0.040 [{low:+.3f}, {high:+.3f}]" in note
    row = other.charts(summary, [])[0].panels[0].rows["experts"]
    assert (row["low"], row["high"]) == pytest.approx(interval(row["mean"], row["se"], 3, test_share=1 / 5))
    assert all("low" not in r for r in summary)  # the published table stays mean, standard error and n
    shared, its_summary, _ = compared
    assert "low" not in shared.charts(its_summary, [])[0].panels[0].rows["experts"]


def test_the_papers_numbers_stand_beside_ours_but_not_where_other_speakers_are_tested(compared):
    _, _, rows = compared
    assert rows["vanilla", "test_accuracy"]["paper"] == 0.728
    assert rows["vanilla", "subset_accuracy"]["paper"] == 0.314
    assert rows["experts", "test_accuracy"]["paper"] is rows["vanilla", "ece"]["paper"] is None
    assert AffectMUStARD().paper("vanilla", {"scheme": "speaker-independent"}, "test_accuracy") is None
    assert AffectMUStARD().paper("synib-learned", {"scheme": "official"}, "subset_accuracy") == 0.529
    assert all(len(numbers) == 8 and numbers.keys() <= set(AffectURFunny().methods) for numbers in PAPER.values())


def test_a_run_leaves_a_row_for_every_cell_and_a_page_for_both_schemes(finished):
    experiment, summary, rows, path = finished
    assert [row["cell"] for row in rows] == [cell.id for cell in experiment.cells()]
    assert {r["n"] for r in summary if r["metric"] == "test_accuracy"} == {2}
    page = (path / "README.md").read_text()
    for text in ("other speakers", "official split", "frame size, without a model", "control", "Only 2 of 5 folds"):
        assert text in page
    for name in ("figure.svg", "figure-speaker-independent.svg"):
        assert (path / name).exists()


@WITH_FEATURES
def test_sequences_have_multibenchs_one_split(kind, affect_root):
    experiment = kind(root=str(affect_root), form="sequences", seeds=1, methods=("vanilla",))
    assert [(c.factors["scheme"], c.factors["training"]) for c in experiment.cells()] == [
        ("multibench", REAL),
        ("multibench", SHUFFLED),
    ]
    assert set(experiment.data(experiment.cells()[0]).train.modalities) == {"vision", "text"}
    assert experiment.repeats == (1, "seed")


def test_sequences_are_trained_by_the_solo_engine(affect_root, tmp_path):
    pytest.importorskip("lightning")
    experiment = AffectURFunny(root=str(affect_root), seeds=1, methods=("vanilla",), overrides={"vanilla": SHORT})
    summary = build(run(experiment, tmp_path / "run", device="cpu", engine="solo"))
    rows = {(r["method"], r["metric"]): r for r in summary}
    assert 0 <= rows["vanilla", "test_accuracy"]["mean"] <= 1
    assert rows["vanilla", "test_accuracy"]["paper"] == PAPER["ur-funny"]["vanilla"][1]
    assert rows["vision, logistic regression", "test_accuracy"]["n"] == 1
    assert "frame size, without a model" not in {r["method"] for r in summary}


def test_a_quick_run_of_sequences_has_no_folds_to_leave_out():
    assert AffectMOSI.quickly({"form": "sequences"}).keys() == {"seeds", "methods", "form"}
    assert AffectMOSI(**AffectMOSI.quickly({})).fold == (1, 2)
    assert AffectURFunny(**AffectURFunny.quickly({})).kind == "sequences"


@needs_files
def test_mosis_own_video_knows_the_labels_of_training_videos_it_should_not_and_text_and_audio_do_not():
    data = features.mosi(SHARED, fold=0)
    parts = (data.train, data.validation, data.test)
    y = [part.target for part in parts]
    accuracy = {}
    for m in ("text", "audio", "video"):
        x = [part.modalities[m] for part in parts]
        hits = [regress([*x[:2], x[i]], y[:2]) == y[i] for i in (1, 2)]
        accuracy[m] = [each.double().mean().item() for each in hits]
    assert accuracy["video"][0] > 0.85 > 0.6 > accuracy["video"][1]
    assert all(abs(accuracy[m][0] - accuracy[m][1]) < 0.12 for m in ("text", "audio"))


@needs_files
@WITH_FEATURES
def test_few_real_examples_are_left_out_so_that_folds_can_be_trained_together(kind):
    experiment = kind(root=str(SHARED), seeds=1, methods=("ensemble",))
    for same in programs(experiment.cells()):
        for spec in map(experiment.data_spec, same):
            cut, full = data_module.load(spec), data_module.read(spec)
            assert len(full.train) - len(cut.train) <= 11
            assert len(full.validation) - len(cut.validation) <= 10
        assert len({len(experiment.data(cell).test) for cell in same}) == 1
    searched = Cell("search", "vanilla", experiment.searched_at(), seed=0)
    assert len({len(experiment.data(replace(searched, seed=s)).train) for s in range(5)}) == 1
