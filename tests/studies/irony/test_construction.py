"""An irony assignment: its splits, its data, and the file it is kept in."""

import json

import numpy as np
import pytest
import torch

from synib.studies.irony.construction import Irony
from synib.studies.irony.crema_d import CONTRADICTIONS as CREMA_D


@pytest.fixture
def made():
    y = np.tile(np.arange(6), 40)
    order = np.random.default_rng(0).permutation(len(y))
    splits = {"train": order[:150], "validation": order[150:190], "test": order[190:]}
    return Irony.make([f"clip{i}" for i in range(len(y))], y, CREMA_D, splits, 1.0, seed=5)


def test_donors_come_from_the_split_itself(made):
    for t in made.splits.values():
        assert set(t.audio) <= set(t.video)
        assert (t.label == 6).sum() == len(t.video) // 6


def test_a_test_split_does_not_depend_on_the_other_splits(made):
    splits = {"test": made.splits["test"].video}
    alone = Irony.make(made.ids, made.labels, CREMA_D, splits, 1.0, seed=5)
    assert all(np.array_equal(a, b) for a, b in zip(alone.splits["test"], made.splits["test"], strict=True))


def test_what_is_saved_is_read_back_and_gives_the_same_data(made, tmp_path):
    back = Irony.load(made.save(tmp_path / "irony.json"))
    assert (back.ids, back.alpha, back.donors, back.seed) == (made.ids, 1.0, "paper", 5)
    assert back.classes == made.classes == (*CREMA_D, "irony")
    assert [p.name for p in tmp_path.iterdir()] == ["irony.json"]
    video, audio = torch.randn(240, 3), torch.randn(240, 2, 2)
    one, other = made.dataset(video, audio), back.dataset(video, audio)
    for split in ("train", "validation", "test"):
        a, b = getattr(one, split), getattr(other, split)
        assert torch.equal(a.target, b.target)
        assert all(torch.equal(a.modalities[m], b.modalities[m]) for m in ("video", "audio"))
        t = made.splits[split]
        assert torch.equal(a.modalities["audio"], audio[torch.from_numpy(t.audio)])
        assert torch.equal(a.groups["ironic"], a.target == 6)
        assert a.columns["audio_id"] == [made.ids[i] for i in t.audio]
    assert made.leak("test") == back.leak("test")


def test_the_file_names_clips_and_emotions(made, tmp_path):
    told = json.loads(made.save(tmp_path / "irony.json").read_text())
    video, audio, _ = next(row for row in told["splits"]["test"] if row[2] == "irony")
    own = dict(map(tuple, told["clips"]))
    assert own[audio] in CREMA_D[own[video]]


def test_an_assignment_finds_its_clips_in_another_order(made):
    ids = made.ids[::-1]
    moved = made.at(ids)
    for name, t in made.splits.items():
        assert [ids[i] for i in moved.splits[name].audio] == [made.ids[i] for i in t.audio]
    assert moved.leak("train") == made.leak("train")
    with pytest.raises(ValueError, match=r"uses clip 'clip\d+', which is not among the 239 clips here"):
        made.at(made.ids[1:])


def swap_label(told):
    row = next(row for row in told["splits"]["train"] if row[2] != "irony")
    row[2] = "irony"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda told: told.update(format="x"), "its format is not"),
        (lambda told: told.pop("clips"), "damaged irony assignment: 'clips' is missing or unknown"),
        (lambda told: told["splits"]["test"][0].__setitem__(0, "nobody"), "'nobody' is missing or unknown"),
        (lambda told: told["splits"]["test"][0].pop(), "damaged irony assignment"),
        (lambda told: told["clips"].append(told["clips"][0]), "a clip is listed twice"),
        (swap_label, "a label of split 'train' does not follow from its clips"),
    ],
)
def test_a_damaged_file_is_said_to_be_one(made, tmp_path, harm, said):
    path = made.save(tmp_path / "irony.json")
    told = json.loads(path.read_text())
    harm(told)
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match=said):
        Irony.load(path)


def test_what_is_no_file_of_ours_is_said(tmp_path):
    with pytest.raises(ValueError, match="There is no irony assignment at"):
        Irony.load(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match="it is not JSON"):
        Irony.load(tmp_path / "x.json")


def test_a_clip_in_two_splits_is_refused():
    with pytest.raises(ValueError, match="Clip 'b' is in split 'train' and again in 'test'"):
        Irony.make(["a", "b"], [0, 1], CREMA_D, {"train": [0, 1], "test": [1]}, 0.0)
    with pytest.raises(ValueError, match="positions of 2 clips; got 0 to 2"):
        Irony.make(["a", "b"], [0, 1], CREMA_D, {"train": [0, 2]}, 0.0)
