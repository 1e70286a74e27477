"""Irony on RAVDESS's features and CREMA-D's media: data, scores, what is pooled over folds, what a modality gives away."""

import math
import os
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.files import read_csv, read_json
from synib.measure import f1_by_class, interval, scores
from synib.report import build
from synib.studies import IronyRates, Search, features, run
from synib.studies.irony import crema_d
from synib.studies.irony.construction import Irony
from synib.studies.irony.data import without_model
from synib.studies.irony.ravdess import CONTRADICTIONS, FOLDS
from synib.studies.irony.settings import CHOSEN, OWN
from synib.training import fleet
from synib.training.cells import programs
from synib.training.folder import Folder
from synib.training.sweep import sweep


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


def test_the_shift_is_that_of_validation_data(small, made):
    _, rows, _ = made
    cell = small.cells()[3]
    data = small.data(cell)
    learner = fleet.train(small, [cell]).learners[0].eval()
    with torch.no_grad():
        on_validation, at_test = (
            learner.method.predict(learner.model, split.modalities).numpy() for split in parts(data)[1:]
        )

    def f1(logits, target, shift):
        return f1_by_class((logits + shift * np.eye(9)[8]).argmax(1), target.numpy(), 9)

    tried = np.linspace(-12, 12, 961)
    found = [np.nanmean(f1(on_validation, data.validation.target, shift)) for shift in tried]
    best = tried[np.isclose(found, max(found), atol=1e-9)]
    nearest = f1(at_test, data.test.target, best[np.abs(best).argmin()])
    assert rows[3]["shifted_irony_f1"] == pytest.approx(
        nearest[8], abs=0.06
    )  # a line lies anywhere between two examples
    assert rows[3]["shifted_macro_f1"] == pytest.approx(np.nanmean(nearest), abs=0.02)


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
        *(f"F1 with irony's line drawn on validation, {d} donors" for d in ("paper", "balanced")),
        "irony without a model",
    ]
    table = tables["irony AUC, paper donors"]
    assert table.columns == ["α = 0.5", "α = 0.5, above vanilla", "α = 2", "α = 2, above vanilla"]
    assert [cell and cell["n"] for cell in table.rows["vanilla"]] == [3, None, 3, None]
    lead = table.rows["synib-marginal"][1]
    low, high = interval(lead["mean"], lead["se"], 3)
    assert f"synib-marginal {lead['mean']:+.3f} [{low:+.3f}, {high:+.3f}]" in table.note
    shifted = tables["F1 with irony's line drawn on validation, balanced donors"]
    assert shifted.columns == [f"α = {a}, {what}" for a in ("0.5", "2") for what in ("irony F1", "macro F1")]
    metrics = [f"shifted_{what}" for what in ("irony_f1", "macro_f1")] * 2
    assert [(c["metric"], c["donors"], c["n"]) for c in shifted.rows["vanilla"]] == [
        (m, "balanced", 3) for m in metrics
    ]
    assert {"shifted_irony_f1_over_vanilla", "shifted_macro_f1_over_vanilla"} <= {row["metric"] for row in summary}
    assert len(tables["irony without a model"].rows) == 6
    assert all(cell["n"] == 3 for row in tables["irony without a model"].rows.values() for cell in row)
    page = (path / "report.html").read_text()
    assert "Tested on 3 of 5 folds only." in page
    assert "none stand beside these" in page
    assert "27 candidates for each method" in page


def test_no_line_is_drawn_through_a_single_rate(small, made):
    summary, _, _ = made
    one = IronyRates(**{**small.__dict__, "alpha": (0.5,)})
    assert one.charts([row for row in summary if row["alpha"] == 0.5], []) == []


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


def test_the_search_prefers_the_best_ranking_among_those_nearly_best_in_macro_f1():
    found = [(0.80, 0.70), (0.795, 0.80), (0.789, 0.99), (0.79, 0.75)]
    scores = [{"validation_macro_f1": f1, "validation_irony_auc": auc} for f1, auc in found]
    assert IronyRates().prefer(scores) == 1


