"""Calibration, and that the expected calibration error is that of its bins."""

import math

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical, Gaussian
from synib.measure import calibration, scores, temperature

pytest.importorskip("torchmetrics")
N = 120


@pytest.fixture
def case():
    y = torch.randint(3, (N,))
    return torch.randn(N, 3) + 1.5 * torch.eye(3)[y], y


def test_ece_is_that_of_the_calibration_bins_even_where_a_model_is_certain(case):
    logits, y = case
    for size in (1.0, 100.0):
        assert scores(size * logits, y, resamples=5).ece.value == pytest.approx(
            calibration(size * logits, y, resamples=5).error, abs=1e-6
        )


def test_certain_and_nearly_certain_predictions_share_the_last_bin():
    p = torch.tensor([100.0, math.log(97 / 3)] * 20)
    y = torch.tensor([0, 1] * 20)
    merged = (1 + 0.97) / 2 - 0.5  # in bins of their own: (1 + .03) / 2
    assert scores(p, y, Bernoulli(), resamples=5).ece.value == pytest.approx(merged, abs=1e-5)
    assert calibration(p, y, family=Bernoulli(), resamples=5).error == pytest.approx(merged)


def test_all_right_is_no_certainty_of_accuracy():
    y = torch.arange(40) % 2
    told = scores(2.0 * y - 1, y, Bernoulli(), resamples=5)
    assert (told.accuracy.low, told.accuracy.high) == pytest.approx((0.025 ** (1 / 40), 1.0))
    filled = [one for one in calibration(2.0 * y - 1, y, family=Bernoulli(), resamples=5).accuracy if one.n]
    assert filled == [told.accuracy]


def test_bins_hold_what_lies_in_them():
    p = torch.tensor([0.50, 0.60, 0.61, 0.69, 0.95], dtype=torch.float64)  # a half belongs to the bin it begins
    p[1] -= 1e-9
    told = calibration(torch.logit(p), torch.tensor([0, 0, 1, 1, 1]), bins=10, family=Bernoulli())
    assert told.count.tolist() == [0, 0, 0, 0, 0, 2, 2, 0, 0, 1]
    assert told.confidence[[5, 6, 9]] == pytest.approx([0.55, 0.65, 0.95], abs=1e-6)
    assert [told.accuracy[b].value for b in (5, 6, 9)] == [0.5, 1.0, 1.0]
    assert math.isnan(told.confidence[0])
    assert math.isnan(told.accuracy[0].value)
    assert told.error == pytest.approx((2 * 0.05 + 2 * 0.35 + 0.05) / 5, abs=1e-6)
    assert told.edges.tolist() == pytest.approx(np.linspace(0, 1, 11).tolist())
    assert str(told).count("\n") == 3


def test_a_calibrated_model_has_a_small_error_and_bins_on_the_diagonal():
    p = torch.rand(4000)
    told = calibration(torch.logit(p), (torch.rand(4000) < p).long(), family=Bernoulli(), resamples=200)
    assert told.error < 0.04
    inside = [
        a.low - 0.02 <= c <= a.high + 0.02
        for a, c, n in zip(told.accuracy, told.confidence, told.count, strict=True)
        if n
    ]
    assert all(inside)


def test_no_bins_are_refused(case):
    with pytest.raises(ValueError, match="bins is a whole number of at least 1; got 0"):
        calibration(*case, 0)


def sampled(family, n=20_000):
    """Logits, and targets drawn from just what they say."""
    if isinstance(family, Bernoulli):
        logits = 2 * torch.randn(n, 1)
        return logits, (torch.rand(n, 1) < logits.sigmoid()).long()[:, 0]
    logits = 2 * torch.randn(n, 3)
    return logits, torch.multinomial(logits.softmax(1), 1)[:, 0]


FAMILIES = pytest.mark.parametrize("family", [Bernoulli(), Categorical()], ids=str)


@FAMILIES
def test_calibrated_logits_have_temperature_1_to_sampling_error(family):
    assert temperature(*sampled(family), family) == pytest.approx(1, abs=0.05)


@FAMILIES
@pytest.mark.parametrize("t", [0.1, 0.5, 3.0, 20.0])
def test_a_known_temperature_is_found_again(family, t):
    logits, y = sampled(family)
    own = temperature(logits, y, family)
    assert temperature(t * logits, y, family) == pytest.approx(t * own, rel=1e-3)
    assert temperature((t * logits).requires_grad_(), y, family) == pytest.approx(t, rel=0.05)


@FAMILIES
@pytest.mark.parametrize("t", [0.2, 1.0, 5.0])
def test_no_other_temperature_has_a_smaller_log_loss(family, t):
    logits, y = sampled(family, 500)
    logits = (t * logits).double()
    found = temperature(logits, y, family)

    def loss(at):
        return family.nll(logits / at, y).mean().item()

    assert all(loss(found) <= loss(at) + 1e-9 for at in (1.0, 0.9 * found, 1.1 * found, *np.logspace(-2, 2, 20)))
    if t != 1:
        assert loss(found) < loss(1.0) - 1e-3


@FAMILIES
def test_recalibrated_predictions_are_the_same_and_have_a_smaller_error(family):
    logits, y = sampled(family, 4000)
    t = temperature(4 * logits[:2000], y[:2000], family)
    sure, calibrated = (x[2000:] for x in (4 * logits, 4 * logits / t))
    before, after = (calibration(x, y[2000:], family=family, resamples=2) for x in (sure, calibrated))
    assert after.error < 0.5 * before.error
    right = [sum(a.value * n for a, n in zip(c.accuracy, c.count, strict=True) if n) for c in (before, after)]
    assert right[0] == pytest.approx(right[1])


def test_where_all_is_right_the_temperature_is_small_and_still_a_number():
    y = torch.arange(40) % 2
    assert 0 < temperature(2.0 * y - 1, y, Bernoulli()) < 0.1
    assert 10 < temperature(1.0 - 2 * y, y, Bernoulli()) < 1000


@pytest.mark.parametrize(
    ("logits", "target", "family", "sentence"),
    [
        (torch.zeros(4, 2), torch.zeros(4), Gaussian(1), "family is Bernoulli.* or Categorical.*; got Gaussian"),
        (torch.zeros(4), torch.zeros(3), Bernoulli(), "one target for each of 4 examples"),
        (torch.zeros(4), torch.full((4,), 2), Bernoulli(), "0 or 1; got 2"),
        (torch.zeros(4, 3), torch.zeros(3, dtype=torch.long), Categorical(), "4 whole class numbers"),
        (torch.zeros(4, 3), torch.full((4,), 3), Categorical(), "classes 0 to 2; got 3"),
    ],
)
def test_what_has_no_temperature_is_refused(logits, target, family, sentence):
    with pytest.raises(ValueError, match=sentence):
        temperature(logits, target, family)
