"""The smallest interaction that would be found: simulated targets of a known size, and the search for the size."""

import numpy as np
import pytest

from synib.own.evidence import Bench
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.metric import Metric
from synib.own.power import KINDS, _signal, _smallest, detectable, simulate, units
from synib.own.search_space import methods_of
from synib.own.table import Table


def bench(rows=400, kind="classification", group=None, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, rows, 4)).astype(np.float32)
    number = a[:, 0] + b[:, 0] + rng.normal(size=rows)
    target = {
        "classification": (number > 0).astype(np.int64),
        "three": np.digitize(number, [-0.7, 0.7]),
        "regression": number,
        "multilabel": np.stack([number > 0, number > 0.5], 1).astype(np.int64),
    }[kind]
    if group is not None:
        target = target[np.unique(group, return_index=True)[1]][np.unique(group, return_inverse=True)[1]]
    table = Table.from_arrays({"a": a, "b": b}, target, groups=group, task="auto" if kind == "three" else kind)
    outcome = train(table, folds(table, 3), methods_of(table, False), budget=1, epochs=3, device="cpu")
    return Bench(outcome, Metric(table), group)


@pytest.fixture(scope="module")
def plain():
    return bench()


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulated_target_follows_its_interaction(plain, kind):
    random = np.random.default_rng(0)
    signal = _signal(plain, kind, ("a", "b"), random)
    assert np.square(signal).mean() == pytest.approx(1)
    target = simulate(plain, signal, 0.2, random)
    assert abs(np.corrcoef(signal, target)[0, 1]) > 0.15
    assert set(np.unique(target)) == {0, 1}


@pytest.mark.parametrize("kind", ["three", "regression", "multilabel"])
def test_targets_of_every_kind_are_simulated(kind):
    one = bench(kind=kind)
    random = np.random.default_rng(0)
    target = simulate(one, _signal(one, "product", ("a", "b"), random), 0.2, random)
    assert target.shape == one.target.shape
    assert one.compare(target).loss.isfinite().all()
    if kind == "regression":
        signal = _signal(one, "product", ("a", "b"), np.random.default_rng(0))
        assert np.corrcoef(signal, target)[0, 1] ** 2 == pytest.approx(0.2, abs=0.08)


def test_rows_of_a_group_that_share_their_label_share_the_simulated_one():
    group = np.arange(400) // 4
    one = bench(group=group)
    assert len(np.unique(units(one))) == 100
    random = np.random.default_rng(0)
    target = simulate(one, _signal(one, "gate", ("a", "b"), random), 0.2, random)
    assert (target.reshape(100, 4) == target[::4, None]).all()


def test_more_rows_find_smaller_interactions():
    few, many = (detectable(bench(rows), 2.5, tries=2)["product"] for rows in (150, 700))
    assert many < 0.15
    assert few is None or few > many


def test_a_modality_that_others_never_meet_cannot_interact():
    one = bench()
    one.outcome.table.present["a"][:] = np.arange(400) < 200
    one.outcome.table.present["b"][:] = np.arange(400) >= 200
    assert detectable(one, 2.5, tries=1) == {"product": None, "lookup": None, "gate": None}


@pytest.mark.parametrize(
    ("threshold", "low", "high"), [(0.07, 0.05, 0.1), (0.3, 0.2, 0.4), (0.001, 0.0125, 0.0125), (0.6, None, None)]
)
def test_the_search_ends_between_a_size_that_is_missed_and_one_that_is_found(threshold, low, high):
    found = _smallest(lambda size: 0.95 if size > threshold else 0.1)
    assert found is None if low is None else low <= found <= high
    assert _smallest(lambda size: None) is None
