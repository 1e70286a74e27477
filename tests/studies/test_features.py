"""MOSI, MUStARD and RAVDESS from features.npz: small files that the tests write, and the real ones where they are."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.studies import features

REAL = Path(os.environ.get("SYNIB_DATA", "none"))
needs_files = pytest.mark.skipif(
    not all((REAL / name / "features.npz").is_file() for name in ("mosi", "mustard", "ravdess")),
    reason="SYNIB_DATA names no folder with mosi, mustard and ravdess features",
)


def normal(n, *shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).normal(3, 2, (n, *shape)).astype(dtype)


def of_mosi():
    video = np.repeat([f"v{i:02}" for i in range(20)], 3)
    split = np.repeat(["train"] * 12 + ["valid"] * 2 + ["test"] * 6, 3)
    x = {"minilm": normal(60, 4), "text": normal(60, 3, seed=1), "audio": normal(60, 2), "video": normal(60, 5)}
    x["video"][:, 4] = 1
    ids = np.array([f"{v}_{i}" for i, v in enumerate(video)])
    return {"id": ids, "video_id": video, "transcript": ids, "label": np.arange(60) % 2, "split": split, **x}


def of_mustard():
    n = 60
    show = np.repeat(["BBT", "FRIENDS", "GOLDENGIRLS"], 20)
    return {
        "id": np.array([f"1_{i}" for i in range(n)]),
        "text": normal(n, 4), "context": normal(n, 4), "audio": normal(n, 3), "audio_logmel": normal(n, 2),
        "video": normal(n, 8, 5), "label": np.arange(n) % 2, "show": show,
        "speaker": np.array([["PERSON", "A", "B", "C"][i % 4] for i in range(n)]),
        "frame_size": np.array([["624x352", "1280x720"][i % 3 == 0] for i in range(n)]),
        "fps": np.array([[23.976, 25.0][i % 2] for i in range(n)], np.float32),
        "audio_level": normal(n, dtype=np.float32), "duration_s": normal(n, dtype=np.float32),
        "fold": (np.arange(n) // 3 % 5).astype(np.int8), "si_test": (show == "FRIENDS").astype(np.int8),
    }  # fmt: skip


def of_ravdess():
    actor = np.repeat(np.arange(1, 11), 8)
    # Every actor has a level and a range of the actor's own.
    audio = normal(80, 3, dtype=np.float32) * actor[:, None] + 10 * actor[:, None]
    return {
        "id": np.array([f"03-{i}" for i in range(80)]),
        "audio": audio, "audio_logmel": normal(80, 2), "visual": normal(80, 4), "label": np.tile(np.arange(8), 10),
        "actor": actor, "fold": (actor % 5).astype(np.int8), "duration_s": normal(80, dtype=np.float32),
        "intensity": np.tile([1, 2], 40), "statement": np.tile([1, 2], 40), "repetition": np.tile([1, 2], 40),
    }  # fmt: skip


MADE = {"mosi": of_mosi, "mustard": of_mustard, "ravdess": of_ravdess}


@pytest.fixture
def write(tmp_path):
    """``write("mosi", column=values)`` → the folder that holds mosi/features.npz, with columns changed."""

    def write(name, **changed):
        (tmp_path / name).mkdir(exist_ok=True)
        np.savez_compressed(tmp_path / name / "features.npz", **(MADE[name]() | changed))
        return tmp_path

    return write


def parts(data, column):
    return [set(split.columns[column]) for split in (data.train, data.validation, data.test)]


def sizes(data):
    return [len(data.train), len(data.validation), len(data.test)]


@pytest.mark.parametrize("name", MADE)
def test_rows_keep_their_labels_and_standardised_features(write, name):
    table = MADE[name]()
    data = getattr(features, name)(write(name))
    row = {key: i for i, key in enumerate(table["id"].tolist())}
    for x in data.train.modalities.values():
        assert x.dtype == torch.float32
        assert x.mean(0).abs().max() < 1e-5
        assert set(x.std(0, correction=0).round(decimals=3).tolist()) <= {0.0, 1.0}
    for split in (data.train, data.validation, data.test):
        rows = [row[key] for key in split.columns["id"]]
        assert split.target.dtype == torch.int64
        assert split.target.tolist() == table["label"][rows].tolist()
        x, raw = split.modalities["audio"].numpy(), table["audio"][rows].astype(np.float32)
        for i in range(raw.shape[1]):
            assert np.corrcoef(x[:, i], raw[:, i])[0, 1] > 0.9999


def test_mosi_is_split_as_its_file_says_or_by_fifths_of_the_training_videos(write):
    root = write("mosi")
    official = features.mosi(root)
    assert sizes(official) == [36, 6, 18]
    assert official.widths == {"text": 4, "audio": 2, "video": 5}
    assert features.mosi(root, text="text").widths["text"] == 3
    seen = []
    for fold in range(5):
        data = features.mosi(root, fold=fold)
        train, validation, test = parts(data, "video_id")
        assert len(train) + len(validation) + len(test) == len(train | validation | test)
        assert data.test.columns["id"] == official.test.columns["id"]
        assert len(data.train) + len(data.validation) == 42
        seen += data.validation.columns["id"]
    assert Counter(seen) == Counter(official.train.columns["id"] + official.validation.columns["id"])


def test_official_folds_of_mustard_test_each_line_once_and_validate_on_the_next(write):
    root, fold = write("mustard"), of_mustard()["fold"]
    tested = []
    for k in range(5):
        data = features.mustard(root, fold=k)
        assert set(data.test.columns["id"]) == {f"1_{i}" for i in np.flatnonzero(fold == k)}
        assert set(data.validation.columns["id"]) == {f"1_{i}" for i in np.flatnonzero(fold == (k + 1) % 5)}
        assert sum(sizes(data)) == 60
        tested += data.test.columns["id"]
    assert len(set(tested)) == len(tested) == 60


def test_without_its_speakers_friends_is_tested_and_speakers_of_other_shows_validate(write):
    root = write("mustard")
    for k in range(5):
        data = features.mustard(root, scheme="speaker-independent", fold=k)
        assert set(data.test.columns["show"]) == {"FRIENDS"}
        who = [set(zip(s.columns["show"], s.columns["speaker"], strict=True)) for s in (data.train, data.validation)]
        assert not who[0] & who[1]
        assert sum(sizes(data)) == 60


def test_frames_are_averaged_or_all_there(write):
    root = write("mustard")
    assert features.mustard(root).test.modalities["video"].shape[1:] == (5,)
    every = features.mustard(root, modalities=("text", "video"), frames="all").train.modalities["video"]
    assert every.shape[1:] == (8, 5)
    assert every.mean((0, 1)).abs().max() < 1e-5


def test_nuisances_become_groups_that_cover_every_example_once(write):
    data = features.mustard(write("mustard"), groups=("frame_size", "fps", "audio_level"))
    for split in (data.train, data.validation, data.test):
        assert {"frame_size=1280x720", "fps=25", "audio_level=low", "audio_level=high"} <= split.groups.keys()
        for column in ("frame_size", "fps", "audio_level"):
            members = torch.stack([m for name, m in split.groups.items() if name.startswith(column)])
            assert members.sum(0).tolist() == [1] * len(split)
        assert [size == "1280x720" for size in split.columns["frame_size"]] == split.groups[
            "frame_size=1280x720"
        ].tolist()
    assert abs(int(data.train.groups["audio_level=low"].sum()) - len(data.train) / 2) <= 1


def test_ravdess_tests_actors_that_were_never_trained_on(write):
    root = write("ravdess")
    tested = []
    for k in range(5):
        data = features.ravdess(root, fold=k)
        train, validation, test = parts(data, "actor")
        assert len(train) + len(validation) + len(test) == len(train | validation | test)
        assert len(train | validation | test) == 10
        tested += data.test.columns["id"]
    assert len(set(tested)) == 80


def test_each_actor_may_be_standardised_by_the_actors_own_recordings(write):
    root = write("ravdess")
    data = features.ravdess(root, standardise="actor")
    for split in (data.train, data.validation, data.test):
        for actor in set(split.columns["actor"]):
            x = split.modalities["audio"][torch.tensor(split.columns["actor"]) == actor]
            assert x.mean(0).abs().max() < 1e-4
            assert torch.allclose(x.std(0, correction=0), torch.ones(3), atol=1e-3)
    plain = features.ravdess(root).test
    means = [plain.modalities["audio"][torch.tensor(plain.columns["actor"]) == a].mean(0) for a in (5, 10)]
    assert (means[0] - means[1]).abs().min() > 0.5


def test_no_label_is_used_to_standardise(write):
    shuffled = np.random.default_rng(1).permutation(of_ravdess()["label"])
    for how in ("training", "actor"):
        one = features.ravdess(write("ravdess"), standardise=how)
        other = features.ravdess(write("ravdess", label=shuffled), standardise=how)
        assert torch.equal(one.test.modalities["audio"], other.test.modalities["audio"])


def test_a_video_or_an_actor_in_two_splits_is_refused(write):
    split = of_mosi()["split"]
    split[0] = "test"
    with pytest.raises(ValueError, match="Every video belongs to one part of the data; v00 is in train and in test"):
        features.mosi(write("mosi", split=split))
    fold = of_ravdess()["fold"]
    fold[0] = 0  # actor 1 is of fold 1
    with pytest.raises(ValueError, match="Every actor belongs to one part of the data; 1 is in validation and in test"):
        features.ravdess(write("ravdess", fold=fold))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("mosi", {"text": "glove"}, "text is 'minilm' or 'text'; got 'glove'"),
        ("mosi", {"fold": 5}, "fold is a whole number from 0 to 4; got 5"),
        ("mosi", {"modalities": ["text"]}, r"modalities are at least two of text, audio, video; got \['text'\]"),
        ("mosi", {"modalities": ("text", "face")}, "modalities are at least two of"),
        ("mustard", {"scheme": "random"}, "scheme is 'official' or 'speaker-independent'; got 'random'"),
        ("mustard", {"frames": "first"}, "frames is 'mean' or 'all'; got 'first'"),
        ("mustard", {"groups": ["id"]}, "groups is 'speaker', 'show', .* or 'duration_s'; got 'id'"),
        ("ravdess", {"standardise": "speaker"}, "standardise is 'training' or 'actor'; got 'speaker'"),
        ("ravdess", {"fold": 1.0}, r"fold is a whole number from 0 to 4; got 1\.0"),
    ],
)
def test_an_invalid_argument_is_refused(write, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(features, name)(write(name), **arguments)


def test_invalid_values_of_a_column_are_named(write):
    with pytest.raises(ValueError, match="mosi: split is one of train, valid, test; got 'dev'"):
        features.mosi(write("mosi", split=np.array(["dev"] * 60)))
    with pytest.raises(ValueError, match="ravdess: fold is one of 0, 1, 2, 3, 4; got 7"):
        features.ravdess(write("ravdess", fold=np.full(80, 7)))
    with pytest.raises(ValueError, match="Every split needs at least 2 examples; validation has 0"):
        features.mosi(write("mosi", split=np.where(of_mosi()["split"] == "valid", "train", of_mosi()["split"])))


def test_a_file_that_is_not_ours_is_another_version_that_can_be_used(write):
    result = check(features.MOSI, write("mosi"))
    assert [finding.state for finding in result.findings] == ["different"]
    assert result.findings[0].details.startswith("60 examples (split test 18, train 36, valid 6); minilm 4, text 3")


@needs_files
@pytest.mark.parametrize("source", features.SOURCES, ids=lambda source: source.name)
def test_the_real_files_are_those_that_are_known(source):
    assert check(source, REAL).complete


@needs_files
def test_the_real_files_have_the_sizes_that_their_makers_say():
    assert sizes(features.mosi(REAL)) == [1283, 164, 752]
    assert [len(features.ravdess(REAL, fold=k).test) for k in range(5)] == [300, 300, 300, 300, 240]
    assert sum(len(features.mustard(REAL, fold=k).test) for k in range(5)) == 688
    alone = features.mustard(REAL, scheme="speaker-independent")
    assert (len(alone.train) + len(alone.validation), len(alone.test)) == (334, 354)
    assert int((features.mosi(REAL).train.modalities["video"].abs().amax(0) == 0).sum()) == 32
