"""An irony assignment: its splits, its data, and the file it is kept in."""

import json

import numpy as np
import pytest
import torch

from synib.studies.irony.construction import Irony
from synib.studies.irony.crema_d import CONTRADICTIONS as CREMA_D


@pytest.fixture
def assignment():
    y = np.tile(np.arange(6), 40)
    order = np.random.default_rng(0).permutation(len(y))
    splits = {"train": order[:150], "validation": order[150:190], "test": order[190:]}
    return Irony.make([f"clip{i}" for i in range(len(y))], y, CREMA_D, splits, 1.0, seed=5)


def test_donors_come_from_the_split_itself(assignment):
    for t in assignment.splits.values():
        assert set(t.audio) <= set(t.video)
        assert (t.label == 6).sum() == len(t.video) // 6


def test_a_test_split_does_not_depend_on_the_other_splits(assignment):
    splits = {"test": assignment.splits["test"].video}
    alone = Irony.make(assignment.ids, assignment.labels, CREMA_D, splits, 1.0, seed=5)
    assert all(np.array_equal(a, b) for a, b in zip(alone.splits["test"], assignment.splits["test"], strict=True))


def test_a_saved_assignment_is_read_back_and_gives_the_same_data(assignment, tmp_path):
    back = Irony.load(assignment.save(tmp_path / "irony.json"))
    assert (back.ids, back.alpha, back.donors, back.seed) == (assignment.ids, 1.0, "paper", 5)
    assert back.classes == assignment.classes == (*CREMA_D, "irony")
    assert [p.name for p in tmp_path.iterdir()] == ["irony.json"]
    video, audio = torch.randn(240, 3), torch.randn(240, 2, 2)
    one, other = assignment.dataset(video, audio), back.dataset(video, audio)
    for split in ("train", "validation", "test"):
        a, b = getattr(one, split), getattr(other, split)
        assert torch.equal(a.target, b.target)
        assert all(torch.equal(a.modalities[m], b.modalities[m]) for m in ("video", "audio"))
        t = assignment.splits[split]
        assert torch.equal(a.modalities["audio"], audio[torch.from_numpy(t.audio)])
        assert torch.equal(a.groups["ironic"], a.target == 6)
        assert a.columns["audio_id"] == [assignment.ids[i] for i in t.audio]
    assert assignment.leak("test") == back.leak("test")


def test_an_assignment_finds_its_clips_in_another_order(assignment):
    ids = assignment.ids[::-1]
    moved = assignment.at(ids)
    for name, t in assignment.splits.items():
        assert [ids[i] for i in moved.splits[name].audio] == [assignment.ids[i] for i in t.audio]
    assert moved.leak("train") == assignment.leak("train")
    with pytest.raises(ValueError, match=r"uses 1 clips that are not among the 239 given, such as 'clip\d+'"):
        assignment.at(assignment.ids[1:])


def swap_label(content):
    row = next(row for row in content["splits"]["train"] if row[2] != "irony")
    row[2] = "irony"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content.update(format="x"), "its format is not"),
        (lambda content: content.pop("clips"), "damaged irony assignment: 'clips' is missing or unknown"),
        (lambda content: content["splits"]["test"][0].__setitem__(0, "nobody"), "'nobody' is missing or unknown"),
        (lambda content: content["splits"]["test"][0].pop(), "damaged irony assignment"),
        (lambda content: content["clips"].append(content["clips"][0]), "a clip is listed twice"),
        (swap_label, "a label of split 'train' does not follow from its clips"),
    ],
)
def test_a_damaged_file_is_refused(assignment, tmp_path, damage, message):
    path = assignment.save(tmp_path / "irony.json")
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        Irony.load(path)


def test_another_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none\.json does not exist"):
        Irony.load(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match="it is not JSON"):
        Irony.load(tmp_path / "x.json")


def test_a_clip_in_two_splits_is_refused():
    with pytest.raises(ValueError, match="Clip 'b' is in two splits, 'train' and 'test'"):
        Irony.make(["a", "b"], [0, 1], CREMA_D, {"train": [0, 1], "test": [1]}, 0.0)
    with pytest.raises(ValueError, match="indices of 2 clips; got 0 to 2"):
        Irony.make(["a", "b"], [0, 1], CREMA_D, {"train": [0, 2]}, 0.0)
