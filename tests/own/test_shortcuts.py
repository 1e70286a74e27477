"""Alarms: nuisances that tell, modalities that are too good, and those that know their groups."""

from dataclasses import replace

import numpy as np
import pytest

from synib.measure.stats import mean
from synib.own.folds import folds
from synib.own.shortcuts import _notable, as_features, shortcuts
from synib.own.table import Table

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
N = 600


def table(seed=0, strength=0.7, **more):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N)
    a, b = rng.normal(size=(N, 6)), rng.normal(size=(N, 4))
    a[:, 0] += strength * (2 * y - 1)
    there = np.ones(N, dtype=bool)
    x = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    return Table(x, {"a": there, "b": there}, y, ("0", "1"), **more)


def alarms(one):
    return {(s.what, s.kind): s for s in shortcuts(one, folds(one, 3))}


def test_honest_data_raise_no_alarm():
    rng = np.random.default_rng(5)
    nuisance = {"camera": rng.choice(["x", "y", "z"], N), "level": rng.normal(size=N)}
    assert alarms(table(nuisance=nuisance)) == {}


@pytest.mark.parametrize("kind", ["names", "numbers", "curve"])
def test_a_nuisance_that_tells_the_label_raises_one_and_says_who_carries_it(kind):
    rng = np.random.default_rng(1)
    one = table()
    tells = np.where(rng.random(N) < 0.8, one.target, 1 - one.target)
    column = {
        "names": np.array(["720p", "480p"])[tells],
        "numbers": tells + 0.1 * rng.normal(size=N),
        "curve": (2 * rng.integers(0, 2, N) - 1) * (1.0 + tells) + 0.1 * rng.normal(size=N),  # only its size tells
    }[kind]
    x = dict(one.modalities)
    x["b"] = x["b"].copy()
    x["b"][:, 0] = 3 * tells
    found = alarms(replace(one, nuisance={"size": column}, modalities=x))
    alarm = found["size", "nuisance"]
    assert alarm.score.value == pytest.approx(0.8, abs=0.06)
    assert alarm.beyond.low > 0.1
    assert "size alone predicts the target" in alarm.words
    if kind == "names":
        assert alarm.carried["b"] > alarm.carried.get("a", 0.0)
        assert "b can predict it" in alarm.words


def test_a_modality_that_holds_the_label_is_too_good():
    found = alarms(table(strength=9.0))
    assert set(found) == {("a", "perfect")}
    assert "contains the target" in found["a", "perfect"].words


def test_a_modality_that_knows_its_groups_is_told_from_one_that_knows_the_label():
    rng = np.random.default_rng(2)
    groups = 40
    which = np.arange(N) % groups
    of_group = rng.integers(0, 2, groups)  # most labels of a group are the same
    y = np.where(rng.random(N) < 0.9, of_group[which], 1 - of_group[which])
    voice = rng.normal(size=(groups, 30))[which] + 0.1 * rng.normal(size=(N, 30))  # tells who, and nothing else
    honest = rng.normal(size=(N, 4))
    honest[:, 0] += 2 * y - 1
    there = np.ones(N, dtype=bool)
    x = {"voice": voice.astype(np.float32), "honest": honest.astype(np.float32)}
    one = Table(x, {"voice": there, "honest": there}, y, ("0", "1"), group=np.array([f"g{w}" for w in which]))
    found = alarms(one)
    assert set(found) == {("voice", "group")}
    assert found["voice", "group"].beyond.low > 0
    assert "it identifies the group" in found["voice", "group"].words


def test_numbers_have_shortcuts_too():
    rng = np.random.default_rng(3)
    one = table()
    y = one.modalities["a"][:, 1].astype(np.float64) + rng.normal(size=N)
    found = alarms(
        replace(one, target=y, classes=(), nuisance={"age": y + rng.normal(size=N), "day": rng.normal(size=N)})
    )
    assert set(found) == {("age", "nuisance")}
    assert "of the variance" in found["age", "nuisance"].words


def test_features_of_a_nuisance():
    names = as_features(np.array(["x", "y", "x", "z"]))
    assert names.shape == (4, 3)
    assert names.sum(1).tolist() == [1, 1, 1, 1]
    assert as_features(np.arange(3) % 3).shape == (3, 3)  # few numbers are names
    assert as_features(np.linspace(0, 1, 200)).shape == (200, 2)
    assert as_features(np.array([f"id{i}" for i in range(500)])).shape == (500, 50)


def test_many_nuisances_rarely_raise_a_false_alarm():
    one = table()
    any_alarm, any_interval = 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        gains = {f"nuisance {i}": rng.choice([-1.0, 0.0, 1.0], 80) for i in range(20)}
        any_alarm += bool(_notable(one, gains))
        any_interval += any(mean(gain).low > 0 for gain in gains.values())
    assert any_interval > 25  # intervals of one nuisance alone would raise an alarm in every third table
    assert any_alarm <= 8
