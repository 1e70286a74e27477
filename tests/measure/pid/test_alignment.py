"""Sinkhorn's marginals, and the least information that an alignment can come down to."""

import numpy as np
import pytest
import torch

from synib.measure.pid import broja
from synib.measure.pid.alignment import Alignment, aligned_information, sinkhorn


def marginals(n=6, classes=3):
    p = torch.rand(2, n, classes, dtype=torch.double)
    p = p / p.sum(2, keepdim=True)
    return p[0], p[0][torch.randperm(n)]  # both have the same classes in all


def test_sinkhorn_reaches_both_marginals():
    p1, p2 = marginals()
    q = sinkhorn(torch.rand(3, 6, 6, dtype=torch.double) + 0.1, p1.T, p2.T, 200)
    torch.testing.assert_close(q.sum(1), p2.T)
    torch.testing.assert_close(q.sum(2), p1.T)


def test_scaling_rows_and_columns_of_a_kernel_changes_nothing():
    p1, p2 = marginals()
    kernel = torch.rand(3, 6, 6, dtype=torch.double) + 0.1
    scaled = kernel * torch.rand(3, 6, 1) * torch.rand(3, 1, 6)
    torch.testing.assert_close(sinkhorn(scaled, p1.T, p2.T, 300), sinkhorn(kernel, p1.T, p2.T, 300))


def test_a_trained_alignment_comes_down_to_the_exact_answer_and_never_below():
    p1, p2 = marginals(4, 2)
    prior = p1.mean(0)
    independent = torch.einsum("iy,jy->ijy", p1 / 4, p2 / 4) / prior  # any distribution with these marginals will do
    exact = broja(independent.numpy(), base=np.e)
    least = exact.total - exact.synergy
    torch.manual_seed(0)
    free = torch.zeros(2, 4, 4, dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.Adam([free], 0.2)
    for _ in range(150):
        optimiser.zero_grad()
        now = aligned_information(free.exp(), p1, p2, prior, 40).sum()
        assert now.item() > least - 1e-4
        now.backward()
        optimiser.step()
    assert now.item() == pytest.approx(least, abs=2e-3)
    assert exact.synergy > 0.01  # there was something to gain


def test_aligned_information_of_independent_pairs_is_that_of_the_table():
    p1, p2 = marginals()
    prior = p1.mean(0)
    q = torch.einsum("iy,jy->ijy", p1 / 6, p2 / 6) / prior
    expected = (q * (q / q.sum(2, keepdim=True) / prior).log()).sum()
    torch.testing.assert_close(aligned_information(torch.ones(3, 6, 6).double(), p1, p2, prior, 5).sum(), expected)


def test_an_alignment_has_a_positive_kernel_of_bounded_range_for_each_class():
    kernel = Alignment((3, 2), classes=4, hidden=8, reach=2.0)(100 * torch.randn(5, 3), 100 * torch.randn(6, 2))
    assert kernel.shape == (4, 5, 6)
    assert kernel.min() >= np.exp(-2) - 1e-6
    assert kernel.max() <= np.exp(2) + 1e-4
