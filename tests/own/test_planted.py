"""Whether an interaction would have been detected: one of known size is planted, and tested for as the real one is."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own import planted as module
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.planted import WORTH, Planted, planted
from synib.own.search_space import methods_of
from synib.own.table import Table

DETECTED, NOTHING = Estimate(0.3, 0.2, 0.4, 9), Estimate(0.0, -0.1, 0.1, 9)


def table(rows=60, width=4, classes=("no", "yes"), modalities="ab"):
    rng = np.random.default_rng(0)
    x = {name: rng.normal(size=(rows, width)).astype(np.float32) for name in modalities}
    number = x["a"][:, 0] + rng.normal(size=rows)
    y = np.digitize(number, np.quantile(number, np.arange(1, len(classes)) / len(classes))) if classes else number
    return Table(x, dict.fromkeys(x, np.ones(rows, dtype=bool)), y, classes)


def trained(one):
    """What planting needs: unimodal models and an additive one."""
    methods = [method for method in methods_of(one) if method.startswith(("unimodal", "additive"))]
    return train(one, folds(one, 3), methods, budget=1, epochs=2, device="cpu")


@pytest.mark.parametrize("classes", [("no", "yes"), ("low", "middle", "high"), ()])
def test_among_few_features_it_is_detected(classes):
    one = table(900, classes=classes)
    before = one.target.copy()
    assert planted(trained(one), 6).seen
    assert np.array_equal(one.target, before)


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
def test_among_many_features_it_is_not(classes):
    found = planted(trained(table(240, 50, classes)), 6)
    assert not found.seen
    assert found.of - found.found == 3


def detects(monkeypatch, answers):
    """The test for products answers so, one try after the other; the targets that it was given."""
    answers, targets = iter(answers), []

    def products(outcome, seed, target):
        targets.append(target.copy())
        lead = DETECTED if next(answers) == "y" else NOTHING
        return SimpleNamespace(evidence=lead, lead=lead)

    monkeypatch.setattr(module, "products_gain", products)
    return targets


@pytest.fixture(scope="module")
def small():
    return trained(table())


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ("yyyyyyyy", Planted(8, 8)),
        ("nnn", Planted(0, 3, ("a", "b"))),
        ("nyyyyyynyy", Planted(8, 10)),
        ("yynnyn", Planted(3, 6, ("a", "b"))),
    ],
)
def test_tries_end_as_soon_as_the_answer_is_known(small, answers, found, monkeypatch):
    targets = detects(monkeypatch, answers)
    assert planted(small, 6) == found
    assert len({target.tobytes() for target in targets}) == found.of  # each has labels of its own


def test_every_two_modalities_have_tries_of_their_own_and_the_first_that_fail_end_it(monkeypatch):
    one, half = table(modalities="abcd"), np.arange(60) < 30
    outcome = trained(replace(one, present=one.present | {"a": half, "b": ~half}))  # no row has both a and b
    names, side = [], module._side
    monkeypatch.setattr(module, "_side", lambda table, name, *rest: names.append(name) or side(table, name, *rest))
    detects(monkeypatch, "y" * 40)
    assert planted(outcome, 6) == Planted(40, 40)
    assert list(zip(names[::16], names[1::16], strict=True)) == [tuple(pair) for pair in ("ac", "ad", "bc", "bd", "cd")]
    detects(monkeypatch, "y" * 9 + "nnn")
    found = planted(outcome, 6)
    assert found == Planted(1, 4, ("a", "d"))
    assert not found.seen


def test_modalities_that_no_row_has_together_or_that_are_constant_have_no_interaction_to_detect():
    half = np.arange(60) < 30
    found = planted(trained(replace(table(), present={"a": half, "b": ~half})), 6)
    assert found == Planted(0, 0)
    assert not found.seen
    one = table()
    constant = replace(one, modalities={**one.modalities, "a": np.full((60, 2), 7.0, np.float32)})
    assert sides(constant) is None
    assert planted(trained(constant), 6) == Planted(0, 0)


def sides(one, name="a", seed=3):
    rows = np.arange(len(one.target))
    return module._side(one, name, rows, rows, np.random.default_rng(seed))


def test_a_direction_halves_the_rows_that_have_the_modality():
    one = table(401, 3)
    scaled = one.modalities["a"] * np.float32([1e3, 1.0, 1e-3]) + np.float32([0, 50, 0])
    constant = np.concatenate([scaled, np.full((401, 1), 7.0, np.float32)], 1)
    present = np.arange(401) < 301
    side = sides(replace(one, modalities={**one.modalities, "a": constant}, present={**one.present, "a": present}))
    assert (side[~present] == 0).all()
    assert (side[present] == 1).sum() in (150, 151)
    # Columns count alike, however large their numbers are.
    weights = np.random.default_rng(3).normal(size=4)[:3]
    plain = one.modalities["a"][present]
    expected = plain / plain.std(0) @ weights
    assert (np.where(expected > np.median(expected), 1.0, -1.0) == side[present]).mean() > 0.99


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_a_flag_divides_the_rows_by_its_values(share):
    one = table(100)
    flag = (np.arange(100) < 100 * share).astype(np.float32)[:, None]
    for seed in range(4):
        side = sides(replace(one, modalities={**one.modalities, "a": flag}), seed=seed)
        assert len(set(side[flag[:, 0] == 1])) == len(set(side[flag[:, 0] == 0])) == 1
        assert set(side) == {-1.0, 1.0}


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
@pytest.mark.parametrize("shared", [True, False])
def test_rows_of_a_group_share_their_planted_label_if_they_share_the_real_one(shared, classes, monkeypatch):
    one, group = table(240, classes=classes), np.arange(240) // 6
    target = one.target[group * 6] if shared else one.target
    outcome = trained(replace(one, target=target, group=group.astype(str)))
    targets = detects(monkeypatch, "nnn")
    planted(outcome, 6)
    assert len(targets) == 3
    for drawn in targets:
        assert (drawn == drawn[group * 6]).all() == shared
        assert len(np.unique(drawn)) > 1


def test_labels_of_groups_are_harder_to_detect_than_labels_of_rows():
    rng, group = np.random.default_rng(0), np.arange(900) // 30
    x = {name: (rng.normal(size=(30, 8))[group] + 0.01 * rng.normal(size=(900, 8))).astype(np.float32) for name in "ab"}
    labels = (np.arange(30) % 2)[group]
    one = replace(table(900), modalities=x, group=group.astype(str), target=labels)
    assert not planted(trained(one), 6).seen


def accuracy(additive, drawn, side):
    """Accuracy of the additive predictions with the frequency of each class on each side."""
    known = additive.copy()
    for one in np.unique(side):
        rows = side == one
        moved = np.zeros(additive.shape[1])
        share = np.bincount(drawn[rows], minlength=len(moved)).clip(1) / rows.sum()
        for _ in range(60):  # until the mean probability of each class is its frequency
            p = np.exp(additive[rows] + moved)
            moved += np.log(share / (p / p.sum(1, keepdims=True)).mean(0))
        known[rows] += moved
    return (drawn == known.argmax(1)).mean()


@pytest.mark.parametrize(("classes", "sure"), [(2, 0.0), (2, 4.0), (3, 1.0), (20, 1.0)])
def test_it_is_worth_20_points_to_a_model_that_knows_it(classes, sure):
    rng, n = np.random.default_rng(0), 20_000
    additive = sure * rng.normal(size=(n, classes))
    additive -= np.log(np.exp(additive).sum(1, keepdims=True))
    side = rng.choice([-1.0, 1.0], n)
    drawn = module._draw_classes(additive, side, np.zeros(n), np.random.default_rng(1))
    assert set(np.unique(drawn)) <= set(range(classes))
    without = accuracy(additive, drawn, np.zeros(n))
    assert accuracy(additive, drawn, side) - without == pytest.approx(WORTH, abs=0.02)


def test_of_numbers_it_explains_that_share_of_the_variance():
    rng = np.random.default_rng(0)
    mean, side = rng.normal(size=20_000), rng.choice([-1.0, 1.0], 20_000)
    target = mean + rng.normal(size=20_000)
    drawn = module._draw_numbers(mean[:, None], side, target, np.random.default_rng(1))
    assert np.corrcoef(drawn, side)[0, 1] ** 2 == pytest.approx(WORTH, abs=0.01)
    assert np.cov(drawn, mean)[0, 1] == pytest.approx(1.0, abs=0.03)
    # Also where the means are nothing but noise, and the real numbers are nearer to each other than these.
    drawn = module._draw_numbers(mean[:, None], side, rng.normal(size=20_000), np.random.default_rng(1))
    assert np.corrcoef(drawn, side)[0, 1] ** 2 == pytest.approx(WORTH, abs=0.01)