def test_settings_are_those_that_the_published_search_chose():
    published = Path(__file__).parents[3] / "docs" / "results" / "irony-search" / "chosen.json"
    assert read_json(published) == CHOSEN
    for method, values in CHOSEN.items():
        assert values in IronyRates().candidates()[method]
        assert values.items() <= IronyRates().settings()[method].items()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"weights": "microsoft/resnet-18"}, "--weights is for --data crema-d"),
        ({"skip_broken": True}, "--skip-broken is for --data crema-d"),
        ({"source": "crema-d", "alpha": (7.0,)}, "alpha is a number from 0 to 6; got 7"),
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


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """CREMA-D's folders: five actors, two clips of each emotion; and a folder with a tiny ResNet."""
    av, transformers = pytest.importorskip("av"), pytest.importorskip("transformers")
    home = tmp_path_factory.mktemp("media")
    for place in ("AudioWAV", "VideoFlash"):
        (home / "crema-d" / place).mkdir(parents=True)
    names = [
        (k, f"{actor}_{said}_{emotion}_XX")
        for actor in range(1001, 1006)
        for said in ("DFA", "IEO")
        for k, emotion in enumerate(crema_d.EMOTIONS)
    ]
    for k, name in names:
        heard = 9000 * np.sin(0.05 * (k + 1) * np.arange(2205) + int(name[:4]))
        with wave.open(str(home / "crema-d" / "AudioWAV" / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 22_050, 0, "NONE", "not compressed"))
            file.writeframes(heard.astype("<i2").tobytes())
        with av.open(str(home / "crema-d" / "VideoFlash" / f"{name}.flv"), "w") as file:
            stream = file.add_stream("flv", rate=2)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            for level in (20 * k, 30 * k):
                file.mux(
                    stream.encode(av.VideoFrame.from_ndarray(np.full((32, 32, 3), level, np.uint8), format="rgb24"))
                )
            file.mux(stream.encode())
    tiny = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(tiny).save_pretrained(home / "resnet")
    return home


@pytest.fixture(scope="module")
def on_clips(clips):
    return IronyRates(
        source="crema-d", root=str(clips), weights=str(clips / "resnet"), methods=("vanilla", "synib-random"),
        alpha=(1.0,), donor=("paper",), fold=(0,), epochs=1,
    )  # fmt: skip


def test_crema_d_is_trained_by_the_solo_engine_and_stands_beside_the_papers_numbers(on_clips, tmp_path):
    pytest.importorskip("lightning")
    run(on_clips, tmp_path / "out", device="cpu", engine="solo")
    summary = build(tmp_path / "out")
    rows = read_csv(tmp_path / "out" / "results.csv")
    assert [row["cell"] for row in rows] == [cell.id for cell in on_clips.cells()]
    for row in rows:
        assert all(0 <= row[name] <= 1 for name in ("irony_auc", "irony_f1", "macro_f1", "shifted_macro_f1"))
    published = {(r["method"], r["metric"]): r["paper"] for r in summary if r["paper"] is not None}
    assert published == {
        ("vanilla", "irony_f1"): 0.397, ("vanilla", "macro_f1"): 0.582,
        ("synib-random", "irony_f1"): 0.353, ("synib-random", "macro_f1"): 0.574,
    }  # fmt: skip
    page = (tmp_path / "out" / "report.html").read_text()
    assert "CREMA-D-Irony: actors in six emotions" in page
    assert "At most 1 of the paper&#39;s 1500 epochs." in page
    assert not (tmp_path / "out" / "figure.svg").exists()


def test_the_papers_numbers_stand_beside_its_own_donors_and_data_only(on_clips):
    balanced, elsewhere = {"donors": "balanced", "alpha": 1.0}, {"donors": "paper", "alpha": 0.3}
    assert [on_clips.paper("vanilla", at, "irony_f1") for at in (balanced, elsewhere)] == [None, None]
    assert on_clips.paper("unimodal-audio", {"donors": "paper", "alpha": 0.1}, "macro_f1") == 0.498
    assert on_clips.paper("unimodal-audio", {"donors": "paper", "alpha": 0.1}, "irony_f1") is None
    assert IronyRates().paper("vanilla", {"donors": "paper", "alpha": 1.0}, "irony_f1") is None


def test_crema_ds_examples_follow_its_folds_and_the_papers_map(on_clips):
    people = crema_d.actor_splits([clip.actor for clip in crema_d.list_clips(on_clips.root)], 0)
    data = on_clips.data(on_clips.cells()[0])
    for split, rows in zip(parts(data), people.values(), strict=True):
        assert split.modalities["video"].shape == (len(rows), 3, 3, 224, 224)
        assert split.modalities["audio"].shape == (len(rows), 257, 188)
        ids = [crema_d.list_clips(on_clips.root)[i].id for i in rows]
        assert sorted(split.columns["video_id"]) == sorted(ids)
        assert int((split.target == 6).sum()) == len(rows) // 6
        for seen, heard, y in zip(split.columns["video_id"], split.columns["audio_id"], split.target, strict=True):
            face, voice = crema_d.parse(seen), crema_d.parse(heard)
            assert int(y) == (6 if voice.emotion in crema_d.CONTRADICTIONS[face.emotion] else face.label)


