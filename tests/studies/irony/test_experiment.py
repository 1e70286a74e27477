"""Irony on RAVDESS's features and CREMA-D's media: data, scores, means over folds, tables and figures."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.files import read_csv
from synib.measure import f1_by_class
from synib.report import build
from synib.studies import IronyRates, Search, features, run
from synib.studies.irony import crema_d
from synib.studies.irony.construction import Irony
from synib.studies.irony.data import emotion_scores
from synib.studies.irony.ravdess import CONTRADICTIONS, FOLDS
from synib.training import fleet
from synib.training.cells import programs


def parts(data):
    return data.train, data.validation, data.test


def test_cells_of_one_program_have_splits_of_one_size_whatever_their_fold(small):
    every = IronyRates(root=small.root)
    for same in programs([c for c in every.cells() if c.method == "vanilla" and c.factors["alpha"] == 1.0]):
        assert len({tuple(map(len, parts(every.data(cell)))) for cell in same}) == 1
    assert len(programs(every.cells())) == 3 * len(every.methods)  # one fold has fewer actors, at test or at validation


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
    several = replace(small, seeds=2, assignments=2)
    tests = {}
    for cell in several.cells():
        data = several.data(cell)
        key = tuple(cell.factors.values())
        assert tests.setdefault(key, data.test.columns["audio_id"]) == data.test.columns["audio_id"]
    first, second = (tests[0.5, "paper", 0, k] for k in (0, 1))
    assert first != second


@pytest.fixture(scope="module")
def trained(small):
    """The fourth cell's data, and its predictions on validation and test data."""
    cell = small.cells()[3]
    data = small.data(cell)
    learner = fleet.train(small, [cell]).learners[0].eval()
    with torch.no_grad():
        return data, *(learner.method.predict(learner.model, split.modalities) for split in parts(data)[1:])


def test_every_cell_has_a_row_with_its_scores(small, finished):
    _, rows, _ = finished
    assert [row["cell"] for row in rows] == [cell.id for cell in small.cells()]
    for row in rows:
        for name in ("irony_auc", "irony_f1", "macro_f1", "shifted_irony_f1", "shifted_macro_f1", "test_accuracy"):
            assert 0 <= row[name] <= 1


def test_scores_follow_their_definitions(finished, trained):
    _, rows, _ = finished
    data, _, on_test = trained
    predicted, target = on_test.argmax(1), data.test.target
    f1 = [
        2 * ((predicted == k) & (target == k)).sum() / ((predicted == k).sum() + (target == k).sum()) for k in range(9)
    ]
    assert rows[3]["irony_f1"] == pytest.approx(float(f1[8]), abs=1e-5)
    assert rows[3]["macro_f1"] == pytest.approx(float(torch.stack(f1).mean()), abs=1e-5)
    irony = on_test.softmax(1)[:, 8]
    ranked = irony[target == 8][:, None] > irony[target != 8]
    assert rows[3]["irony_auc"] == pytest.approx(ranked.double().mean().item(), abs=1e-4)


def test_the_shift_is_the_best_on_validation_data(finished, trained):
    _, rows, _ = finished
    data, on_validation, on_test = trained

    def f1(logits, target, shift):
        return f1_by_class((logits.numpy() + shift * np.eye(9)[8]).argmax(1), target.numpy(), 9)

    shifts = np.linspace(-12, 12, 961)
    found = [np.nanmean(f1(on_validation, data.validation.target, shift)) for shift in shifts]
    best = shifts[np.isclose(found, max(found), atol=1e-9)]
    nearest = f1(on_test, data.test.target, best[np.abs(best).argmin()])
    # A threshold may lie anywhere between two examples.
    assert rows[3]["shifted_irony_f1"] == pytest.approx(nearest[8], abs=0.06)
    assert rows[3]["shifted_macro_f1"] == pytest.approx(np.nanmean(nearest), abs=0.02)


