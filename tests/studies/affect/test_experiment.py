"""Sentiment, sarcasm and humour: protocols, the subset and its control, what needs no network, and the page."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from synib import Tokens
from synib.files import read_csv
from synib.measure import calibration, correct, interval, temperature
from synib.report import build
from synib.studies import AffectMOSI, AffectMUStARD, AffectURFunny, Search, features, run
from synib.studies.affect import data as data_module
from synib.studies.affect.data import OTHERS, TOGETHER, data_of, known, macro_f1, regress
from synib.studies.affect.experiment import REAL, SHUFFLED
from synib.studies.affect.settings import CHOSEN, MODALITIES, OWN, PAPER
from synib.training import Cell, fleet
from synib.training.cells import programs

KINDS = (AffectMOSI, AffectMUStARD, AffectURFunny)
BRIEF = {"epochs": 1, "hidden": 8, "latent": 4}
SHORT = {"epochs": 1, "warmup": 0, "layers": 1, "feedforward": 8, "batch_size": 8}
SHARED = Path(os.environ.get("SYNIB_DATA") or Path(__file__).parents[4] / "shared" / "data")
needs_files = pytest.mark.skipif(
    not all((SHARED / name / "features.npz").is_file() for name in ("mosi", "mustard")),
    reason="neither SYNIB_DATA nor a folder shared/data beside the repository has mosi and mustard features",
)


@pytest.fixture(autouse=True)
def nothing_kept():
    yield
    for cached in (data_module.data_of, data_module._read, data_module.known):
        cached.cache_clear()


def brief(*methods, **more):
    return dict.fromkeys(methods, BRIEF | more)


@pytest.fixture(scope="module")
def made(affect_root, tmp_path_factory):
    """A run of MUStARD under both schemes, with its page."""
    who = ("unimodal-text", "vanilla", "synib-marginal")
    small = AffectMUStARD(root=str(affect_root), seeds=2, methods=who, fold=(1, 2), overrides=brief(*who))
    path = run(small, tmp_path_factory.mktemp("affect"), device="cpu")
    return small, build(path), read_csv(path / "results.csv"), path


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_has_equally_many_candidates_no_two_the_same(kind):
    experiment = kind()
    alone = {f"unimodal-{m}" for m in MODALITIES[experiment.source, experiment.kind]}
    candidates = experiment.candidates()
    assert set(candidates) == set(experiment.methods) == {*alone, *OWN}
    for method, of in candidates.items():
        assert len({json.dumps(c, sort_keys=True) for c in of}) == len(of) == 24, method
        assert all(c.keys() <= experiment.defaults()[method].keys() for c in of), method
        in_use = experiment.defaults()[method]
        if experiment.kind == "features":  # sequences have what the paper reports
            assert any(c.items() <= in_use.items() for c in of), method


@pytest.mark.parametrize("kind", [AffectMOSI, AffectMUStARD])
def test_the_last_epoch_of_reconboost_is_one_of_rectification(kind):
    s = kind().defaults()["reconboost"]
    assert s["epochs"] % (len(MODALITIES[kind().source, "features"]) * s["stage"] + s["rectify"]) == 0


@pytest.mark.parametrize(("kind", "schemes"), [(AffectMOSI, 1), (AffectMUStARD, 2)])
def test_there_is_a_cell_for_every_method_fold_and_seed_and_a_control_for_each_of_vanilla(kind, schemes):
    cells = kind(seeds=2).cells()
    for training, who in ((REAL, set(kind().methods)), (SHUFFLED, {"vanilla"})):
        mine = [c for c in cells if c.factors["training"] == training]
        assert {c.method for c in mine} == who
        assert len(mine) == len(who) * schemes * 5 * 2
    real, mixed = (
        [c.settings for c in cells if c.method == "vanilla" and c.factors["training"] == t] for t in (REAL, SHUFFLED)
    )
    assert real == mixed


@pytest.mark.parametrize("kind", [AffectMOSI, AffectMUStARD])
def test_models_that_are_trained_together_have_splits_of_one_size(kind, affect_root):
    experiment = kind(root=str(affect_root), seeds=1, methods=("vanilla",))
    for same in programs(experiment.cells()):
        data = [experiment.data(cell) for cell in same]
        assert len({(len(d.train), len(d.validation), len(d.test)) for d in data}) == 1
        assert len(data[0].train) % 8 == 0  # no batch of one, whatever the batch size
    for scheme, groups in TOGETHER[experiment.source].items():
        assert sorted(f for folds in groups for f in folds) == [0, 1, 2, 3, 4], scheme


def test_mosi_tests_the_official_videos_in_every_fold_and_validates_on_others_of_the_training_videos(affect_root):
    experiment = AffectMOSI(root=str(affect_root), seeds=1, methods=("vanilla",))
    found = [experiment.data(c) for c in experiment.cells() if c.factors["training"] == REAL]
    assert all(set(d.train.modalities) == {"text", "audio"} and d.widths["text"] == 4 for d in found)
    tests = [d.test.columns["video_id"] for d in found]
    assert all(set(t) == {f"v{i}" for i in range(30, 40)} for t in tests)
    videos = [[set(split.columns["video_id"]) for split in (d.train, d.validation)] for d in found]
    assert all(not train & validation for train, validation in videos)
    assert len(set.union(*(validation for _, validation in videos))) > 20  # they take turns


def test_mustard_tests_every_clip_once_or_friends_with_speakers_that_nobody_heard(affect_root):
    experiment = AffectMUStARD(root=str(affect_root), seeds=1, methods=("ensemble",))
    tested = {"official": [], "speaker-independent": []}
    for cell in experiment.cells():
        data = experiment.data(cell)
        tested[cell.factors["scheme"]] += [data.test.columns["id"]]
        if cell.factors["scheme"] == "speaker-independent":
            assert set(data.test.columns["show"]) == {"FRIENDS"}
            assert "FRIENDS" not in (*data.train.columns["show"], *data.validation.columns["show"])
            who = [
                set(zip(s.columns["show"], s.columns["speaker"], strict=True)) for s in (data.train, data.validation)
            ]
            assert not who[0] & who[1]
    assert sorted(i for ids in tested["official"] for i in ids) == sorted(f"e{i}" for i in range(200))
    assert len({tuple(ids) for ids in tested["speaker-independent"]}) == 1


@pytest.mark.parametrize("kind", [AffectMOSI, AffectMUStARD])
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
    (found, *_) = fleet.train(search, cells).metrics
    assert found.keys() == {"train_accuracy", "validation_accuracy"}


def test_the_control_is_trained_on_modalities_shuffled_within_class_and_tested_on_real_ones(affect_root):
    experiment = AffectMOSI(root=str(affect_root), seeds=2, methods=("vanilla",), fold=(0,))
    real, other, mixed, again = (experiment.data(cell) for cell in experiment.cells())
    assert torch.equal(real.train.modalities["text"], other.train.modalities["text"])
    assert torch.equal(mixed.test.modalities["text"], real.test.modalities["text"])
    assert torch.equal(mixed.validation.modalities["text"], real.validation.modalities["text"])
    assert torch.equal(mixed.train.target, real.train.target)
    pairs = [torch.cat(list(d.train.modalities.values()), 1).tolist() for d in (real, mixed, again)]
    assert pairs[0] != pairs[1] != pairs[2]
    for label in (0, 1):
        rows = real.train.target == label
        for m in real.train.modalities:  # the same vectors of each class, in another order
            ours, theirs = (d.train.modalities[m][rows] for d in (real, mixed))
            assert not torch.equal(ours, theirs)
            assert sorted(ours.tolist()) == sorted(theirs.tolist())


def test_a_regression_finds_what_is_linear_and_its_penalty_is_chosen_on_validation():
    g = torch.Generator().manual_seed(0)
    x = [5 + 3 * torch.randn(n, 3, generator=g) for n in (400, 200, 500)]
    y = [(part[:, 0] - part[:, 1] > 0).long() for part in x]
    assert (regress(x, y[:2]) == y[2]).double().mean() > 0.95
    few = [torch.randn(n, 20, generator=g) for n in (60, 200, 500)]
    labels = [(part[:, 0] > 0).long() for part in few]
    said, other = (regress(few, [labels[0], v]) for v in (labels[1], 1 - labels[1]))
    assert not torch.equal(said, other)
    assert (said == labels[2]).double().mean() > (other == labels[2]).double().mean()
    constant = [torch.cat([part, torch.full((len(part), 1), 7.0)], 1) for part in x]
    assert torch.equal(regress(constant, y[:2]), regress(x, y[:2]))


def test_the_subset_is_what_every_regression_gets_wrong_and_frames_are_no_modality(affect_root):
    experiment = AffectMUStARD(root=str(affect_root), seeds=1, methods=("ensemble",), fold=(0,), scheme=("official",))
    (cell,) = experiment.cells()
    data = experiment.data(cell)
    found = known(experiment._place(cell))
    parts = (data.train, data.validation, data.test)
    y = [part.target for part in parts]
    wrong = torch.stack([regress([p.modalities[m] for p in parts], y[:2]) != y[2] for m in ("text", "audio", "video")])
    assert torch.equal(found.subset, wrong.all(0))
    assert 0 < found.subset.sum() < len(y[2])
    told = found.scores
    assert told["alone_frame_test_accuracy"] > 0.8  # nine clips in ten
    for m, row in zip(("text", "audio", "video"), wrong, strict=True):
        assert told[f"alone_{m}_test_accuracy"] == pytest.approx(1 - row.double().mean().item())
    share = y[2].double().mean().item()
    assert told["alone_constant_test_accuracy"] == pytest.approx(max(share, 1 - share))


def test_a_frame_size_that_training_does_not_have_says_nothing():
    first, second = data_module._one_hot([[("a", 24), ("b", 25)], [("c", 24), ("a", 30)]])
    assert first.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert second.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]


def test_a_sequence_is_the_mean_of_its_steps_without_padding():
    steps = Tokens(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[False, False, True]]))
    assert data_module._vectors(steps).tolist() == [[2.0]]


def test_what_is_told_of_a_model_is_what_the_measures_say(affect_root):
    experiment = AffectMOSI(
        root=str(affect_root), seeds=1, methods=("vanilla",), fold=(3,), overrides=brief("vanilla", epochs=4)
    )
    cell = experiment.cells()[0]
    shard = fleet.train(experiment, [cell])
    learner, data = shard.learners[0].eval(), experiment.data(cell)
    told = shard.metrics[0]
    with torch.no_grad():
        logits, on_validation = (
            learner.method.predict(learner.model, s.modalities) for s in (data.test, data.validation)
        )
    assert told["temperature"] == pytest.approx(temperature(on_validation, data.validation.target, experiment.family))
    for name, x in (("ece", logits), ("ece_calibrated", logits / told["temperature"])):
        assert told[name] == pytest.approx(
            calibration(x, data.test.target, family=experiment.family, resamples=2).error
        )
    subset = known(experiment._place(cell)).subset
    hits = correct(experiment.family, logits, data.test.target)
    assert told["subset_accuracy"] == pytest.approx(hits[subset].mean().item())
    assert told["subset_size"] == subset.sum()
    assert told["macro_f1"] == pytest.approx(macro_f1(logits.argmax(1), data.test.target))
    flipped = replace(data, test=replace(data.test, target=1 - data.test.target))
    assert experiment.examine(cell, learner, flipped)["temperature"] == pytest.approx(told["temperature"])
    assert experiment.examine(cell, learner, replace(data, test=None)) == {}


def test_macro_f1_is_the_mean_over_both_classes():
    assert macro_f1(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])) == pytest.approx((4 / 5 + 2 / 3) / 2)


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


def test_a_fold_counts_as_the_mean_of_its_seeds_and_leads_are_fold_by_fold(compared):
    _, _, found = compared
    assert found["vanilla", "test_accuracy"]["mean"] == pytest.approx(0.7)
    assert found["vanilla", "test_accuracy"]["n"] == 3
    lead = found["experts", "test_accuracy_over_vanilla"]
    assert (lead["mean"], lead["se"], lead["n"]) == pytest.approx((0.04, 0.02 / math.sqrt(3), 3))
    assert ("vanilla", "test_accuracy_over_vanilla") not in found


def test_the_subset_counts_above_the_control_which_is_no_method(compared):
    experiment, _, found = compared
    assert found["control", "subset_accuracy"]["mean"] == pytest.approx(0.28)
    assert found["vanilla", "subset_accuracy_over_control"]["mean"] == pytest.approx(0.02)
    assert found["experts", "subset_accuracy_over_control"]["mean"] == pytest.approx(0.12)
    assert found["vanilla", "test_accuracy"]["mean"] > found["control", "test_accuracy"]["mean"]
    assert not [who for who, metric in found if who == "control" and "_over_" in metric]
    assert "control" not in experiment.methods


def test_what_needs_no_network_is_told_once(compared):
    _, summary, found = compared
    row = found["text, logistic regression", "test_accuracy"]
    assert (row["mean"], row["n"]) == (pytest.approx(0.71), 3)
    assert found["one answer for all", "macro_f1"]["mean"] == pytest.approx(0.38)
    assert not [r for r in summary if r["metric"].startswith("alone")]


def test_a_fold_without_a_subset_is_left_out_of_its_mean():
    rows = [{**r, "subset_accuracy": None} if r["fold"] == 0 else r for r in RESULTS]
    experiment = AffectMOSI(seeds=2, fold=(0, 1, 2), methods=("vanilla", "experts"))
    found = {(r["method"], r["metric"]): r for r in experiment.summary(rows)}
    assert found["experts", "subset_accuracy"]["n"] == found["experts", "subset_accuracy_over_control"]["n"] == 2


def test_the_table_says_the_size_of_the_subset_that_tests_are_shared_and_the_intervals(compared):
    experiment, summary, _ = compared
    (table,) = experiment.tables(summary)
    assert list(table.rows) == ["vanilla", "experts", "control", "text, logistic regression", "one answer for all"]
    assert [c["mean"] for c in table.rows["experts"]] == pytest.approx([0.74, 0.04, 0.64, 0.4, 0.12, 0.2, 0.1])
    low, high = interval(0.04, 0.02 / math.sqrt(3), 3)
    for said in ("41 examples", "fewer than 97", "tested on the same", f"experts +0.040 [{low:+.3f}, {high:+.3f}]"):
        assert said in table.note
    other = AffectMUStARD(seeds=2, fold=(0, 1, 2), methods=("vanilla", "experts"), scheme=("official",))
    assert "tested on the same" not in other.tables(other.summary(RESULTS))[0].note
    rows = [{**r, "scheme": "speaker-independent"} for r in RESULTS]
    assert "tested on the same" in other.tables(other.summary(rows))[0].note


def test_the_table_says_how_far_one_modality_alone_is_above_the_control():
    more = [{**r, "method": "unimodal-text", "subset_accuracy": 0.35} for r in RESULTS if r["method"] == "experts"]
    worse = [{**r, "method": "unimodal-audio", "subset_accuracy": 0.1} for r in more]
    experiment = AffectMOSI(seeds=2, fold=(0, 1, 2), methods=("unimodal-text", "unimodal-audio", "vanilla"))
    rows = [r for r in RESULTS if r["method"] == "vanilla"]
    (table,) = experiment.tables(experiment.summary([*more, *worse, *rows]))
    assert "is +0.070 above the control here (unimodal-text)" in table.note


def test_the_papers_numbers_stand_beside_ours_but_not_where_other_speakers_are_tested(compared):
    _, _, found = compared
    assert found["vanilla", "test_accuracy"]["paper"] == 0.728
    assert found["vanilla", "subset_accuracy"]["paper"] == 0.314
    assert found["experts", "test_accuracy"]["paper"] is found["vanilla", "ece"]["paper"] is None
    assert AffectMUStARD().paper("vanilla", {"scheme": "speaker-independent"}, "test_accuracy") is None
    assert AffectMUStARD().paper("synib-learned", {"scheme": "official"}, "subset_accuracy") == 0.529
    assert all(len(numbers) == 8 and numbers.keys() <= OWN.keys() for numbers in PAPER.values())


def test_the_page_says_what_was_seen_whose_settings_were_used_and_that_the_papers_features_differ(monkeypatch):
    assert all("paper's" in kind().about for kind in KINDS)
    plain, words = AffectMOSI(), AffectMOSI(form="sequences")
    assert (plain.title, words.title) == (
        "CMU-MOSI: sentiment from text and audio",
        "CMU-MOSI: sentiment from vision and text",
    )
    assert "MiniLM" in plain.about
    assert "MultiBench's features" in words.about
    assert "MiniLM" not in words.about
    assert AffectMOSI.from_config(words.config()).title == words.title
    assert "compared on validation accuracy" in plain.about
    monkeypatch.setitem(CHOSEN, "mosi", {"vanilla": {"lr": 0.0123}})
    assert AffectMOSI().defaults()["vanilla"]["lr"] == 0.0123
    assert AffectMOSI().defaults()["confidence"]["lr"] == 1e-3


def test_the_figure_has_accuracy_beside_what_exceeds_the_control(compared):
    experiment, summary, _ = compared
    (figure,) = experiment.charts(summary, [])
    assert figure.methods == ["vanilla", "experts"]
    whole, subset = figure.panels
    assert (whole.rows["experts"]["mean"], whole.chance) == pytest.approx((0.74, 0.62))
    assert (subset.rows["experts"]["mean"], subset.chance) == pytest.approx((0.12, 0.0))
    assert (figure.file, figure.over) == ("figure", "folds")


def test_a_run_leaves_a_row_for_every_cell_and_a_page_for_both_schemes(made):
    small, summary, rows, path = made
    assert [row["cell"] for row in rows] == [cell.id for cell in small.cells()]
    assert {(r["scheme"], r["fold"]) for r in rows} == {(s, f) for s in small.scheme for f in (1, 2)}
    assert {r["n"] for r in summary if r["metric"] == "test_accuracy"} == {2}
    for file in ("report.html", "README.md"):
        page = (path / file).read_text()
        for said in ("other speakers", "official split", "frame size, without a model", "control", "2 of 5 folds only"):
            assert said in page.replace("Other speakers", "other speakers")
    for name in ("figure.svg", "figure-speaker-independent.svg"):
        assert (path / name).exists()


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_are_trained_alone_and_tested_on_multibenchs_split(kind, affect_root, tmp_path):
    pytest.importorskip("lightning")
    experiment = kind(
        root=str(affect_root), form="sequences", seeds=1, methods=("vanilla",), overrides={"vanilla": SHORT}
    )
    assert [c.factors["training"] for c in experiment.cells()] == [REAL, SHUFFLED]
    path = run(experiment, tmp_path / "run", device="cpu", engine="solo")
    summary = build(path)
    found = {(r["method"], r["metric"]): r for r in summary}
    assert {r["scheme"] for r in summary} == {"multibench"}
    assert 0 <= found["vanilla", "test_accuracy"]["mean"] <= 1
    assert found["vanilla", "test_accuracy"]["paper"] == PAPER[experiment.source]["vanilla"][1]
    assert found["vision, logistic regression", "test_accuracy"]["n"] == 1
    assert "frame size, without a model" not in {r["method"] for r in summary}
    assert experiment.repeats == (1, "seed")


def test_the_fleet_says_who_trains_sequences(affect_root, tmp_path):
    with pytest.raises(ValueError, match="these cells have warmup, schedule, select: train them with --engine solo"):
        run(AffectURFunny(root=str(affect_root), seeds=1, methods=("vanilla",)), tmp_path / "run", device="cpu")


def test_a_quick_run_of_sequences_has_no_folds_to_leave_out():
    assert AffectMOSI.quickly({"form": "sequences"}).keys() == {"seeds", "methods", "form"}
    assert AffectMOSI(**AffectMOSI.quickly({"form": "sequences"})).kind == "sequences"
    assert AffectMOSI(**AffectMOSI.quickly({})).fold == (1, 2)
    assert AffectURFunny(**AffectURFunny.quickly({})).kind == "sequences"


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (AffectURFunny, {"form": "features"}, "ur-funny comes as sequences only: leave out --form"),
        (AffectMOSI, {"form": "pictures"}, "form is 'auto' or 'features' or 'sequences'; got 'pictures'"),
        (AffectMOSI, {"scheme": ("speaker-independent",)}, "scheme of mosi is 'official'; got 'speaker-independent'"),
        (AffectMUStARD, {"scheme": (OTHERS,)}, "is 'official' or 'speaker-independent'; got 'other-shows'"),
        (AffectMUStARD, {"fold": (5,)}, "fold is a whole number from 0 to 4; got 5"),
        (AffectMUStARD, {"form": "sequences", "fold": (1,)}, "one split, MultiBench's: leave out --fold"),
        (AffectMUStARD, {"form": "sequences", "scheme": ("official",)}, "one split, MultiBench's: leave out --scheme"),
        (AffectMOSI, {"methods": ("unimodal-video",)}, "no settings for 'unimodal-video'; it has unimodal-text"),
        (AffectURFunny, {"methods": ("unimodal-audio",)}, "no settings for 'unimodal-audio'; it has unimodal-vision"),
        (AffectMOSI, {"methods": ("synib-oracle",)}, "no settings for 'synib-oracle'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(kind, options, said):
    with pytest.raises(ValueError, match=said):
        kind(**options)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (AffectMOSI, {}, "holds no features.npz .*: get it from https://github.com/declare-lab"),
        (
            AffectMUStARD,
            {"form": "sequences"},
            "holds no sarcasm.pkl .*: get it from https://github.com/pliang279/MultiBench",
        ),
        (AffectURFunny, {}, "holds no humor.pkl .*: get it from https://github.com/pliang279/MultiBench"),
    ],
)
def test_missing_files_are_said_before_training_with_where_to_get_them(kind, options, said, tmp_path, untrained):
    with pytest.raises(ValueError, match=said):
        run(kind(root=str(tmp_path), **options), tmp_path / "out")


@needs_files
def test_mosis_own_video_knows_the_labels_of_training_videos_it_should_not_and_text_and_audio_do_not():
    data = features.mosi(SHARED, fold=0)
    parts = (data.train, data.validation, data.test)
    y = [part.target for part in parts]
    right = {}
    for m in ("text", "audio", "video"):
        x = [part.modalities[m] for part in parts]
        said = [regress([*x[:2], x[i]], y[:2]) == y[i] for i in (1, 2)]
        right[m] = [each.double().mean().item() for each in said]
    assert right["video"][0] > 0.85 > 0.6 > right["video"][1]
    assert all(abs(right[m][0] - right[m][1]) < 0.12 for m in ("text", "audio"))


@needs_files
@pytest.mark.parametrize("kind", [AffectMOSI, AffectMUStARD])
def test_few_real_examples_are_left_out_so_that_folds_can_be_trained_together(kind):
    experiment = kind(root=str(SHARED), seeds=1, methods=("vanilla",))
    for same in programs([c for c in experiment.cells() if c.factors["training"] == REAL]):
        for cell in same:
            place = experiment._place(cell)
            cut, whole = data_of(place), data_module._read(place)
            assert len(whole.train) - len(cut.train) <= 11
            assert len(whole.validation) - len(cut.validation) <= 10
            assert len(whole.test) == len(cut.test)
        assert len({len(experiment.data(cell).test) for cell in same}) == 1
    searched = Cell("search", "vanilla", experiment.searched_at(), seed=0)
    assert len({len(experiment.data(replace(searched, seed=s)).train) for s in range(5)}) == 1
