"""Calibration, and that the expected calibration error is that of its bins."""

import math

import numpy as np
import pytest
import torch

from synib import Bernoulli
from synib.measure import calibration, scores

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
            calibration(size * logits, y).error, abs=1e-6
        )


def test_certain_and_nearly_certain_predictions_share_the_last_bin():
    p = torch.tensor([100.0, math.log(97 / 3)] * 20)
    y = torch.tensor([0, 1] * 20)
    merged = (1 + 0.97) / 2 - 0.5  # in bins of their own: (1 + .03) / 2
    assert scores(p, y, Bernoulli(), resamples=5).ece.value == pytest.approx(merged, abs=1e-5)
    assert calibration(p, y, family=Bernoulli()).error == pytest.approx(merged)


def test_all_right_is_no_certainty_of_accuracy():
    y = torch.arange(40) % 2
    told = scores(2.0 * y - 1, y, Bernoulli(), resamples=5)
    assert (told.accuracy.low, told.accuracy.high) == pytest.approx((40 / (40 + 1.959964**2), 1.0))
    filled = [one for one in calibration(2.0 * y - 1, y, family=Bernoulli()).accuracy if one.n]
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
