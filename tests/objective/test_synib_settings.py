"""What debiasing does to the loss."""

import math

import pytest
import torch

from synib import RandomMask, StandardNoise, SynIB, keys


def unsure(m):
    """A logit of known distribution once ``a`` is replaced by a standard normal number."""
    logit = 2.0 * m["a"] + m["b"]
    return torch.cat([torch.zeros_like(logit), logit], -1)


def penalty_of(draws, debias, rows=4000, value=1.0):
    x = {"a": torch.zeros(rows, 1), "b": torch.full((rows, 1), value)}
    y = torch.zeros(rows, dtype=torch.int64)
    objective = SynIB(RandomMask(1.0), StandardNoise(), draws=draws, debias=debias)
    return objective(unsure, x, y, key=keys.key(3))[1]["penalty/a"].item()


def test_debiasing_removes_most_of_the_upward_bias_of_few_draws():
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    p = (torch.sigmoid(2 * z + 1) * density).sum() / density.sum()
    truth = (math.log(2) + p * p.log() + (1 - p) * (1 - p).log()).item()
    assert penalty_of(512, False, rows=200) == pytest.approx(truth, abs=1e-3)
    plain, debiased = penalty_of(4, False), penalty_of(4, True)
    assert plain - truth > 0.02
    assert abs(debiased - truth) < 0.25 * (plain - truth)
