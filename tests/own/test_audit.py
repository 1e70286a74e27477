"""The audit from end to end, on small data whose truth is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.interaction import products
from synib.own.table import Table
from synib.report.audit import page, summary, write

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
N = 300


def table(kind="synergy", seed=0, **more):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(N, 2)), rng.normal(size=(N, 2))
    y = {"synergy": a[:, 0] * b[:, 0] > 0, "unique": a[:, 0] > 0}[kind].astype(np.int64)
    there = np.ones(N, dtype=bool)
    x = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    return replace(Table(x, {"a": there, "b": there}, y, ("no", "yes"), None, None, {}, "mine.npz", ()), **more)


@pytest.fixture(scope="module")
def found():
    return audit(table(nuisance={"camera": np.array(["x", "y"])[np.arange(N) % 2]}), k=3, budget=1, epochs=40)


def test_synergy_is_found_and_named(found):
    assert found.verdict.synergy == "present"
    assert found.verdict.interaction.low > 0.2
    assert found.verdict.sentences[0].startswith("There is synergy")
    assert found.scores["unimodal-a"].high < 0.65
    assert found.verdict.shortcuts == []


def test_a_model_that_has_found_it_leans_on_both(found):
    lost = found.verdict.reliance[found.synib]
    assert all(lost[name].accuracy.low > 0.1 for name in "ab")


def test_one_modality_that_tells_everything_is_no_synergy():
    told = audit(table("unique"), k=3, budget=1, epochs=10).verdict
    assert told.synergy != "present"
    assert told.reliance["vanilla"]["a"].accuracy.low > 0.1
    assert told.reliance["vanilla"]["b"].accuracy.high < 0.1


def test_test_labels_decide_scores_alone():
    """With labels of the test part exchanged, models and their choices stay as they are."""
    split = np.array(["train"] * 180 + ["validation"] * 60 + ["test"] * 60)
    one = table(split=split)
    other = replace(one, target=np.where(split == "test", 1 - one.target, one.target))
    first, second = (audit(t, budget=1, epochs=2) for t in (one, other))
    for method, trained in first.outcome.methods.items():
        assert np.array_equal(trained.predictions, second.outcome.methods[method].predictions, equal_nan=True)
    assert first.scores["vanilla"].value == pytest.approx(1 - second.scores["vanilla"].value)


def test_numbers_are_audited_too():
    rng = np.random.default_rng(0)
    one = table()
    y = one.modalities["a"][:, 0].astype(np.float64) * one.modalities["b"][:, 0] + 0.1 * rng.normal(size=N)
    told = audit(replace(one, target=y, classes=()), k=3, budget=1, epochs=40)
    assert told.measure == "explained variance"
    assert told.synib == "synib-marginal"
    assert told.verdict.synergy == "present"
    assert not told.pid


def weak(classes=("no", "yes"), rows=N):
    """Where a product tells, and networks that are not trained find nothing."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, rows, 4)).astype(np.float32)
    number = a[:, 0] * b[:, 0] + 0.5 * rng.normal(size=rows)
    there = np.ones(rows, dtype=bool)
    y = (number > 0).astype(np.int64) if classes else number
    return Table({"a": a, "b": b}, {"a": there, "b": there}, y, classes, None, None, {}, "mine.npz", ())


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
def test_a_product_that_no_model_has_learned_is_found_all_the_same(classes):
    told = audit(weak(classes), k=3, budget=1, epochs=1)
    assert told.best == "products"
    assert told.verdict.synergy == "present"
    assert told.verdict.interaction == told.interactions["products"].lead
    assert told.scores["products"].low > told.scores["vanilla"].high
    assert not told.verdict.found.low > 0.02
    (models,) = [t for t in page(told, summary(told), "x", {}).tables if t.title == "Models"]
    assert models.rows["products"][0]["mean"] == pytest.approx(told.scores["products"].value, abs=1e-6)


def test_products_are_of_rows_that_have_both_and_of_some_where_there_are_many(monkeypatch):
    one = weak()
    gone = np.arange(N) % 3 == 0
    lacks = replace(
        one,
        modalities=one.modalities | {"b": np.where(gone[:, None], np.float32(1e6), one.modalities["b"])},
        present=one.present | {"b": ~gone},
    )
    told = audit(lacks, k=3, budget=1, epochs=1)
    assert told.interactions["products"].evidence.low > 0  # what stands where nothing is does not matter
    monkeypatch.setattr("synib.own.interaction.ROWS", 120)
    fewer = products(told.outcome)
    assert fewer.evidence.n == 120
    assert np.isfinite(fewer.additive).sum() == 120


def test_of_three_modalities_each_is_decomposed_beside_the_others_joined(monkeypatch):
    one = table()
    noise = np.random.default_rng(9).normal(size=(N, 2)).astype(np.float32)
    three = replace(one, modalities=one.modalities | {"c": noise}, present=one.present | {"c": one.present["a"]})
    told = audit(three, k=3, budget=1, epochs=1)
    assert list(told.pid) == ["a", "b", "c"]
    parts = {row["method"]: row["mean"] for row in summary(told) if row["metric"] == "pid_bits"}
    assert len(parts) == 12
    beyond = {name: pid.synergy.value - max(null.synergy for null in pid.null) for name, pid in told.pid.items()}
    assert min(beyond["a"], beyond["b"]) > 0.05 > 0 > beyond["c"]
    assert parts["c and the others together"] == told.pid["c"].synergy.value
    (shown,) = [t for t in page(told, summary(told), "synib audit mine.npz", {}).tables if "BROJA" in t.title]
    assert "the others without c" in shown.rows
    assert "set against the others joined" in shown.note

    monkeypatch.setattr("synib.own.audit.PID_ROWS", 100)
    fewer = audit(three, k=3, budget=1, epochs=1)
    assert fewer.pid["a"].synergy.n == 100 < told.pid["a"].synergy.n


def test_a_package_that_is_missing_is_missed_before_anything_is_trained(monkeypatch):
    def missing(*_, **__):
        raise ImportError("BROJA needs cvxpy")

    monkeypatch.setattr("synib.own.audit.pid_quantised", missing)
    monkeypatch.setattr("synib.own.audit.train", lambda *_, **__: pytest.fail("hours went by"))
    with pytest.raises(ImportError, match="cvxpy"):
        audit(table())


def test_everything_is_left_behind_and_says_the_same(found, tmp_path):
    write(found, tmp_path, "synib audit mine.npz", {"rows": "300"}, interactive=False)
    assert {path.name for path in tmp_path.iterdir()} == {"verdict.json", "summary.csv", "report.html", "figure.svg"}
    told = json.loads((tmp_path / "verdict.json").read_text())
    assert told["synergy"] == "present"
    assert set(told["modalities"]) == {"a", "b"}
    text = (tmp_path / "report.html").read_text()
    assert "There is synergy" in text
    assert "synib audit mine.npz" in text
    rows = summary(found)
    assert {row["metric"] for row in rows} >= {"accuracy", "over_additive", "over_vanilla", "lost_vanilla", "pid_bits"}
    made = page(found, rows, "x", {})
    assert made.synergy == "present"
    assert all(
        cell is None or {"mean", "se", "n"} <= cell.keys() for t in made.tables for r in t.rows.values() for cell in r
    )
