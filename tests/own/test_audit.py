"""The audit from end to end, on small data whose truth is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.gains import products_gain
from synib.own.planted import Planted
from synib.own.table import Table
from synib.report.audit import page, summary, write

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
BRIEF = {"k": 3, "budget": 1, "epochs": 1, "device": "cpu"}


def test_synergy_is_found_and_models_rely_on_both_modalities(audited):
    verdict = audited.verdict
    assert verdict.synergy == "present"
    assert verdict.interaction.low > 0.2
    assert audited.scores["unimodal-a"].high < 0.65
    assert verdict.shortcuts == []
    assert all(lost.accuracy.low > 0.1 for lost in verdict.reliance[audited.synib].values())


def test_one_modality_that_predicts_everything_is_no_synergy(table):
    verdict = audit(table(kind="unique"), k=3, budget=1, epochs=8, device="cpu").verdict
    assert verdict.synergy != "present"
    assert verdict.reliance["vanilla"]["a"].accuracy.low > 0.1
    assert verdict.reliance["vanilla"]["b"].accuracy.high < 0.1


def test_test_labels_decide_scores_alone(table):
    """With labels of the test part exchanged, models and their choices stay as they are."""
    split = np.array(["train"] * 60 + ["validation"] * 30 + ["test"] * 30)
    one = table(n=120, split=split)
    other = replace(one, target=np.where(split == "test", 1 - one.target, one.target))
    first, second = (audit(t, **BRIEF) for t in (one, other))
    for method, trained in first.outcome.methods.items():
        assert np.array_equal(trained.predictions, second.outcome.methods[method].predictions, equal_nan=True)
    assert first.scores["vanilla"].value == pytest.approx(1 - second.scores["vanilla"].value)


def product(classes=("no", "yes"), rows=300):
    """Where a product of two features predicts the target, and networks that are hardly trained find nothing."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, rows, 4)).astype(np.float32)
    number = a[:, 0] * b[:, 0] + 0.5 * rng.normal(size=rows)
    present = np.ones(rows, dtype=bool)
    y = (number > 0).astype(np.int64) if classes else number
    return Table({"a": a, "b": b}, {"a": present, "b": present}, y, classes)


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
def test_a_product_that_no_model_has_learned_is_found_all_the_same(classes):
    result = audit(product(classes), **BRIEF)
    assert result.best == "products"
    assert result.verdict.synergy == "present"
    assert result.verdict.interaction == result.interactions["products"].lead
    assert result.scores["products"].low > result.scores["vanilla"].high
    assert not result.verdict.found.low > 0.02
    assert bool(result.pid) == bool(classes)
    assert (result.measure, result.synib) == (
        ("accuracy", "experts") if classes else ("explained variance", "synib-marginal")
    )
    (models,) = [t for t in page(result, summary(result), "x", {}).tables if t.title == "Models"]
    assert models.rows["products"][0]["mean"] == pytest.approx(result.scores["products"].value, abs=1e-6)


def test_products_are_of_rows_that_have_both_and_of_some_where_there_are_many(monkeypatch):
    one = product()
    absent = np.arange(300) % 3 == 0
    lacks = replace(
        one,
        modalities=one.modalities | {"b": np.where(absent[:, None], np.float32(1e6), one.modalities["b"])},
        present=one.present | {"b": ~absent},
    )
    result = audit(lacks, **BRIEF)
    assert result.interactions["products"].evidence.low > 0  # the values of absent rows do not matter
    monkeypatch.setattr("synib.own.gains.ROWS", 120)
    fewer = products_gain(result.outcome)
    assert fewer.evidence.n == 120
    assert np.isfinite(fewer.additive).sum() == 120


def test_of_three_modalities_each_is_decomposed_beside_the_others_joined(table, monkeypatch):
    monkeypatch.setattr("synib.own.audit.PID_ROWS", 150)
    one = table()
    noise = np.random.default_rng(9).normal(size=(160, 2)).astype(np.float32)
    three = replace(one, modalities=one.modalities | {"c": noise}, present=one.present | {"c": one.present["a"]})
    result = audit(three, **BRIEF)
    assert list(result.pid) == ["a", "b", "c"]
    assert result.pid["a"].synergy.n == 150
    parts = {row["method"]: row["mean"] for row in summary(result) if row["metric"] == "pid_bits"}
    assert len(parts) == 12
    beyond = {name: pid.synergy.value - max(null.synergy for null in pid.null) for name, pid in result.pid.items()}
    assert min(beyond["a"], beyond["b"]) > 0.05 > 0 > beyond["c"]
    assert parts["c and the others together"] == result.pid["c"].synergy.value
    (shown,) = [t for t in page(result, summary(result), "synib audit mine.npz", {}).tables if "BROJA" in t.title]
    assert "the others without c" in shown.rows


@pytest.mark.parametrize(("tries", "synergy"), [(Planted(8, 8), "absent"), (Planted(0, 3, ("a", "b")), "unclear")])
def test_no_synergy_is_an_answer_only_where_some_would_have_been_detected(table, tries, synergy, monkeypatch):
    monkeypatch.setattr("synib.own.audit.planted", lambda *_: tries)
    monkeypatch.setattr("synib.own.audit.decide", lambda *_: "absent")
    verdict = audit(table(n=60), **BRIEF).verdict
    assert verdict.synergy == synergy
    assert verdict.planted == tries


def test_a_package_that_is_missing_is_missed_before_anything_is_trained(table, monkeypatch):
    def missing(*_, **__):
        raise ImportError("BROJA needs cvxpy")

    monkeypatch.setattr("synib.own.audit.pid_quantised", missing)
    monkeypatch.setattr("synib.own.audit.train", lambda *_, **__: pytest.fail("hours went by"))
    with pytest.raises(ImportError, match="cvxpy"):
        audit(table())


def test_an_audit_of_weighted_rows_is_refused(table):
    with pytest.raises(ValueError, match="An audit counts every row alike"):
        audit(table(weight=np.ones(160)))


def test_everything_is_left_behind_and_says_the_same(audited, tmp_path):
    write(audited, tmp_path, "synib audit mine.npz", {"rows": "160"}, interactive=False)
    assert {path.name for path in tmp_path.iterdir()} == {"verdict.json", "summary.csv", "report.html", "figure.svg"}
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["synergy"] == "present"
    assert set(verdict["modalities"]) == {"a", "b"}
    text = (tmp_path / "report.html").read_text()
    assert "There is synergy" in text
    assert "synib audit mine.npz" in text
    rows = summary(audited)
    assert {row["metric"] for row in rows} >= {"accuracy", "over_additive", "over_vanilla", "lost_vanilla", "pid_bits"}
    made = page(audited, rows, "x", {})
    assert made.synergy == "present"
    assert all(
        cell is None or {"mean", "se", "n"} <= cell.keys() for t in made.tables for r in t.rows.values() for cell in r
    )
