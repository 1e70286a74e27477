"""Seeded use of torch's generators is restored, and not disturbed by another thread that seeds them too."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from synib.keys.generators import restored_generators, seeded_generators


def weights(seed):
    """What a few layers start from."""
    with seeded_generators(seed):
        return torch.cat([nn.Linear(3, 3).weight.detach().flatten() for _ in range(5)])


@pytest.fixture
def frequent_switches():
    """Threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def test_the_state_of_the_caller_is_restored():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    weights(0)
    with restored_generators():
        torch.rand(2)
    assert torch.equal(torch.rand(3), expected)


def test_a_context_may_be_inside_of_another():
    with seeded_generators(0):
        inner, after = weights(1), torch.rand(2)
    with seeded_generators(0):
        assert torch.equal(after, torch.rand(2))
    assert torch.equal(inner, weights(1))


@pytest.mark.usefixtures("frequent_switches")
def test_threads_that_seed_the_generators_at_the_same_time_draw_as_each_would_alone():
    expected = [weights(seed) for seed in range(2)]
    start = threading.Barrier(2)

    def differing(seed):
        start.wait(timeout=10)
        return sum(not torch.equal(weights(seed), expected[seed]) for _ in range(300))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(differing, range(2))) == [0, 0]
