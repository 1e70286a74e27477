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


NAMES = pytest.mark.parametrize("name", ["mosi", "mustard", "ravdess"])


@pytest.fixture
def tables(affect_root, ravdess_root):
    """Data set → the columns of its features.npz."""
    roots = {"mosi": affect_root, "mustard": affect_root, "ravdess": ravdess_root}
    return {name: dict(np.load(root / name / "features.npz")) for name, root in roots.items()}


@pytest.fixture
def write(tables, tmp_path):
    """``write("mosi", column=values)`` → a folder with mosi/features.npz, in which columns are changed."""

    def write(name, **changed):
        (tmp_path / name).mkdir(exist_ok=True)
        np.savez(tmp_path / name / "features.npz", **(tables[name] | changed))
        return tmp_path

    return write


def parts(data, column):
    return [set(split.columns[column]) for split in (data.train, data.validation, data.test)]


def sizes(data):
    return [len(data.train), len(data.validation), len(data.test)]


@NAMES
def test_rows_keep_their_labels_and_standardised_features(write, tables, name):
    table = tables[name]
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


def test_mosi_is_split_as_its_file_says_or_by_fifths_of_the_training_videos(affect_root):
    root = affect_root
    official = features.mosi(root)
    assert sizes(official) == [130, 20, 50]
    assert official.widths == {"text": 4, "audio": 2, "video": 5}
    assert features.mosi(root, text="text").widths["text"] == 3
    seen = []
    for fold in range(5):
        data = features.mosi(root, fold=fold)
        train, validation, test = parts(data, "video_id")
        assert len(train) + len(validation) + len(test) == len(train | validation | test)
        assert data.test.columns["id"] == official.test.columns["id"]
        assert len(data.train) + len(data.validation) == 150
        seen += data.validation.columns["id"]
    assert Counter(seen) == Counter(official.train.columns["id"] + official.validation.columns["id"])


def test_official_folds_of_mustard_test_each_line_once_and_validate_on_the_next(affect_root, tables):
    fold, ids = tables["mustard"]["fold"], tables["mustard"]["id"]
    tested = []
    for k in range(5):
        data = features.mustard(affect_root, fold=k)
        assert data.test.columns["id"] == ids[fold == k].tolist()
        assert data.validation.columns["id"] == ids[fold == (k + 1) % 5].tolist()
        assert sum(sizes(data)) == 200
        tested += data.test.columns["id"]
    assert sorted(tested) == sorted(ids.tolist())


def test_without_its_speakers_friends_is_tested_and_speakers_of_other_shows_validate(affect_root):
    for k in range(5):
        data = features.mustard(affect_root, scheme="speaker-independent", fold=k)
        assert set(data.test.columns["show"]) == {"FRIENDS"}
        who = [set(zip(s.columns["show"], s.columns["speaker"], strict=True)) for s in (data.train, data.validation)]
        assert not who[0] & who[1]
        assert sum(sizes(data)) == 200


def test_frames_are_averaged_or_kept(affect_root):
    assert features.mustard(affect_root).test.modalities["video"].shape[1:] == (5,)
    every = features.mustard(affect_root, modalities=("text", "video"), frames="all").train.modalities["video"]
    assert every.shape[1:] == (8, 5)
    assert every.mean((0, 1)).abs().max() < 1e-5


def test_nuisances_become_groups_that_cover_every_example_once(affect_root):
    data = features.mustard(affect_root, groups=("frame_size", "fps", "audio_level"))
    for split in (data.train, data.validation, data.test):
        assert {"frame_size=1280x720", "fps=25", "audio_level=low", "audio_level=high"} <= split.groups.keys()
        for column in ("frame_size", "fps", "audio_level"):
            members = torch.stack([m for name, m in split.groups.items() if name.startswith(column)])
            assert members.sum(0).tolist() == [1] * len(split)
        assert [size == "1280x720" for size in split.columns["frame_size"]] == split.groups[
            "frame_size=1280x720"
        ].tolist()
    assert abs(int(data.train.groups["audio_level=low"].sum()) - len(data.train) / 2) <= 1


