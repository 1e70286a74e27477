"""Matched irony: splits by actor, rates of their own, and nothing that tells irony but the emotions."""

import numpy as np
import pytest
import torch

from synib.methods import build
from synib.objective import Categorical, Prior
from synib.studies.irony.construction import SPLITS
from synib.studies.irony.matched import ACTORS, DRAWS, MatchedIrony, actor_splits, leaks, matched_irony
from synib.training import Cell


@pytest.fixture(scope="module")
def folder(takes_root):
    return str(takes_root / "ravdess")


def test_every_actor_is_tested_once_and_no_actor_is_in_two_splits():
    actors = np.repeat(np.arange(1, ACTORS + 1), 3)
    tested = []
    for actor in range(1, ACTORS + 1):
        splits = actor_splits(actors, actor)
        people = [set(actors[rows].tolist()) for rows in splits.values()]
        assert [len(p) for p in people] == [20, 3, 1]
        assert len(set.union(*people)) == ACTORS
        tested += people[2]
    assert sorted(tested) == list(range(1, ACTORS + 1))
    with pytest.raises(ValueError, match="numbered 1 to 24; got 25"):
        actor_splits(actors, 25)


def test_training_alone_follows_alpha_and_other_splits_have_several_assignments(folder):
    few, many = (matched_irony(folder, alpha, 3).irony.splits for alpha in (0.2, 1.0))
    rates = {name: [(t[name].label == 8).mean() for t in (few, many)] for name in SPLITS}
    assert rates["train"][0] == pytest.approx(0.2 / 8, abs=0.01)
    assert rates["train"][1] == pytest.approx(1 / 8, abs=0.01)
    for name, draws in DRAWS.items():
        assert rates[name][0] == rates[name][1] == pytest.approx(2 / 8, abs=0.02)
        assert np.array_equal(few[name].audio, many[name].audio)
        parts = np.split(few[name].audio, draws)
        assert len({tuple(part) for part in parts}) == draws
        assert len({tuple(np.sort(part)) for part in parts}) == 1


def test_no_mismatch_tells_irony_and_no_emotion_alone(folder):
    for split in SPLITS:
        found = leaks(folder, 1.0, 7, split)
        assert all(found[f"another {name}"] == 0.5 for name in ("actor", "statement", "intensity", "recording"))
        # The rule is fitted to the examples that it is scored on, so it lies above 0.5 where there are few.
        assert all(found[f"emotion of the {who}"] < 0.58 for who in ("voice", "face"))


def test_the_prior_reference_has_the_frequencies_of_the_training_classes(takes_root):
    task = MatchedIrony(root=str(takes_root))
    settings = {**task.defaults()["vanilla"], "p": 1.0, "noise": "shuffled", "weight": 1.0, "reference": "prior"}
    cell = Cell("x", "synib-random", {"alpha": 1.0}, settings, 4)
    data = task.data(cell)
    reference = task.method(cell, data).reference
    assert isinstance(reference, Prior)
    frequencies = torch.bincount(data.train.target, minlength=9) / len(data.train)
    assert torch.allclose(reference.parameters_of_prior.softmax(-1).flatten(), frequencies, atol=1e-5)
    with pytest.raises(ValueError, match="reference"):
        build("synib-random", family=Categorical(), p=1.0, noise="shuffled", reference="prior")
