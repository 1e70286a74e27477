"""Refutation tests: what is destroyed is destroyed, and nothing else."""

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.refute import _dummy_target, _half, _shuffled_pairs, refute

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")


def test_shuffled_pairs_keep_each_modality_given_the_class(table):
    one = table()
    other = _shuffled_pairs(one, 0)
    assert np.array_equal(one.modalities["a"], other.modalities["a"])
    before, after = one.modalities["b"], other.modalities["b"]
    assert (before != after).any(1).mean() > 0.9
    for label in (0, 1):
        rows = one.target == label
        assert sorted(before[rows].tolist()) == sorted(after[rows].tolist())


def test_a_dummy_target_moves_with_whole_groups_where_they_share_it(table):
    one = table()
    assert sorted(_dummy_target(one, 0).target) == sorted(one.target)
    group = np.arange(160) // 4
    shared = table(group=group.astype(str), target=np.random.default_rng(0).integers(2, size=40)[group])
    permuted = _dummy_target(shared, 0).target
    assert (permuted.reshape(40, 4) == permuted[::4, None]).all()
    assert not np.array_equal(permuted, shared.target)


def test_half_of_the_rows_are_half_of_every_class_or_of_the_groups(table):
    half = _half(table(), 0)
    assert len(half.target) == len(half.modalities["a"]) == pytest.approx(80, abs=1)
    grouped = _half(table(group=(np.arange(160) // 10).astype(str)), 0)
    assert len(np.unique(grouped.group)) == 8


def test_a_true_claim_survives_all_of_them(table, monkeypatch):
    for name in ("_decompose", "detectable"):  # which have no part in `present`
        monkeypatch.setattr(f"synib.own.audit.{name}", lambda *_, **__: {})
    plan = {"k": 3, "budget": 1, "epochs": 2, "device": "cpu", "judge": False, "tries": 1}
    seen = []
    results = refute(
        audit(table(), **plan), on_progress=lambda done, total, what: seen.append((done / total, what)), **plan
    )
    assert [r.name for r in results] == [
        "pairing shuffled within class",
        "dummy target",
        "half of the rows",
        "other seeds",
    ]
    assert all(r.passed for r in results)
    assert results[0].verdict != "present"
    assert results[3].verdict == "present"
    assert "passed" in results[0].words
    assert "no model better than a constant prediction" in results[1].words
    assert seen[-1][0] == 1


def test_a_dummy_target_that_models_predict_is_a_failure(table, monkeypatch):
    """As with copies of rows that no one knows of: the same row, with its label, in training and in test data."""
    for name in ("_decompose", "detectable"):
        monkeypatch.setattr(f"synib.own.audit.{name}", lambda *_, **__: {})
    monkeypatch.setattr("synib.own.refute._dummy_target", lambda one, seed: one)  # a target that was not permuted
    plan = {"k": 3, "budget": 1, "epochs": 2, "device": "cpu", "judge": False, "tries": 1}
    (dummy,) = (r for r in refute(audit(table(), **plan), **plan) if r.name == "dummy target")
    assert not dummy.passed
    assert "FAILED" in dummy.words
    assert "a model better than a constant prediction" in dummy.words
