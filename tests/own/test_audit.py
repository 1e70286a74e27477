"""The audit from end to end, on small data whose truth is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from synib.own.audit import audit
from synib.own.evidence import Bench, additive_parts, collect
from synib.own.metric import Metric
from synib.own.table import Table
from synib.report.audit import page, summary, write

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
WITHOUT_PID = pytest.mark.usefixtures("without_decomposition")
BRIEF = {"k": 3, "budget": 1, "epochs": 1, "device": "cpu", "judge": False, "tries": 1}


@pytest.fixture
def without_decomposition(monkeypatch):
    """For tests of the verdict, in which the decomposition has no part."""
    monkeypatch.setattr("synib.own.audit._decompose", lambda *_: {})


def test_synergy_is_found_and_models_rely_on_both_modalities(audited):
    verdict = audited.verdict
    assert verdict.synergy == "present"
    assert verdict.interaction.low > 0.2
    assert audited.scores["unimodal-a"].high < 0.65
    assert verdict.shortcuts == []
    assert all(lost.score.low > 0.1 for lost in verdict.reliance[audited.synib].values())
    assert verdict.detectable == {}  # nothing to ask where something was found


def test_synib_is_compared_with_its_own_control_and_with_plain_fusion(audited):
    assert (audited.synib, audited.control) == ("experts", "stacked")
    scores = audited.scores
    verdict = audited.verdict
    assert verdict.gain.value == pytest.approx(scores["experts"].value - scores["stacked"].value)
    assert verdict.gain_over_vanilla.value == pytest.approx(scores["experts"].value - scores["vanilla"].value)
    assert verdict.curve is not None
    assert verdict.recommendation.method in ("synib", "vanilla", "auto")


def test_gains_are_differences_of_the_scores_beside_them(audited):
    for name, over in audited.over_additive.items():
        assert over.value == pytest.approx(audited.scores[name].value - audited.scores["additive model"].value), name
    assert audited.scores["constant prediction"].value == pytest.approx(np.bincount(audited.table.target).max() / 160)


def test_parts_of_an_additive_network_add_up_to_its_prediction(audited):
    outcome = audited.outcome
    parts = additive_parts(outcome, "additive").sum(0)
    for fold in outcome.parts:
        whole = outcome.methods["additive"].predictions[0, fold.test]
        np.testing.assert_allclose(parts[fold.test], whole - whole.mean(0), atol=1e-5)


def test_parts_of_a_fusion_that_encodes_once_are_those_of_its_whole_predictions(audited, monkeypatch):
    outcome = audited.outcome
    fast = additive_parts(outcome, "vanilla", rows=np.arange(0, 160, 3))
    monkeypatch.setattr(type(outcome.methods["vanilla"].learners[0][0].method), "predicts_by_fusion", False)
    slow = additive_parts(outcome, "vanilla", rows=np.arange(0, 160, 3))
    np.testing.assert_allclose(fast, slow, atol=1e-5)
    assert np.isfinite(slow[:, ::3]).all()


@WITHOUT_PID
def test_one_modality_that_predicts_everything_is_no_synergy(table):
    verdict = audit(table(kind="unique"), **BRIEF | {"epochs": 8}).verdict
    assert verdict.synergy != "present"
    assert set(verdict.detectable) == {"product", "lookup", "gate"}
    assert verdict.reliance["vanilla"]["a"].score.low > 0.1
    assert verdict.reliance["vanilla"]["b"].score.high < 0.1


@WITHOUT_PID
def test_test_labels_decide_scores_alone(table):
    """With labels of the test part exchanged, models and their choices stay as they are."""
    split = np.array(["train"] * 60 + ["validation"] * 30 + ["test"] * 30)
    one = table(n=120, split=split)
    other = replace(one, target=np.where(split == "test", 1 - one.target, one.target))
    first, second = (audit(t, **BRIEF) for t in (one, other))
    for method, trained in first.outcome.methods.items():
        assert np.array_equal(trained.predictions, second.outcome.methods[method].predictions, equal_nan=True)
    assert first.scores["vanilla"].value == pytest.approx(1 - second.scores["vanilla"].value)


def product(kind="classification", rows=300):
    """Where a product of two features predicts the target, and networks that are hardly trained find nothing."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, rows, 4)).astype(np.float32)
    number = a[:, 0] * b[:, 0] + 0.3 * rng.normal(size=rows)
    target = {
        "classification": (number > 0).astype(np.int64),
        "ordinal": np.digitize(number, [-0.6, 0.6]),
        "multilabel": np.stack([number > 0, number < -0.5], 1).astype(np.int64),
        "regression": number,
    }[kind]
    return Table.from_arrays({"a": a, "b": b}, target, task=kind)


@pytest.mark.parametrize(
    ("kind", "metric", "synib"),
    [
        ("classification", "accuracy", "experts"),
        ("ordinal", "closeness", "experts"),
        ("multilabel", "accuracy", "synib-marginal"),
        ("regression", "explained_variance", "synib-marginal"),
    ],
)
def test_a_product_that_no_network_has_learned_is_found_for_every_kind_of_target(kind, metric, synib):
    result = audit(product(kind), **BRIEF)
    assert result.evidence.best.startswith(("products", "kernel"))
    assert result.verdict.synergy == "present"
    assert (result.metric.name, result.synib) == (metric, synib)
    assert not result.verdict.plain_fusion.low > 0.02
    assert bool(result.pid) == (kind in ("classification", "ordinal"))
    (models,) = [t for t in page(result, summary(result), "x", {}).tables if t.title == "Models"]
    assert models.rows["additive model"][0]["mean"] == pytest.approx(result.evidence.additive.value, abs=1e-6)


