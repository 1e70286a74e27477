"""Whether an interaction would have been found: one of known size is planted, and looked for as the real one is."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from synib.measure import Estimate
from synib.own import planted as module
from synib.own.audit import audit
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.planted import planted
from synib.own.recipe import methods_of
from synib.own.table import Table
from synib.own.verdict import WORTH, Planted


def table(rows=1500, width=4, classes=("no", "yes"), modalities="ab"):
    rng = np.random.default_rng(0)
    x = {name: rng.normal(size=(rows, width)).astype(np.float32) for name in modalities}
    told = x["a"][:, 0] + rng.normal(size=rows)
    y = np.digitize(told, np.quantile(told, np.arange(1, len(classes)) / len(classes))) if classes else told
    there = np.ones(rows, dtype=bool)
    return Table(x, dict.fromkeys(x, there), y, classes, None, None, {}, "mine.npz", ())


def trained(one):
    """What planting needs: models of one modality, and an additive one."""
    alone = [method for method in methods_of(one) if method.startswith(("unimodal", "additive"))]
    return train(one, folds(one, 3), alone, budget=1, epochs=3, device="cpu")


@pytest.mark.parametrize("classes", [("no", "yes"), ("low", "middle", "high"), ()])
def test_what_few_numbers_tell_is_seen(classes):
    one = table(classes=classes)
    before = one.target.copy()
    assert planted(trained(one), 6).seen
    assert np.array_equal(one.target, before)


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
def test_what_is_hidden_among_many_numbers_is_not(classes):
    found = planted(trained(table(300, 60, classes)), 6)
    assert not found.seen
    assert found.of - found.found == 3


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("yyyyyyyy", Planted(8, 8)),
        ("nnn", Planted(0, 3, ("a", "b"))),
        ("nyyyyyynyy", Planted(8, 10)),
        ("yynnyn", Planted(3, 6, ("a", "b"))),
    ],
)
def test_tries_end_as_soon_as_the_answer_is_known(says, found, monkeypatch):
    here, nothing = Estimate(0.3, 0.2, 0.4, 9), Estimate(0.0, -0.1, 0.1, 9)
    answers, targets = iter(says), []

    def looked(outcome, seed, target):
        targets.append(target.copy())
        lead = here if next(answers) == "y" else nothing
        return SimpleNamespace(evidence=lead, lead=lead)

    outcome = trained(table(60))
    monkeypatch.setattr(module, "products", looked)
    assert planted(outcome, 6) == found
    assert len(targets) == found.of
    assert len({target.tobytes() for target in targets}) == found.of  # each has labels of its own


def test_every_two_modalities_have_tries_of_their_own_and_the_first_that_are_not_seen_end_it(monkeypatch):
    here, nothing = Estimate(0.3, 0.2, 0.4, 9), Estimate(0.0, -0.1, 0.1, 9)
    one = table(60, modalities="abcd")
    half = np.arange(60) < 30
    present = one.present | {"a": half, "b": ~half}  # no row has both
    outcome = trained(replace(one, present=present))
    asked, plain = [], module._side
    monkeypatch.setattr(module, "_side", lambda table, name, *rest: asked.append(name) or plain(table, name, *rest))
    monkeypatch.setattr(module, "products", lambda *_: SimpleNamespace(evidence=here, lead=here))
    assert planted(outcome, 6) == Planted(5 * 8, 5 * 8)
    assert list(zip(asked[::16], asked[1::16], strict=True)) == [tuple(pair) for pair in ("ac", "ad", "bc", "bd", "cd")]
    leads = iter([here] * 8 + [here, nothing, nothing, nothing])
    monkeypatch.setattr(module, "products", lambda *_: SimpleNamespace(evidence=here, lead=next(leads)))
    found = planted(outcome, 6)
    assert found == Planted(1, 4, ("a", "d"))
    assert not found.seen


def test_modalities_that_no_row_has_together_have_no_interaction_to_be_seen():
    half = np.arange(60) < 30
    found = planted(trained(replace(table(60), present={"a": half, "b": ~half})), 6)
    assert found == Planted(0, 0)
    assert not found.seen


def sides(one, name="a", seed=3):
    return module._side(one, name, np.arange(len(one.target)), np.arange(len(one.target)), np.random.default_rng(seed))


def test_a_direction_halves_the_rows_that_have_the_modality():
    one = table(401, 3)
    scaled = one.modalities["a"] * np.float32([1e3, 1.0, 1e-3]) + np.float32([0, 50, 0])
    constant = np.concatenate([scaled, np.full((401, 1), 7.0, np.float32)], 1)
    there = np.arange(401) < 301
    one = replace(one, modalities={**one.modalities, "a": constant}, present={**one.present, "a": there})
    side = sides(one)
    assert (side[~there] == 0).all()
    assert (side[there] == 1).sum() in (150, 151)
    # Columns count alike, however large their numbers are.
    weights = np.random.default_rng(3).normal(size=4)[:3]
    plain = table(401, 3).modalities["a"][there]
    expected = plain / plain.std(0) @ weights
    assert (np.where(expected > np.median(expected), 1.0, -1.0) == side[there]).mean() > 0.99


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_a_flag_divides_the_rows_by_its_values(share, seed):
    one = table(100)
    flag = (np.arange(100) < 100 * share).astype(np.float32)[:, None]
    side = sides(replace(one, modalities={**one.modalities, "a": flag}), seed=seed)
    assert len(set(side[flag[:, 0] == 1])) == len(set(side[flag[:, 0] == 0])) == 1
    assert set(side) == {-1.0, 1.0}


def test_what_is_the_same_in_all_rows_has_no_sides_and_nothing_is_planted():
    one = table(60)
    one = replace(one, modalities={**one.modalities, "a": np.full((60, 2), 7.0, np.float32)})
    assert sides(one) is None
    assert planted(trained(one), 6) == Planted(0, 0)


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
@pytest.mark.parametrize("shared", [True, False])
def test_rows_of_a_group_share_their_planted_label_if_they_share_the_real_one(shared, classes, monkeypatch):
    one = table(240, classes=classes)
    group = np.arange(240) // 6
    target = one.target[group * 6] if shared else one.target
    outcome = trained(replace(one, target=target, group=group.astype(str)))
    targets, nothing = [], Estimate(0.0, -0.1, 0.1, 9)

    def looked(outcome, seed, target):
        targets.append(target.copy())
        return SimpleNamespace(evidence=nothing, lead=nothing)

    monkeypatch.setattr(module, "products", looked)
    planted(outcome, 6)
    assert len(targets) == 3
    for drawn in targets:
        assert (drawn == drawn[group * 6]).all() == shared
        assert len(np.unique(drawn)) > 1


def test_labels_of_groups_are_harder_to_see_than_labels_of_rows():
    rng = np.random.default_rng(0)
    group = np.arange(1500) // 30
    x = {
        name: (rng.normal(size=(50, 8))[group] + 0.01 * rng.normal(size=(1500, 8))).astype(np.float32) for name in "ab"
    }
    one = replace(table(), modalities=x, group=group.astype(str), target=(rng.random(50) < 0.5).astype(np.int64)[group])
    assert not planted(trained(one), 6).seen


def right(told, drawn, side):
    """Accuracy of who knows what each modality tells and, for each side, how often each class comes."""
    known = told.copy()
    for one in np.unique(side):
        rows = side == one
        moved, share = np.zeros(told.shape[1]), np.bincount(drawn[rows], minlength=told.shape[1]).clip(1) / rows.sum()
        for _ in range(200):  # until the mean probability of each class is its frequency
            p = np.exp(told[rows] + moved)
            moved += np.log(share / (p / p.sum(1, keepdims=True)).mean(0))
        known[rows] += moved
    return (drawn == known.argmax(1)).mean()


@pytest.mark.parametrize("classes", [2, 3, 8, 20])
@pytest.mark.parametrize("sure", [0.0, 1.0, 4.0])
def test_it_is_worth_what_it_says_to_who_knows_it(classes, sure):
    rng = np.random.default_rng(0)
    told = sure * rng.normal(size=(40_000, classes))
    told -= np.log(np.exp(told).sum(1, keepdims=True))
    side = rng.choice([-1.0, 1.0], 40_000)
    drawn = module._classes(told, side, np.zeros(40_000), np.random.default_rng(1))
    assert set(np.unique(drawn)) <= set(range(classes))
    blind = right(told, drawn, np.zeros(40_000))
    assert right(told, drawn, side) - blind == pytest.approx(WORTH, abs=0.02)


def test_of_numbers_it_explains_that_share_of_the_variance():
    rng = np.random.default_rng(0)
    mean, side = rng.normal(size=20_000), rng.choice([-1.0, 1.0], 20_000)
    target = mean + rng.normal(size=20_000)
    drawn = module._numbers(mean[:, None], side, target, np.random.default_rng(1))
    assert np.corrcoef(drawn, side)[0, 1] ** 2 == pytest.approx(WORTH, abs=0.01)
    assert np.cov(drawn, mean)[0, 1] == pytest.approx(1.0, abs=0.03)
    # Also where the means are nothing but noise, and the real numbers are nearer to each other than these.
    drawn = module._numbers(mean[:, None], side, rng.normal(size=20_000), np.random.default_rng(1))
    assert np.corrcoef(drawn, side)[0, 1] ** 2 == pytest.approx(WORTH, abs=0.01)


@pytest.mark.parametrize(("tries", "told"), [(Planted(8, 8), "absent"), (Planted(0, 3, ("a", "b")), "unclear")])
def test_nothing_found_is_an_answer_only_where_something_would_have_been(tries, told, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
    monkeypatch.setattr("synib.own.audit.planted", lambda *_: tries)
    found = audit(table(1500), k=3, budget=1, epochs=3).verdict
    assert found.synergy == told
    assert found.planted == tries
    assert found.interaction.high < 0.02
