"""Every metric as the mean of a score for each row, with the spread that gives its standard error."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score

from synib.measure import stats
from synib.own.metric import Metric
from synib.own.table import Table


def table(target, task="auto"):
    x = np.random.default_rng(0).normal(size=(2, len(target), 2)).astype(np.float32)
    return Table.from_arrays({"a": x[0], "b": x[1]}, target, task=task)


@pytest.fixture
def rare():
    rng = np.random.default_rng(0)
    y = (rng.random(800) < 0.05).astype(np.int64)
    return y, np.round(1.5 * y + rng.normal(size=800), 1)[:, None]  # with ties


@pytest.mark.parametrize(("name", "of"), [("average_precision", average_precision_score), ("auc", roc_auc_score)])
def test_the_mean_is_the_metric_and_the_spread_its_standard_error(rare, name, of):
    y, eta = rare
    scores = Metric(table(y), name).scores(eta, y)
    assert scores.mean() == pytest.approx(of(y, eta[:, 0]))
    rng = np.random.default_rng(1)
    resampled = [of(y[rows], eta[rows, 0]) for rows in rng.integers(len(y), size=(400, len(y)))]
    assert scores.std() / np.sqrt(len(y)) == pytest.approx(np.std(resampled), rel=0.2)


def test_several_classes_and_labels_are_averaged():
    rng = np.random.default_rng(0)
    y = rng.choice(4, 600, p=[0.5, 0.3, 0.15, 0.05])
    eta = rng.normal(size=(600, 4)) + 1.5 * np.eye(4)[y]
    p = np.exp(eta) / np.exp(eta).sum(1, keepdims=True)
    each = [average_precision_score(y == k, p[:, k]) for k in range(4)]
    assert Metric(table(y)).scores(eta, y).mean() == pytest.approx(np.mean(each))
    labels = (rng.random((600, 3)) < [0.5, 0.3, 0.05]).astype(np.int64)
    found = Metric(table(labels, "multilabel"), "auc").scores(eta[:, :3], labels)
    assert found.mean() == pytest.approx(roc_auc_score(labels, eta[:, :3], average="macro"))


def test_the_default_follows_the_target():
    rng = np.random.default_rng(0)
    assert Metric(table(rng.integers(2, size=100))).name == "accuracy"
    rare = Metric(table((np.arange(100) < 4).astype(np.int64)))
    assert rare.name == "average_precision"
    assert "4.0%" in rare.chosen
    assert Metric(table(np.arange(100) % 5, "ordinal")).name == "closeness"
    assert Metric(table(rng.normal(size=100))).name == "explained_variance"
    with pytest.raises(ValueError, match="The metric of regression must be one of explained_variance; got 'auc'"):
        Metric(table(rng.normal(size=100)), "auc")


def test_the_interval_of_explained_variance_covers_that_of_the_population():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        x = rng.exponential(size=300)  # a skewed target, whose variance is known badly
        y = x + 0.8 * rng.normal(size=300)
        scores = Metric(table(y)).scores(x[:, None], y)
        assert scores.mean() == pytest.approx(r2_score(y, x))
        interval = stats.mean(scores)
        covered += interval.low <= 1 / 1.64 <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


def test_closeness_counts_ranks_and_accuracy_labels():
    ordered = Metric(table(np.arange(90) % 3, "ordinal"))
    eta = np.log([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    assert ordered.scores(eta, np.array([0, 1, 0])).tolist() == [1.0, 1.0, 0.0]
    labels = Metric(table(np.random.default_rng(0).integers(2, size=(90, 2)), "multilabel"))
    assert labels.scores(np.array([[1.0, -1.0]]), np.array([[1, 1]])).tolist() == [0.5]


@pytest.mark.parametrize(
    ("target", "task", "metric", "chance"),
    [
        (np.arange(100) % 4 // 3, "auto", "accuracy", 0.75),
        (np.arange(100) % 4 // 3, "auto", "average_precision", 0.25),
        (np.arange(100) % 4 // 3, "auto", "auc", 0.5),
        (np.arange(100) % 4, "auto", "accuracy", 0.25),
        (np.linspace(0, 7.5, 100), "regression", None, 0.0),
    ],
)
def test_a_constant_prediction_has_the_score_of_chance(target, task, metric, chance):
    data = table(target, task)
    assert Metric(data, metric).of_chance(data.target).mean() == pytest.approx(chance)