def test_another_assignment_makes_other_clips_of_crema_d_ironic(on_clips):
    several = IronyRates(**{**on_clips.__dict__, "assignments": 2, "methods": ("vanilla",)})
    one, other = (several.data(cell) for cell in several.cells())
    assert one.train.columns["video_id"] == other.train.columns["video_id"]
    assert one.train.columns["audio_id"] != other.train.columns["audio_id"]


def test_all_methods_can_be_made_for_crema_d_with_the_papers_settings_and_start_alike(on_clips, clips):
    every = IronyRates(source="crema-d", root=str(clips), weights=str(clips / "resnet"))
    every.check()
    assert every.methods == tuple(OWN)
    for cell in every.cells():
        s = cell.settings
        assert (s["lr"], s["weight_decay"], s["batch_size"], s["warmup"], s["patience"]) == (1e-5, 1e-5, 64, 780, 30)
        assert (s["schedule"], s["select"]) == ("cosine", "best")
    found = {cell.method: cell.settings for cell in every.cells()}
    assert (found["synib-random"]["weight"], found["synib-random"]["p"]) == (1.0, 0.2)
    assert (found["synib-learned"]["weight"], found["synib-learned"]["sparsity"]) == (1.0, 0.01)
    cell = on_clips.cells()[0]
    one, other = (on_clips.model(cell, None).encoders["video"].state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)  # from the folder, and not at random


def test_the_fleet_is_refused_for_crema_d_before_media_are_read(on_clips, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("media were read")

    monkeypatch.setattr(crema_d, "read_clips", refuse)
    with pytest.raises(ValueError, match="train them with --engine solo"):
        run(on_clips, tmp_path / "out", device="cpu")


def test_missing_media_are_said_in_the_words_of_the_check(clips, synib_command, tmp_path, monkeypatch):
    monkeypatch.delenv("SYNIB_DATA", raising=False)
    call = ("reproduce", "irony", "--data", "crema-d", "--engine", "solo", "--root")
    (tmp_path / "empty").mkdir()
    code, _, said = synib_command(*call, "empty")
    assert code == 2
    assert "empty holds no AudioWAV/*.wav (the voices): get it from https://github.com/CheyneyComputerScience" in said
    shutil.copytree(clips / "crema-d" / "AudioWAV", tmp_path / "empty" / "AudioWAV")
    code, _, said = synib_command(*call, "empty")
    assert code == 2
    assert "empty holds no VideoFlash/*.flv or VideoFlash/*.mp4 or VideoMP4/*.mp4 (the faces)" in said


def test_broken_clips_are_left_out_only_if_the_user_says_so(clips, tmp_path):
    shutil.copytree(clips / "crema-d", tmp_path / "crema-d")
    gone = "1002_DFA_SAD_XX"
    (tmp_path / "crema-d" / "VideoFlash" / f"{gone}.flv").write_bytes(b"no video")
    options = {"source": "crema-d", "root": str(tmp_path), "alpha": (0.5,), "donor": ("paper",), "fold": (0,)}
    strict = IronyRates(**options)
    with pytest.raises(ValueError, match=gone):
        strict.data(strict.cells()[0])
    lenient = IronyRates(**options, skip_broken=True)
    data = lenient.data(lenient.cells()[0])
    used = {name for split in parts(data) for column in split.columns.values() for name in column}
    assert sum(map(len, parts(data))) == 59
    assert gone not in used
    assert lenient.cells()[0].id != strict.cells()[0].id


def test_the_real_clips_are_ironic_as_in_the_published_run():
    root = Path(os.environ.get("SYNIB_DATA", ""))
    if "SYNIB_DATA" not in os.environ or not (root / "ravdess" / "features.npz").is_file():
        pytest.skip("SYNIB_DATA names no folder with ravdess/features.npz")
    rows = {r["cell"]: r for r in read_csv(Path(__file__).parents[3] / "docs" / "results" / "irony" / "results.csv")}
    whole = IronyRates(assignments=4, methods=("vanilla",))
    for cell in whole.cells()[::23]:
        found = without_model(whole._made(cell).irony)
        assert found == pytest.approx({name: rows[cell.id][name] for name in found}, abs=1e-6)
