"""RAVDESS: names, folds by actor, wav, opus and mp4 files, irony."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.data.media import log_stft, read_audio
from synib.studies.irony.ravdess import (
    CONTRADICTIONS,
    EMOTIONS,
    FOLDS,
    RAVDESS,
    actor_splits,
    find_files,
    list_clips,
    load,
    make_irony,
    parse,
    read_clips,
)

ACTORS = [people[0] for people in FOLDS]


@pytest.fixture(scope="module")
def template(tmp_path_factory, write_sound, write_video):
    """An actor of each fold, eight emotions, two clips of each, and the cache of them all."""
    folder = tmp_path_factory.mktemp("template") / "ravdess"
    for actor in ACTORS:
        for k in range(8):
            for take in (1, 2):
                name, home = f"01-{k + 1:02}-01-01-{take:02}-{actor:02}", folder / f"Actor_{actor:02}"
                write_sound(
                    home / f"03-{name}.{'opus' if k == 0 else 'wav'}", 0.1, 24_000, 300.0 + 50 * k + 9 * actor + take
                )
                write_video(home / f"01-{name}.mp4", (20 * k,), fps=2, size=(32, 32))
    read_clips(folder, size=16)
    return folder


@pytest.fixture
def root(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "ravdess"))  # with the files' times, so that the cache holds


def test_a_name_says_what_and_who():
    clip = parse("03-01-05-01-02-01-12.wav")
    assert clip == ("01-05-01-02-01-12", "angry", 1, 2, 1, 12)
    assert parse("01-01-05-01-02-01-12.mp4") == clip
    assert EMOTIONS[clip.label] == "angry"


@pytest.mark.parametrize(
    "name", ["03-02-05-01-02-01-12", "03-01-09-01-02-01-12", "03-01-05-01-02-01-25", "03-01-05", "x"]
)
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match=r"A speech clip of RAVDESS is called .*; .* is"):
        parse(name)


def test_every_actor_is_tested_once_and_is_in_one_split_only():
    actors = list(range(1, 25)) * 3
    tested = []
    for fold in range(5):
        splits = actor_splits(actors, fold)
        people = {name: {actors[i] for i in rows} for name, rows in splits.items()}
        assert sum(map(len, people.values())) == 24
        assert people["test"] == set(FOLDS[fold])
        assert people["validation"] == set(FOLDS[(fold + 1) % 5])
        tested += people["test"]
    assert sorted(tested) == list(range(1, 25))
    with pytest.raises(ValueError, match="fold is a whole number from 0 to 4; got 5"):
        actor_splits(actors, 5)
    with pytest.raises(ValueError, match="numbered 1 to 24; got 25"):
        actor_splits([25])


def test_the_map_extends_the_papers():
    assert list(CONTRADICTIONS) == list(EMOTIONS)
    assert not {"neutral", "calm"} & {*CONTRADICTIONS["neutral"], *CONTRADICTIONS["calm"]}
    assert all(CONTRADICTIONS[e] == ("happy",) for e in ("sad", "angry", "fearful", "disgust"))


def test_every_example_has_its_own_voice_and_face(root):
    data = load(root, 1, size=16)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [48, 16, 16]
    assert set(data.test.columns["actor"]) == {ACTORS[1]}
    _, audio = find_files(root)
    for i, name in enumerate(data.test.columns["id"]):
        assert data.test.target[i] == parse(f"03-{name}").label
        assert torch.equal(data.test.modalities["audio"][i], torch.from_numpy(log_stft(read_audio(audio[name]))))
        assert abs(data.test.modalities["video"][i].float().mean() - 20 * data.test.target[i]) < 12


@pytest.mark.parametrize(("donors", "alpha"), [("paper", 0.5), ("balanced", 1.0)])
def test_irony_takes_another_voice(root, donors, alpha):
    data = load(root, irony=alpha, donors=donors, size=16)
    for split in (data.train, data.validation, data.test):
        ironic = split.groups["ironic"]
        assert ironic.sum() == int(alpha * len(split) / 8)
        assert (split.target[ironic] == 8).all()
        differs = [a != b for a, b in zip(split.columns["video_id"], split.columns["audio_id"], strict=True)]
        assert differs == ironic.tolist()


def test_wav_comes_before_opus_and_songs_are_left_alone(root, write_sound):
    name = f"01-01-01-01-01-{ACTORS[0]:02}"
    write_sound(root / f"03-{name}.wav")
    write_sound(root / f"03-02-01-01-01-01-{ACTORS[0]:02}.wav")
    _, audio = find_files(root)
    assert audio[name].name == f"03-{name}.wav"
    assert len(list_clips(root)) == len(audio) == 80


def test_a_missing_or_broken_file_is_named(root):
    name = f"01-03-01-01-01-{ACTORS[2]:02}"
    sound = root / f"Actor_{ACTORS[2]:02}" / f"03-{name}.wav"
    sound.write_bytes(sound.read_bytes()[:-50])
    with pytest.raises(ValueError, match=rf"03-{name}\.wav is truncated: .*skip_broken=True"):
        read_clips(root, size=16)
    sound.unlink()
    with pytest.raises(ValueError, match=rf"03-{name}\.wav is missing: .*skip_broken=True"):
        read_clips(root, size=16)
    assert list(read_clips(root, size=16, skip_broken=True).skipped) == [name]


def test_a_folder_without_clips_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"holds no .*: get RAVDESS from https"):
        list_clips(tmp_path)


def test_the_source_counts_what_is_there(root):
    found = check(RAVDESS, root)
    assert [finding.state for finding in found.findings] == ["incomplete", "incomplete"]
    assert found.findings[1].details == "80 clips of 5 actors"


@pytest.fixture
def real():
    folder = Path(os.environ.get("SYNIB_DATA", "")) / "ravdess"
    if "SYNIB_DATA" not in os.environ or not (folder / "audio_opus16k").is_dir():
        pytest.skip("SYNIB_DATA names no folder with ravdess/audio_opus16k")
    return folder


def test_the_real_names_are_all_understood(real):
    clips = list_clips(real)
    assert len(clips) == 1440
    assert np.bincount([clip.label for clip in clips]).tolist() == [96] + [192] * 7
    sizes = [len(actor_splits([clip.actor for clip in clips], fold)["test"]) for fold in range(5)]
    assert sizes == [300, 300, 300, 300, 240]
    for donors in ("paper", "balanced"):
        irony = make_irony(clips, 0.1, donors=donors)
        assert (irony.splits["test"].label == 8).sum() == 3  # floor(0.1 * 300 / 8)


def test_real_opus_files_are_read(real):
    path = sorted((real / "audio_opus16k").glob("*.opus"))[700]
    wave = read_audio(path)
    assert 2 * 22_050 < len(wave) < 6 * 22_050
    assert log_stft(wave).shape == (257, 188)