def test_ravdess_tests_actors_that_were_never_trained_on(ravdess_root):
    tested = []
    for k in range(5):
        data = features.ravdess(ravdess_root, fold=k)
        train, validation, test = parts(data, "actor")
        assert len(train) + len(validation) + len(test) == len(train | validation | test) == 24
        tested += data.test.columns["id"]
    assert len(set(tested)) == sum(sizes(data))


def test_each_actor_may_be_standardised_by_the_actors_own_recordings(ravdess_root):
    data = features.ravdess(ravdess_root, standardise="actor")
    for split in (data.train, data.validation, data.test):
        for actor in set(split.columns["actor"]):
            x = split.modalities["audio"][torch.tensor(split.columns["actor"]) == actor]
            assert x.mean(0).abs().max() < 1e-4
            assert torch.allclose(x.std(0, correction=0), torch.ones(x.shape[1]), atol=1e-3)
    plain = features.ravdess(ravdess_root).test
    means = [plain.modalities["audio"][torch.tensor(plain.columns["actor"]) == a].mean(0) for a in (2, 16)]
    assert (means[0] - means[1]).abs().min() > 0.5


@pytest.mark.parametrize("standardise", ["training", "actor"])
def test_no_label_is_used_to_standardise(ravdess_root, write, tables, standardise):
    shuffled = write("ravdess", label=np.random.default_rng(1).permutation(tables["ravdess"]["label"]))
    x, other = (
        features.ravdess(root, standardise=standardise).test.modalities["audio"] for root in (ravdess_root, shuffled)
    )
    assert torch.equal(x, other)


def test_a_video_or_an_actor_in_two_splits_is_refused(write, tables):
    tables["mosi"]["split"][0] = "test"
    with pytest.raises(ValueError, match=r"Every video .*; v00 is in both train and test"):
        features.mosi(write("mosi"))
    tables["ravdess"]["fold"][tables["ravdess"]["actor"].tolist().index(3)] = 0  # actor 3 is of fold 1
    with pytest.raises(ValueError, match=r"Every actor .*; 3 is in both validation and test"):
        features.ravdess(write("ravdess"))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("mosi", {"text": "glove"}, "text must be 'minilm' or 'text'; got 'glove'"),
        ("mosi", {"fold": 5}, "fold must be a whole number from 0 to 4; got 5"),
        ("mosi", {"modalities": ["text"]}, r"modalities must be at least two of text, audio, video; got \['text'\]"),
        ("mosi", {"modalities": ("text", "face")}, "modalities must be at least two of"),
        ("mustard", {"scheme": "random"}, "scheme must be 'official' or 'speaker-independent'; got 'random'"),
        ("mustard", {"frames": "first"}, "frames must be 'mean' or 'all'; got 'first'"),
        ("mustard", {"groups": ["id"]}, "groups must be 'speaker', 'show', .* or 'duration_s'; got 'id'"),
        ("ravdess", {"standardise": "speaker"}, "standardise must be 'training' or 'actor'; got 'speaker'"),
        ("ravdess", {"fold": 1.0}, r"fold must be a whole number from 0 to 4; got 1\.0"),
    ],
)
def test_an_invalid_argument_is_refused(write, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(features, name)(write(name), **arguments)


def test_invalid_values_of_a_column_are_named(write, tables):
    split = tables["mosi"]["split"]
    with pytest.raises(ValueError, match="mosi: split must be one of train, valid, test; got 'dev'"):
        features.mosi(write("mosi", split=np.where(split == "valid", "dev", split)))
    with pytest.raises(ValueError, match="Every split needs at least 2 examples; validation has 0"):
        features.mosi(write("mosi", split=np.where(split == "valid", "train", split)))
    with pytest.raises(ValueError, match="ravdess: fold must be one of 0, 1, 2, 3, 4; got 7"):
        features.ravdess(write("ravdess", fold=np.full(len(tables["ravdess"]["fold"]), 7)))


def test_another_version_of_a_file_is_recognised_and_described(affect_root):
    (finding,) = check(features.MOSI, affect_root).findings
    assert finding.state == "different"
    assert finding.details.startswith("200 examples (split test 50, train 130, valid 20); minilm 4, text 3")


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
