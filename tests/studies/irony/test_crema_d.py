"""CREMA-D: names, clips and files, actors in one split only."""

import os
from pathlib import Path

import numpy as np
import pytest

from synib.data.files import check
from synib.studies.irony.crema_d import CREMA_D, EMOTIONS, actor_splits, find_files, list_clips, make_irony, parse


@pytest.fixture
def root(tmp_path):
    """A folder with four empty files."""
    for path in ("AudioWAV/1001_DFA_ANG_XX.wav", "AudioWAV/1002_DFA_HAP_XX.wav"):
        video = path.replace("AudioWAV", "VideoFlash").replace("wav", "flv")
        for name in (path, video):
            (tmp_path / "crema-d" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "crema-d" / name).touch()
    return tmp_path / "crema-d"


@pytest.fixture
def real():
    folder = Path(os.environ.get("SYNIB_DATA") or "none") / "crema-d"
    if not (folder / "SentenceFilenames.csv").is_file():
        pytest.skip("SYNIB_DATA names no folder with crema-d/SentenceFilenames.csv")
    return folder


def test_a_name_describes_its_clip():
    clip = parse("1001_DFA_ANG_XX.wav")
    assert clip == ("1001_DFA_ANG_XX", 1001, "DFA", "ANG", "XX")
    assert clip.label == EMOTIONS.index("ANG")
    assert parse("1040_ITH_SAD_X").level == "X"


@pytest.mark.parametrize(
    "name", ["1001_DFA_ANG", "1001_DFA_JOY_XX", "../1001_DFA_ANG_XX_", "", "1001_dfa_ANG_XX", "٠٠٠١_DFA_ANG_X!"]
)
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match=r"A clip of CREMA-D must be named .*; got|The emotions of CREMA-D are"):
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
    test_actors = actor_splits(actors)["test"].tolist()
    assert sorted(39 - actor_splits(actors[::-1])["test"]) == test_actors
    assert actor_splits(actors, seed=1)["test"].tolist() != test_actors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fold": 5}, "fold must be a whole number from 0 to 4; got 5"),
        ({"fold": -1}, "fold must be a whole number from 0 to 4; got -1"),
        ({"folds": 0}, "folds must be a whole number of at least 1; got 0"),
        ({"share": 0.5}, "share .* got 0.5"),
        ({"actors": [1, 2]}, "need more actors; got 2"),
    ],
)
def test_impossible_splits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        actor_splits(**({"actors": list(range(20))} | arguments))


def test_the_clips_come_from_the_list_or_else_from_the_files(root):
    assert len(list_clips(root)) == len(list_clips(root.parent)) == 2
    table = root / "SentenceFilenames.csv"
    table.write_text('"Stimulus_Number","Filename"\n1,"1001_DFA_SAD_XX"\n')
    assert [clip.emotion for clip in list_clips(root)] == ["SAD"]
    table.write_text("Filename\n1001_DFA_ANG_XX\n1001_DFA_ANG_XX\n")
    with pytest.raises(ValueError, match="lists 1001_DFA_ANG_XX twice"):
        list_clips(root)
    table.write_text("Name\nx\n")
    with pytest.raises(ValueError, match="a table with a column 'Filename'"):
        list_clips(root)


def test_a_folder_without_clips_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"has neither SentenceFilenames.csv nor AudioWAV/\*\.wav: download CREMA-D from"
    ):
        list_clips(tmp_path)


def test_files_are_found_in_any_folder_of_videos_and_where_a_name_lost_an_x(root):
    (root / "SentenceFilenames.csv").write_text("Filename\n1001_DFA_ANG_XX\n1002_DFA_HAP_XX\n")
    (root / "AudioWAV" / "1001_DFA_ANG_XX.wav").rename(root / "AudioWAV" / "1001_DFA_ANG_X.wav")
    (root / "VideoMP4").mkdir()
    (root / "VideoFlash" / "1002_DFA_HAP_XX.flv").rename(root / "VideoMP4" / "1002_DFA_HAP_XX.mp4")
    assert all(files.video.is_file() and files.audio.is_file() for files in find_files(root))


def test_the_source_counts_clips_and_actors(root):
    result = check(CREMA_D, root)
    assert not result.complete
    assert result.findings[0].details == "2 clips of 2 actors"


def test_the_real_names_are_all_understood(real):
    clips = list_clips(real)
    assert len(clips) == 7442
    assert len({clip.actor for clip in clips}) == 91
    assert np.bincount([clip.label for clip in clips]).tolist() == [1087, 1271, 1271, 1271, 1271, 1271]


@pytest.mark.parametrize(("donors", "same_actor"), [("paper", True), ("balanced", False)])
def test_the_real_names_have_an_irony_assignment_for_every_fold(real, donors, same_actor):
    clips = list_clips(real)
    for fold in range(5):
        irony = make_irony(clips, 0.5, fold, donors=donors, same_actor=same_actor)
        people = [{clips[i].actor for i in (*t.video, *t.audio)} for t in irony.splits.values()]
        assert [len(p) for p in people] == [63, 14, 14]
        for t in irony.splits.values():
            assert (t.label == 6).sum() == int(0.5 * len(t.video) / 6)
            if same_actor:
                assert all(clips[v].actor == clips[a].actor for v, a in zip(t.video, t.audio, strict=True))
        for leak in irony.leak("train").values() if donors == "balanced" else ():
            assert leak.f1 == pytest.approx(leak.always, abs=0.002)
