"""Temperature: the best one is found, predictions keep their order, and few rows never make a model certain."""

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical, Gaussian, MultiLabel
from synib.measure import calibration, temperature
from synib.measure.stats import tempered

FAMILIES = pytest.mark.parametrize("family", [Bernoulli(), Categorical()], ids=str)


def sampled(family, n=4000):
    """Logits, and targets drawn from just these probabilities."""
    if isinstance(family, Bernoulli):
        logits = 2 * torch.randn(n, 1)
        return logits, (torch.rand(n, 1) < logits.sigmoid()).long()[:, 0]
    logits = 2 * torch.randn(n, 3)
    return logits, torch.multinomial(logits.softmax(1), 1)[:, 0]


@FAMILIES
@pytest.mark.parametrize("t", [0.1, 1.0, 20.0])
def test_a_known_temperature_is_found_and_no_other_has_a_smaller_log_loss(family, t):
    logits, y = sampled(family)
    scaled = (t * logits).double()
    found = temperature(scaled, y, family)
    assert found == pytest.approx(t, rel=0.1)
    assert temperature(scaled.clone().requires_grad_(), y, family) == found

    def loss(at):
        return family.nll(scaled / at, y).mean().item()

    assert all(loss(found) <= loss(at) + 1e-9 for at in (1.0, 0.9 * found, 1.1 * found, *np.logspace(-2, 2, 20)))


@FAMILIES
def test_recalibrated_predictions_are_the_same_and_have_a_smaller_error(family):
    logits, y = sampled(family)
    t = temperature(4 * logits[:2000], y[:2000], family)
    sure, calibrated = (x[2000:] for x in (4 * logits, 4 * logits / t))
    before, after = (calibration(x, y[2000:], family=family) for x in (sure, calibrated))
    assert after.error < 0.5 * before.error
    right = [sum(a.value * n for a, n in zip(c.accuracy, c.count, strict=True) if n) for c in (before, after)]
    assert right[0] == pytest.approx(right[1])


@pytest.mark.parametrize("family", [Bernoulli(), Categorical(), Gaussian()], ids=str)
def test_a_row_of_weight_2_counts_as_one_that_is_there_twice(family):
    parameters, y = sampled(family, 200) if family.discrete else (torch.randn(200, 2), torch.randn(200, 1))
    counts = torch.arange(200) % 3
    weighted = temperature(parameters, y, family, sample_weight=counts.double())
    assert weighted == pytest.approx(
        temperature(parameters.repeat_interleave(counts, 0), y.repeat_interleave(counts, 0), family), rel=1e-3
    )
    assert temperature(parameters, y, family, 1.0, 7.0 * torch.ones(200)) == pytest.approx(
        temperature(parameters, y, family, 1.0), rel=1e-3
    )


def test_where_all_is_right_the_temperature_is_small_and_still_a_number():
    y = torch.arange(40) % 2
    assert 0 < temperature(2.0 * y - 1, y, Bernoulli()) < 0.1
    assert 10 < temperature(1.0 - 2 * y, y, Bernoulli()) < 1000


def test_with_a_pseudocount_n_right_rows_allow_a_confidence_of_about_1_minus_1_over_n():
    y = torch.arange(40) % 2
    sure = torch.where(y == 1, 9.0, -9.0)[:, None]
    t = temperature(sure, y, Bernoulli(), pseudocount=1.0)
    assert float((sure / t).abs().max().sigmoid()) == pytest.approx(1 - 1 / 42, abs=1e-3)
    both = torch.cat([torch.zeros_like(sure), sure], 1)
    assert temperature(both, y, Categorical(), pseudocount=1.0) == pytest.approx(t, rel=1e-3)


def test_the_temperature_of_a_number_multiplies_its_standard_deviation():
    mean = torch.randn(4000, 1)
    predicted = torch.cat([mean, torch.zeros_like(mean)], 1)
    t = temperature(predicted, mean + 2 * torch.randn(4000, 1), Gaussian(), pseudocount=1.0)
    assert t == pytest.approx(2, rel=0.05)
    after = tempered(Gaussian(), predicted.numpy(), t)
    assert np.allclose(np.exp(after[:, 1] / 2), t)
    assert np.array_equal(after[:, 0], predicted[:, 0])


def test_labels_have_one_temperature_found_by_the_log_loss_of_all():
    torch.manual_seed(0)
    logits = 2 * torch.randn(4000, 3, dtype=torch.float64)
    y = torch.bernoulli(logits.sigmoid())
    assert temperature(3 * logits, y, MultiLabel()) == pytest.approx(3, rel=0.1)
    assert temperature(3 * logits, y, MultiLabel(), pseudocount=1.0) > temperature(3 * logits, y, MultiLabel())
    assert np.array_equal(tempered(MultiLabel(), logits.numpy(), 2.0), logits.numpy() / 2)
