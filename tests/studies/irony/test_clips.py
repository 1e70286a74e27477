"""Clips as a data set: every actor in one split, all splits present."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from synib.studies.irony.clips import Clips
from synib.studies.irony.construction import Irony

PARTS = {"train": np.array([0, 1]), "validation": np.array([2, 3]), "test": np.array([4, 5])}
TWO = {"glad": ("sad",), "sad": ("glad",)}


class Clip(NamedTuple):
    id: str
    actor: int
    label: int


@pytest.fixture
def clips():
    x = torch.arange(6.0)[:, None]
    return Clips(tuple(Clip(name, 1 + i // 2, i % 2) for i, name in enumerate("abcdef")), x, -x, {"d": "d is broken."})


def test_an_actor_in_two_parts_is_refused(clips):
    with pytest.raises(ValueError, match="Every actor must be in one split only; 3 is in both train and test"):
        clips.dataset(PARTS | {"train": np.array([0, 4]), "test": np.array([5])})
    irony = Irony.make(clips.ids, [0, 1] * 3, TWO, {"train": [0, 4], "validation": [2], "test": [5]}, 0.0)
    with pytest.raises(ValueError, match="Every actor must be in one split"):
        clips.dataset({}, irony)


def test_a_missing_split_is_named(clips):
    with pytest.raises(ValueError, match="splits train, validation, test; 'test' is missing"):
        clips.dataset({k: v for k, v in PARTS.items() if k != "test"})