def test_under_the_papers_donors_the_voice_gives_irony_away_and_under_balanced_ones_nobody_does():
    ids, labels = [f"c{i}" for i in range(2400)], np.arange(2400) % 8
    splits = {"train": np.arange(1600), "validation": np.arange(1600, 2000), "test": np.arange(2000, 2400)}
    paper, balanced = (
        emotion_scores(Irony.make(ids, labels, CONTRADICTIONS, splits, 1.0, donors=donors))
        for donors in ("paper", "balanced")
    )
    assert paper["voice_irony_auc"] > 0.7
    assert paper["voice_irony_f1"] > 1.5 * paper["all_irony_f1"]
    assert paper["face_irony_auc"] == pytest.approx(0.5, abs=0.08)
    for who in ("voice", "face"):
        assert balanced[f"{who}_irony_auc"] == pytest.approx(0.5, abs=0.05)
        assert balanced[f"{who}_irony_f1"] <= balanced["all_irony_f1"] + 0.05


def test_a_search_takes_turns_at_folds_of_one_size(ravdess_root, monkeypatch):
    monkeypatch.setenv("SYNIB_DATA", str(ravdess_root))
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


def test_missing_media_are_reported_before_training(tmp_path):
    for message in (r"contains no AudioWAV/\*\.wav", r"contains no VideoFlash/\*\.flv or"):
        with pytest.raises(ValueError, match=f"{message}.*: download it from https://github.com/Cheyney"):
            IronyRates(source="crema-d", root=str(tmp_path)).check()
        (tmp_path / "AudioWAV").mkdir(exist_ok=True)
        (tmp_path / "AudioWAV" / "1001_DFA_ANG_XX.wav").touch()


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """A folder with a tiny ResNet."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("resnet")
    tiny = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(tiny).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def on_clips(crema_d_root, resnet):
    return IronyRates(
        source="crema-d", root=str(crema_d_root), weights=resnet, methods=("vanilla", "synib-random"),
        alpha=(1.0,), donor=("paper",), fold=(0,), epochs=1,
    )  # fmt: skip


def test_crema_d_is_trained_by_the_solo_engine_and_stands_beside_the_papers_numbers(on_clips, tmp_path):
    pytest.importorskip("lightning")
    experiment = replace(on_clips, methods=("synib-random",))
    run(experiment, tmp_path / "out", device="cpu", engine="solo")
    summary = build(tmp_path / "out")
    rows = read_csv(tmp_path / "out" / "results.csv")
    assert [row["cell"] for row in rows] == [cell.id for cell in experiment.cells()]
    for row in rows:
        assert all(0 <= row[name] <= 1 for name in ("irony_auc", "irony_f1", "macro_f1", "shifted_macro_f1"))
    published = {(r["method"], r["metric"]): r["paper"] for r in summary if r["paper"] is not None}
    assert published == {("synib-random", "irony_f1"): 0.353, ("synib-random", "macro_f1"): 0.574}
    page = (tmp_path / "out" / "report.html").read_text()
    assert "CREMA-D-Irony" in page
    assert "At most 1 of the paper&#39;s 1500 epochs." in page
    assert not (tmp_path / "out" / "figure.svg").exists()


def test_the_papers_numbers_stand_beside_its_own_donors_and_data_only(on_clips):
    balanced, elsewhere = {"donors": "balanced", "alpha": 1.0}, {"donors": "paper", "alpha": 0.3}
    assert [on_clips.paper("vanilla", at, "irony_f1") for at in (balanced, elsewhere)] == [None, None]
    assert on_clips.paper("unimodal-audio", {"donors": "paper", "alpha": 0.1}, "macro_f1") == 0.498
    assert on_clips.paper("unimodal-audio", {"donors": "paper", "alpha": 0.1}, "irony_f1") is None
    assert IronyRates().paper("vanilla", {"donors": "paper", "alpha": 1.0}, "irony_f1") is None


def test_all_methods_can_be_made_for_crema_d_with_the_papers_settings_and_start_alike(on_clips):
    every = IronyRates(source="crema-d", root=on_clips.root, weights=on_clips.weights)
    every.check()
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
    with pytest.raises(ValueError, match="solo"):
        run(on_clips, tmp_path / "out", device="cpu")


def test_broken_clips_are_left_out_only_on_request(crema_d_root, tmp_path):
    shutil.copytree(crema_d_root, tmp_path / "crema-d", ignore=shutil.ignore_patterns("synib-cache"))
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
        scores_of_rules = emotion_scores(whole.irony_data(cell).irony)
        published = {name: rows[cell.id][name] for name in scores_of_rules}
        assert scores_of_rules == pytest.approx(published, abs=1e-6)
