"""RAVDESS: names, folds by actor, wav, opus and mp4 files."""

import os
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
)

ACTORS = [people[0] for people in FOLDS]


@pytest.fixture
def root(tmp_path, write_sound, write_video):
    """A folder in which an actor of each fold speaks with eight emotions."""
    for actor in ACTORS:
        for k in range(8):
            name, folder = f"01-{k + 1:02}-01-01-01-{actor:02}", tmp_path / "ravdess" / f"Actor_{actor:02}"
            kind = "opus" if k == 0 else "wav"
            write_sound(folder / f"03-{name}.{kind}", 0.1, 24_000, 300.0 + 50 * k + 9 * actor)
            write_video(folder / f"01-{name}.mp4", (20 * k,), fps=2, size=(32, 32))
    return tmp_path / "ravdess"


def test_a_name_describes_its_clip():
    clip = parse("03-01-05-01-02-01-12.wav")
    assert clip == ("01-05-01-02-01-12", "angry", 1, 2, 1, 12)
    assert parse("01-01-05-01-02-01-12.mp4") == clip
    assert EMOTIONS[clip.label] == "angry"


@pytest.mark.parametrize(
    "name", ["03-02-05-01-02-01-12", "03-01-09-01-02-01-12", "03-01-05-01-02-01-25", "03-01-05", "x"]
)
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match=r"A speech clip of RAVDESS must be named .*; got"):
        parse(name)


def test_every_actor_is_tested_once_and_is_in_one_split_only():
    actors = list(range(1, 25)) * 3
    tested = []
    for fold in range(5):
        people = {name: {actors[i] for i in rows} for name, rows in actor_splits(actors, fold).items()}
        assert sum(map(len, people.values())) == 24
        assert people["test"] == set(FOLDS[fold])
        assert people["validation"] == set(FOLDS[(fold + 1) % 5])
        tested += people["test"]
    assert sorted(tested) == list(range(1, 25))
    with pytest.raises(ValueError, match="fold must be a whole number from 0 to 4; got 5"):
        actor_splits(actors, 5)
    with pytest.raises(ValueError, match="numbers 1 to 24; got 25"):
        actor_splits([25])


def test_the_map_extends_the_papers():
    assert list(CONTRADICTIONS) == list(EMOTIONS)
    assert not {"neutral", "calm"} & {*CONTRADICTIONS["neutral"], *CONTRADICTIONS["calm"]}
    assert all(CONTRADICTIONS[e] == ("happy",) for e in ("sad", "angry", "fearful", "disgust"))


def test_every_example_has_its_own_voice_and_face(root):
    data = load(root, 1, size=16)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [24, 8, 8]
    assert set(data.test.columns["actor"]) == {ACTORS[1]}
    audio = {files.clip.id: files.audio for files in find_files(root)}
    for i, name in enumerate(data.test.columns["id"]):
        assert data.test.target[i] == parse(f"03-{name}").label
        assert torch.equal(data.test.modalities["audio"][i], torch.from_numpy(log_stft(read_audio(audio[name]))))
        assert abs(data.test.modalities["video"][i].float().mean() - 20 * data.test.target[i]) < 12


def test_wav_comes_before_opus_songs_are_ignored_and_missing_files_are_named(root, write_sound):
    name = f"01-01-01-01-01-{ACTORS[0]:02}"
    write_sound(root / f"03-{name}.wav")
    write_sound(root / f"03-02-01-01-01-01-{ACTORS[0]:02}.wav")
    files = {clip.id: audio for clip, _, audio in find_files(root)}
    assert files[name].name == f"03-{name}.wav"
    assert len(list_clips(root)) == len(files) == 40
    (root / f"Actor_{ACTORS[0]:02}" / f"01-{name}.mp4").unlink()
    with pytest.raises(ValueError, match=rf"01-{name}\.mp4 is missing: .*skip_broken=True"):
        load(root, size=16)


def test_a_folder_without_clips_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no files such as .*: download RAVDESS from https"):
        list_clips(tmp_path)


def test_the_source_counts_clips_and_actors(root):
    result = check(RAVDESS, root)
    assert [finding.state for finding in result.findings] == ["incomplete", "incomplete"]
    assert result.findings[1].details == "40 clips of 5 actors"


def test_the_real_names_are_all_understood():
    folder = Path(os.environ.get("SYNIB_DATA") or "none") / "ravdess"
    if not (folder / "audio_opus16k").is_dir():
        pytest.skip("SYNIB_DATA names no folder with ravdess/audio_opus16k")
    clips = list_clips(folder)
    assert len(clips) == 1440
    assert np.bincount([clip.label for clip in clips]).tolist() == [96] + [192] * 7
    sizes = [len(actor_splits([clip.actor for clip in clips], fold)["test"]) for fold in range(5)]
    assert sizes == [300, 300, 300, 300, 240]
    for donors in ("paper", "balanced"):
        irony = make_irony(clips, 0.1, donors=donors)
        assert (irony.splits["test"].label == 8).sum() == int(0.1 * 300 / 8)
