"""Ordinary scores."""

import math
import sys

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical
from synib.measure import scores

pytest.importorskip("torchmetrics")
N = 120


@pytest.fixture
def case():
    y = torch.randint(3, (N,))
    return torch.randn(N, 3) + 1.5 * torch.eye(3)[y], y


def test_scores_are_scikit_learns(case):
    metrics = pytest.importorskip("sklearn.metrics")
    logits, y = case
    told = scores(logits, y, resamples=20)
    labels, p = logits.argmax(1), logits.double().softmax(1)
    assert told.accuracy.value == pytest.approx(metrics.accuracy_score(y, labels))
    assert [one.value for one in told.f1] == pytest.approx(metrics.f1_score(y, labels, average=None).tolist())
    assert told.macro_f1.value == pytest.approx(metrics.f1_score(y, labels, average="macro"))
    assert told.auroc.value == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    assert told.confidence.value == pytest.approx(p.max(1).values.mean().item())
    assert told.note == ""
    for one in (told.accuracy, told.macro_f1, told.auroc, told.ece, told.confidence, *told.f1):
        assert one.low < one.value + 0.05
        assert one.low < one.high
        assert one.n == N


def test_a_bernoulli_is_scored_as_one_of_two_classes(case):
    logit, y = case[0][:, 0], case[1] == 0
    two = scores(torch.stack([torch.zeros(N), logit], 1), y.long(), Categorical(), resamples=20)
    assert scores(logit, y.long(), Bernoulli(), resamples=20) == two
    assert scores(logit[:, None].numpy(), y.numpy().astype(float)[:, None], Bernoulli(), resamples=20) == two
    assert len(two.f1) == 2


def test_a_certain_model_that_is_half_right_has_an_ece_of_one_half():
    y = torch.arange(40) % 2
    told = scores(torch.full((40,), 50.0), y, Bernoulli(), resamples=20)
    assert told.ece.value == pytest.approx(0.5, abs=1e-5)
    assert told.confidence.value == pytest.approx(1.0)
    assert told.f1[0].value == 0.0
    assert told.macro_f1.value == pytest.approx(1 / 3)


def test_an_absent_class_gives_nan_with_a_reason(case):
    logits, _ = case
    y = torch.arange(N) % 2
    told = scores(logits, y, resamples=5)
    assert math.isnan(told.auroc.value)
    assert told.note == "AUROC is NaN: class 2 has no examples."
    assert told.note in str(told)
    assert told.f1[2].value == 0.0  # predicted where it never was
    never = logits.clone()
    never[:, 2] = -50.0
    told = scores(never, y, resamples=5)
    assert math.isnan(told.f1[2].value)
    assert told.macro_f1.value == pytest.approx((told.f1[0].value + told.f1[1].value) / 2)


def test_a_class_so_rare_that_resamples_lack_it_still_has_an_interval():
    y = torch.zeros(30, dtype=torch.long)
    y[0] = 1
    logits = torch.randn(30, 2)
    told = scores(logits, y, resamples=40)
    assert 0 <= told.auroc.low <= told.auroc.value <= told.auroc.high <= 1
    assert not math.isnan(told.f1[1].low)


def test_an_ece_lies_in_its_interval_which_often_reaches_zero_for_a_calibrated_model():
    """Percentiles of resamples, which add noise to noise, never reach it."""
    inside = []
    for s in range(40):
        rng = np.random.default_rng(s)
        p = torch.from_numpy(rng.uniform(0.05, 0.95, 200))
        y = torch.from_numpy((rng.random(200) < p.numpy()).astype(int))
        one = scores(torch.logit(p), y, Bernoulli(), resamples=40).ece
        assert 0 <= one.low <= one.value <= one.high <= 1
        inside.append(one.low == 0)
    assert np.mean(inside) > 0.4


def test_the_ece_of_a_model_that_is_far_off_is_known_well():
    y = torch.arange(400) % 2
    one = scores(torch.full((400,), 50.0), y, Bernoulli(), resamples=100).ece
    assert one.high - one.low == pytest.approx(2 * 1.96 * (0.25 / 400) ** 0.5, rel=0.3)
    assert one.low < 0.5 < one.high


def test_without_torchmetrics_a_sentence_says_what_to_install(monkeypatch, case):
    monkeypatch.setitem(sys.modules, "torchmetrics.functional", None)
    with pytest.raises(ImportError, match=r"Scores need torchmetrics: pip install 'synib\[audit\]'"):
        scores(*case)
