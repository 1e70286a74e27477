"""The control: vanilla fusion trained on modalities shuffled within each class."""

import torch

from synib.data import Split
from synib.studies.control import CONTROL, REAL, SHUFFLED, name_control, shuffled, trainings


def test_shuffling_keeps_the_examples_of_each_class_and_breaks_their_pairs():
    x = torch.arange(40.0)[:, None]
    split = Split({"a": x, "b": -x}, torch.arange(40) % 2, columns={"id": range(40)})
    mixed = shuffled(split, seed=0)
    assert torch.equal(mixed.target, split.target)
    assert not torch.equal(mixed.modalities["a"], -mixed.modalities["b"])
    for label in (0, 1):
        rows = split.target == label
        for name, values in split.modalities.items():
            assert sorted(mixed.modalities[name][rows].flatten().tolist()) == sorted(values[rows].flatten().tolist())
    assert not torch.equal(shuffled(split, seed=1).modalities["a"], mixed.modalities["a"])


def test_only_vanilla_fusion_has_a_control_which_results_name_as_a_method():
    assert trainings("vanilla") == (REAL, SHUFFLED)
    assert trainings("experts") == (REAL,)
    rows = [{"method": "vanilla", "training": training} for training in trainings("vanilla")]
    assert [row["method"] for row in name_control(rows)] == ["vanilla", CONTROL]