@WITHOUT_PID
def test_values_of_a_missing_modality_do_not_matter_and_of_many_rows_some_are_looked_at(monkeypatch):
    one = product()
    absent = np.arange(300) % 3 == 0
    lacks = replace(
        one,
        modalities=one.modalities | {"b": np.where(absent[:, None], np.float32(1e6), one.modalities["b"])},
        present=one.present | {"b": ~absent},
    )
    result = audit(lacks, **BRIEF)
    assert result.verdict.synergy == "present"
    monkeypatch.setattr("synib.own.evidence.ROWS", 120)
    bench = Bench(result.outcome, Metric(lacks), None)
    assert 110 <= len(bench.rows) <= 130
    assert f"{len(bench.rows)} of 300 rows" in bench.note
    assert collect(bench, ["vanilla"]).additive.n == len(bench.rows)


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


@WITHOUT_PID
def test_near_copies_count_as_one_observation():
    rng = np.random.default_rng(3)
    a, b = (np.repeat(rng.normal(size=(80, 3)), 3, 0) for _ in range(2))
    label = np.repeat(rng.integers(2, size=80), 3)
    noisy = {name: (x + 1e-5 * rng.normal(size=x.shape)).astype(np.float32) for name, x in {"a": a, "b": b}.items()}
    result = audit(Table.from_arrays(noisy, label), **BRIEF)
    assert result.verdict.synergy != "present"
    assert any("cop" in finding.words for finding in result.findings)
    assert not any("groups; none" in finding.words for finding in result.findings)  # the user named no groups
    for fold in result.parts:
        assert not set(fold.train // 3) & set(fold.test // 3)


@WITHOUT_PID
def test_few_groups_are_folds_of_their_own_and_fewer_are_refused(table):
    three = table(group=np.array(["x", "y", "z"])[np.arange(160) % 3])
    result = audit(three, **BRIEF | {"k": 5})
    assert len(result.parts) == 3
    with pytest.raises(ValueError, match="belong to 2 groups; at least 3 are needed"):
        audit(table(group=np.array(["x", "y"])[np.arange(160) % 2]), **BRIEF)


@WITHOUT_PID
def test_rare_positives_are_judged_by_average_precision():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 500, 3)).astype(np.float32)
    label = (a[:, 0] + b[:, 0] > 2.4).astype(np.int64)
    result = audit(Table.from_arrays({"a": a, "b": b}, label), **BRIEF | {"epochs": 15})
    assert result.metric.name == "average_precision"
    assert any("average precision, not accuracy" in finding.words for finding in result.findings)
    assert result.verdict.pooling.low > 0
    assert audit(Table.from_arrays({"a": a, "b": b}, label), **BRIEF | {"metric": "auc"}).verdict.metric == "auc"


def test_a_package_that_is_missing_is_missed_before_anything_is_trained(table, monkeypatch):
    def missing(*_, **__):
        raise ImportError("BROJA needs cvxpy")

    monkeypatch.setattr("synib.own.audit.pid_quantised", missing)
    monkeypatch.setattr("synib.own.audit.train", lambda *_, **__: pytest.fail("hours went by"))
    with pytest.raises(ImportError, match="cvxpy"):
        audit(table())


def test_an_audit_of_weighted_rows_is_refused(table):
    with pytest.raises(ValueError, match="An audit does not support row weights"):
        audit(table(weight=np.ones(160)))


@WITHOUT_PID
def test_progress_names_what_is_done_and_ends_with_the_work(table):
    seen = []
    audit(table(n=60), **BRIEF, on_progress=lambda done, total, what: seen.append((done / total, what)))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert seen[-1] == (1.0, "done")
    assert {"training", "interactions", "power", "reliance"} <= {what for _, what in seen}


def test_everything_is_left_behind_and_says_the_same(audited, tmp_path):
    write(audited, tmp_path, "synib audit mine.npz", {"rows": "160"}, interactive=False)
    assert {path.name for path in tmp_path.iterdir()} == {"verdict.json", "summary.csv", "report.html", "figure.svg"}
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["synergy"] == "present"
    assert set(verdict["modalities"]) == {"a", "b"}
    assert {"gain", "gain_over_vanilla", "detectable", "recommendation", "candidates"} <= set(verdict)
    text = (tmp_path / "report.html").read_text()
    assert "There is synergy" in text
    assert "synib audit mine.npz" in text
    rows = summary(audited)
    metrics = {row["metric"] for row in rows}
    assert metrics >= {"accuracy", "over_additive", "over_control", "over_vanilla", "lost_vanilla", "pid_bits"}
    result = page(audited, rows, "x", {})
    assert result.synergy == "present"
    cells = [cell for t in result.tables for r in t.rows.values() for cell in r if cell is not None]
    assert all({"mean", "se", "n"} <= cell.keys() for cell in cells)
