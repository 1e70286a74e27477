"""CREMA-D: names, actors in one split only, media files, irony."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.data.media import log_stft, read_audio, read_frames
from synib.studies.irony.construction import Irony
from synib.studies.irony.crema_d import (
    CONTRADICTIONS,
    CREMA_D,
    EMOTIONS,
    actor_splits,
    list_clips,
    load,
    make_irony,
    parse,
    read_clips,
)

SETTINGS = {"size": 16}


@pytest.fixture(scope="module")
def template(tmp_path_factory, write_sound, write_video):
    """Five actors, six emotions, two clips of each, and the cache of them all."""
    folder = tmp_path_factory.mktemp("template") / "crema-d"
    for actor in range(1001, 1006):
        for k, emotion in enumerate(EMOTIONS):
            for sentence in ("DFA", "IEO"):
                name = f"{actor}_{sentence}_{emotion}_XX"
                write_sound(
                    folder / "AudioWAV" / f"{name}.wav",
                    0.1,
                    22_050,
                    tone=2.0 * actor + 100 * k + 50 * (sentence == "IEO"),
                )
                kind = "mp4" if k == 0 else "flv"
                write_video(folder / "VideoFlash" / f"{name}.{kind}", (20 * k, 30 * k), fps=2, size=(32, 32))
    read_clips(folder, **SETTINGS)
    return folder


@pytest.fixture
def root(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "crema-d"))  # with the files' times, so that the cache holds


@pytest.fixture
def real():
    folder = Path(os.environ.get("SYNIB_DATA", "")) / "crema-d"
    if "SYNIB_DATA" not in os.environ or not (folder / "SentenceFilenames.csv").is_file():
        pytest.skip("SYNIB_DATA names no folder with crema-d/SentenceFilenames.csv")
    return folder


def test_a_name_says_who_what_and_how():
    clip = parse("1001_DFA_ANG_XX.wav")
    assert clip == ("1001_DFA_ANG_XX", 1001, "DFA", "ANG", "XX")
    assert clip.label == EMOTIONS.index("ANG")
    assert parse("1040_ITH_SAD_X").level == "X"


@pytest.mark.parametrize(
    "name", ["1001_DFA_ANG", "1001_DFA_JOY_XX", "../1001_DFA_ANG_XX_", "", "1001_dfa_ANG_XX", "٠٠٠١_DFA_ANG_X!"]
)
def test_another_name_is_refused(name):
    with pytest.raises(
        ValueError, match=r"A clip of CREMA-D is called .* 1001_DFA_ANG_XX; got|The emotions of CREMA-D are"
    ):
        parse(name)


@pytest.mark.parametrize("share", [0.15, 0.2])
def test_no_actor_is_in_two_splits_or_tested_twice(share):
    actors = np.repeat(np.arange(1001, 1092), 6).tolist()
    tested = []
    for fold in range(5):
        splits = actor_splits(actors, fold, share=share)
        people = {name: {actors[i] for i in rows} for name, rows in splits.items()}
        assert sum(map(len, people.values())) == 91
        assert set.union(*people.values()) == set(actors)
        assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), np.arange(len(actors)))
        tested += people["test"]
    assert len(tested) == len(set(tested)) == (91 if share == 0.2 else 70)


def test_the_default_sizes_are_the_papers():
    splits = actor_splits(list(range(91)), 2)
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 63, "validation": 14, "test": 14}


def test_the_order_of_clips_does_not_matter_and_the_seed_does():
    actors = list(range(40))
    here = actor_splits(actors)["test"].tolist()
    there = actor_splits(actors[::-1])["test"]
    assert sorted(39 - there) == here
    assert actor_splits(actors, seed=1)["test"].tolist() != here


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"fold": 5}, "fold is a whole number from 0 to 4; got 5"),
        ({"fold": -1}, "fold is a whole number of at least 0; got -1"),
        ({"folds": 0}, "folds is a whole number of at least 1; got 0"),
        ({"share": 0.5}, "share .* got 0.5"),
        ({"actors": [1, 2]}, "need more actors; got 2"),
        ({"actors": []}, "need more actors; got 0"),
    ],
)
def test_splits_that_cannot_be_are_said(arguments, said):
    with pytest.raises(ValueError, match=said):
        actor_splits(**({"actors": list(range(20))} | arguments))


def test_the_clips_come_from_the_list_or_else_from_the_files(root):
    assert len(list_clips(root)) == len(list_clips(root.parent)) == 60
    (root / "SentenceFilenames.csv").write_text(
        '"Stimulus_Number","Filename"\n1,"1001_DFA_ANG_XX"\n2,"1001_DFA_HAP_XX"\n'
    )
    assert [clip.emotion for clip in list_clips(root)] == ["ANG", "HAP"]
    (root / "SentenceFilenames.csv").write_text("Filename\n1001_DFA_ANG_XX\n1001_DFA_ANG_XX\n")
    with pytest.raises(ValueError, match="lists 1001_DFA_ANG_XX twice"):
        list_clips(root)
    (root / "SentenceFilenames.csv").write_text("Name\nx\n")
    with pytest.raises(ValueError, match="a table with a column 'Filename'"):
        list_clips(root)


def test_a_folder_without_clips_is_said(tmp_path):
    with pytest.raises(
        ValueError, match=r"holds neither SentenceFilenames.csv nor AudioWAV/\*\.wav: get CREMA-D from https"
    ):
        list_clips(tmp_path)


def test_every_example_has_its_own_frames_and_spectrogram(root):
    data = load(root, **SETTINGS)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [36, 12, 12]
    people = [set(split.columns["actor"]) for split in (data.train, data.validation, data.test)]
    assert [len(p) for p in people] == [3, 1, 1]
    for split in (data.train, data.test):
        assert split.modalities["video"].shape[1:] == (3, 3, 16, 16)
        assert split.modalities["video"].dtype == torch.uint8
        for i in (0, 4):
            clip = parse(split.columns["id"][i])
            assert split.target[i] == clip.label
            sound = log_stft(read_audio(root / "AudioWAV" / f"{clip.id}.wav"))
            assert torch.equal(split.modalities["audio"][i], torch.from_numpy(sound))
            kind = "mp4" if clip.emotion == "NEU" else "flv"
            frames = read_frames(root / "VideoFlash" / f"{clip.id}.{kind}", size=16)
            assert torch.equal(split.modalities["video"][i], torch.from_numpy(frames))


def test_the_cache_can_be_elsewhere(root, tmp_path):
    shutil.rmtree(root / "synib-cache")
    (root / "SentenceFilenames.csv").write_text("Filename\n1001_DFA_ANG_XX\n1001_DFA_HAP_XX\n")
    assert read_clips(root, tmp_path / "elsewhere", **SETTINGS).video.shape == (2, 3, 3, 16, 16)
    assert not (root / "synib-cache").exists()
    assert len(list((tmp_path / "elsewhere").iterdir())) == 4


def test_the_second_time_nothing_is_decoded(root, monkeypatch):
    first = read_clips(root, **SETTINGS)

    def refuse(*_):
        raise AssertionError("this was read before")

    monkeypatch.setattr("synib.studies.irony.clips.read_audio", refuse)
    monkeypatch.setattr("synib.studies.irony.clips.read_frames", refuse)
    again = read_clips(root, **SETTINGS)
    assert torch.equal(first.video, again.video)
    assert torch.equal(first.audio, again.audio)


@pytest.mark.parametrize("scratch", [False, True])
def test_irony_changes_the_voice_and_the_label(root, tmp_path, scratch):
    plain = load(root, **SETTINGS)
    where = tmp_path / "scratch" if scratch else None
    data = load(root, irony=1.0, scratch=where, **SETTINGS)
    for split, was in ((data.train, plain.train), (data.test, plain.test)):
        ironic = split.groups["ironic"]
        assert ironic.sum() == len(split) // 6
        assert (split.target[ironic] == 6).all()
        assert torch.equal(split.modalities["video"], was.modalities["video"])
        same = (split.modalities["audio"] == was.modalities["audio"]).flatten(1).all(1)
        assert torch.equal(same, ~ironic)
        for seen, heard, yes in zip(split.columns["video_id"], split.columns["audio_id"], ironic, strict=True):
            assert (parse(heard).emotion in CONTRADICTIONS[parse(seen).emotion]) == bool(yes)


def test_an_assignment_that_was_saved_gives_the_same_data(root, tmp_path):
    irony = make_irony(list_clips(root), 1.0, fold=1, seed=7)
    back = Irony.load(irony.save(tmp_path / "irony.json"))
    one = load(root, 1, 1.0, irony_seed=7, **SETTINGS)
    other = load(root, irony=back, **SETTINGS)
    assert torch.equal(one.test.modalities["audio"], other.test.modalities["audio"])
    assert torch.equal(one.train.target, other.train.target)


def test_broken_clips_are_named_and_left_out_only_if_the_user_says_so(root):
    gone, short = "1002_DFA_SAD_XX", "1003_DFA_HAP_XX"
    video = root / "VideoFlash" / f"{short}.flv"
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    with pytest.raises(
        ValueError, match=rf"{short}\.flv is truncated: .*: get the files again, or .* skip_broken=True"
    ):
        load(root, **SETTINGS)
    (root / "AudioWAV" / "1002_DFA_SAD_XX.wav").unlink()
    (root / "SentenceFilenames.csv").write_text(
        "Filename\n" + "\n".join(p.stem for p in (root / "VideoFlash").iterdir())
    )
    with pytest.raises(ValueError, match=rf"{gone}\.wav is missing: get the files again"):
        load(root, **SETTINGS)
    media = read_clips(root, skip_broken=True, **SETTINGS)
    assert set(media.skipped) == {gone, short}
    data = load(root, skip_broken=True, **SETTINGS)
    kept = {name for split in (data.train, data.validation, data.test) for name in split.columns["id"]}
    assert kept == set(media.ids) - {gone, short}
    ironic = load(root, irony=0.5, skip_broken=True, **SETTINGS)
    assert sum(len(split) for split in (ironic.train, ironic.validation, ironic.test)) == 58
    whole = make_irony([parse(name) for name in media.ids], 0.5)
    with pytest.raises(ValueError, match=r"The irony assignment uses clip '\w+', which cannot be read"):
        load(root, irony=whole, skip_broken=True, **SETTINGS)


def test_a_folder_in_which_nothing_can_be_read_is_said(root):
    for path in (root / "AudioWAV").iterdir():
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="None of the 60 clips can be read; the first: "):
        load(root, skip_broken=True, **SETTINGS)


def test_a_file_that_changed_is_read_again(root, write_sound):
    name = "1001_DFA_ANG_XX"
    before = read_clips(root, **SETTINGS)
    write_sound(root / "AudioWAV" / f"{name}.wav", 0.2, tone=2000.0)
    after = read_clips(root, **SETTINGS)
    changed = (before.audio != after.audio).flatten(1).any(1)
    assert [before.ids[i] for i in changed.nonzero().flatten()] == [name]


def test_a_link_out_of_the_folder_is_refused(root, tmp_path, write_sound):
    outside = write_sound(tmp_path / "other.wav")
    (root / "AudioWAV" / "1001_DFA_ANG_XX.wav").unlink()
    (root / "AudioWAV" / "1001_DFA_ANG_XX.wav").symlink_to(outside)
    with pytest.raises(ValueError, match="leads out of"):
        load(root, **SETTINGS)


def test_a_name_that_lost_an_x_is_found(root):
    for folder, kind in (("AudioWAV", "wav"), ("VideoFlash", "flv")):
        (root / folder / f"1001_DFA_ANG_XX.{kind}").rename(root / folder / f"1001_DFA_ANG_X.{kind}")
    (root / "SentenceFilenames.csv").write_text("Filename\n1001_DFA_ANG_XX\n1001_DFA_HAP_XX\n")
    assert read_clips(root, **SETTINGS).skipped == {}


def test_the_source_counts_what_is_there(root):
    found = check(CREMA_D, root)
    assert not found.complete
    assert found.findings[0].details == "60 clips of 5 actors"


def test_the_real_names_are_all_understood(real):
    clips = list_clips(real)
    assert len(clips) == 7442
    assert len({clip.actor for clip in clips}) == 91
    assert np.bincount([clip.label for clip in clips]).tolist() == [1087, 1271, 1271, 1271, 1271, 1271]


@pytest.mark.parametrize("donors", ["paper", "balanced"])
@pytest.mark.parametrize("same_actor", [False, True])
def test_the_real_names_have_an_irony_assignment_for_every_fold(real, donors, same_actor):
    clips = list_clips(real)
    for fold in range(5):
        irony = make_irony(clips, 0.5, fold, donors=donors, same_actor=same_actor)
        people = [{clips[i].actor for i in (*t.video, *t.audio)} for t in irony.splits.values()]
        assert [len(p) for p in people] == [63, 14, 14]
        for t in irony.splits.values():
            ironic = t.label == 6
            assert ironic.sum() == int(0.5 * len(t.video) / 6)
            if same_actor:
                assert all(clips[v].actor == clips[a].actor for v, a in zip(t.video, t.audio, strict=True))
        for leak in irony.leak("train").values() if donors == "balanced" else ():
            assert leak.f1 == pytest.approx(leak.always, abs=0.002)
