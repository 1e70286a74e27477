"""A corpus of clips, on CREMA-D's files: reading and caching media, broken files, data with irony."""

import shutil
from pathlib import Path

import pytest
import torch

from synib.data.media import log_stft, read_audio, read_frames
from synib.studies.irony.construction import Irony
from synib.studies.irony.crema_d import (
    CONTRADICTIONS,
    actor_splits,
    list_clips,
    load,
    make_irony,
    parse,
    read_clips,
)

SIZE = {"size": 16}


@pytest.fixture(scope="module")
def template(crema_d_root, tmp_path_factory):
    """CREMA-D's folders with the cache of all clips."""
    ignored = shutil.ignore_patterns("synib-cache")
    folder = Path(shutil.copytree(crema_d_root, tmp_path_factory.mktemp("template") / "crema-d", ignore=ignored))
    read_clips(folder, **SIZE)
    return folder


@pytest.fixture
def root(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "crema-d"))  # with the files' times, so that the cache holds


def splits(data):
    return data.train, data.validation, data.test


def test_every_example_has_its_own_frames_and_spectrogram(template):
    data = load(template, **SIZE)
    assert [len(split) for split in splits(data)] == [36, 12, 12]
    assert [len(set(split.columns["actor"])) for split in splits(data)] == [3, 1, 1]
    for split in (data.train, data.test):
        assert split.modalities["video"].shape[1:] == (3, 3, 16, 16)
        assert split.modalities["video"].dtype == torch.uint8
        for i in (0, 4):
            clip = parse(split.columns["id"][i])
            assert split.target[i] == clip.label
            sound = log_stft(read_audio(template / "AudioWAV" / f"{clip.id}.wav"))
            assert torch.equal(split.modalities["audio"][i], torch.from_numpy(sound))
            kind = "mp4" if clip.emotion == "NEU" else "flv"
            frames = read_frames(template / "VideoFlash" / f"{clip.id}.{kind}", size=16)
            assert torch.equal(split.modalities["video"][i], torch.from_numpy(frames))


def test_the_cache_can_be_elsewhere(root, tmp_path):
    shutil.rmtree(root / "synib-cache")
    (root / "SentenceFilenames.csv").write_text("Filename\n1001_DFA_ANG_XX\n1001_DFA_HAP_XX\n")
    assert read_clips(root, tmp_path / "elsewhere", **SIZE).video.shape == (2, 3, 3, 16, 16)
    assert not (root / "synib-cache").exists()
    assert len(list((tmp_path / "elsewhere").iterdir())) == 4


def test_only_a_file_that_changed_is_read_again(root, write_sound, monkeypatch):
    name = "1001_DFA_ANG_XX"
    before = read_clips(root, **SIZE)
    monkeypatch.setattr("synib.studies.irony.clips.read_frames", None)  # nothing seen is read again
    write_sound(root / "AudioWAV" / f"{name}.wav", 0.2, tone=2000.0)
    after = read_clips(root, **SIZE)
    assert torch.equal(before.video, after.video)
    changed = (before.audio != after.audio).flatten(1).any(1)
    assert [before.ids[i] for i in changed.nonzero().flatten()] == [name]


@pytest.mark.parametrize("scratch", [False, True])
def test_irony_changes_the_voice_and_the_label(template, tmp_path, scratch):
    plain = load(template, **SIZE)
    data = load(template, irony=1.0, scratch=tmp_path / "scratch" if scratch else None, **SIZE)
    for split, original in ((data.train, plain.train), (data.test, plain.test)):
        ironic = split.groups["ironic"]
        assert ironic.sum() == len(split) // 6
        assert (split.target[ironic] == 6).all()
        assert torch.equal(split.modalities["video"], original.modalities["video"])
        same = (split.modalities["audio"] == original.modalities["audio"]).flatten(1).all(1)
        assert torch.equal(same, ~ironic)
        for seen, heard, yes in zip(split.columns["video_id"], split.columns["audio_id"], ironic, strict=True):
            assert (parse(heard).emotion in CONTRADICTIONS[parse(seen).emotion]) == bool(yes)


def test_a_saved_assignment_gives_the_same_data(template, tmp_path):
    irony = make_irony(list_clips(template), 1.0, fold=1, seed=7)
    loaded = Irony.load(irony.save(tmp_path / "irony.json"))
    data, again = load(template, 1, 1.0, irony_seed=7, **SIZE), load(template, irony=loaded, **SIZE)
    assert torch.equal(data.test.modalities["audio"], again.test.modalities["audio"])
    assert torch.equal(data.train.target, again.train.target)


def test_an_assignment_can_have_splits_of_its_own(template):
    clips = list_clips(template)
    larger = actor_splits([clip.actor for clip in clips], 0, share=0.2, seed=3)
    irony = make_irony(clips, 0.5, splits=larger)
    assert {name: sorted(t.video) for name, t in irony.splits.items()} == {k: list(v) for k, v in larger.items()}


def test_broken_clips_are_named_and_left_out_only_on_request(root):
    missing, short = "1002_DFA_SAD_XX", "1003_DFA_HAP_XX"
    video = root / "VideoFlash" / f"{short}.flv"
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    message = rf"{short}\.flv is truncated: .*: download the files again, or .* skip_broken=True"
    with pytest.raises(ValueError, match=message):
        load(root, **SIZE)
    (root / "AudioWAV" / f"{missing}.wav").unlink()
    names = "\n".join(path.stem for path in (root / "VideoFlash").iterdir())
    (root / "SentenceFilenames.csv").write_text(f"Filename\n{names}")
    with pytest.raises(ValueError, match=rf"{missing}\.wav is missing: download the files again"):
        load(root, **SIZE)
    media = read_clips(root, skip_broken=True, **SIZE)
    assert set(media.skipped) == {missing, short}
    kept = {name for split in splits(load(root, skip_broken=True, **SIZE)) for name in split.columns["id"]}
    assert kept == set(media.ids) - {missing, short}
    assert sum(map(len, splits(load(root, irony=0.5, skip_broken=True, **SIZE)))) == 58
    with pytest.raises(ValueError, match=r"The irony assignment uses clip '\w+', which cannot be read"):
        load(root, irony=make_irony(media.clips, 0.5), skip_broken=True, **SIZE)


def test_a_folder_in_which_nothing_can_be_read_is_refused(root):
    for path in (root / "AudioWAV").iterdir():
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="None of the 60 clips can be read; the first error: "):
        load(root, skip_broken=True, **SIZE)


def test_a_link_out_of_the_folder_is_refused(root, tmp_path, write_sound):
    outside = write_sound(tmp_path / "other.wav")
    (root / "AudioWAV" / "1001_DFA_ANG_XX.wav").unlink()
    (root / "AudioWAV" / "1001_DFA_ANG_XX.wav").symlink_to(outside)
    with pytest.raises(ValueError, match="points outside of"):
        load(root, **SIZE)
