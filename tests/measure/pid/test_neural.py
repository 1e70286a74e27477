"""PID by networks: recalibration, and gates in noise."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from synib.measure.pid import broja, pid_neural
from synib.measure.pid.alignment import aligned_information
from synib.measure.pid.decomposition import COMPONENTS
from synib.measure.pid.neural import _aligned, _information_shares, _recalibrated
from synib.measure.stats import halves

QUICK = {
    "hidden": 32,
    "epochs": 20,
    "align_steps": 40,
    "sinkhorn_steps": 10,
    "batch": 64,
    "lr": 5e-3,
    "nulls": 0,
}


def embedded(f, seed=0, n=400):
    """Two bits, each as two noisy coordinates, and a label made of them."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, (2, n))
    x1, x2 = (bit[:, None] + 0.1 * rng.normal(size=(n, 2)) for bit in (a, b))
    return x1, x2, f(a, b)


@pytest.mark.parametrize(
    "f",
    [lambda a, b: a ^ b, lambda a, b: a & b, lambda a, b: a, lambda a, b: 2 * a + b],
    ids=["xor", "and", "x1", "both"],
)
def test_gates_in_noise_are_found_as_they_are_in_the_held_out_half(f):
    x1, x2, y = embedded(f)
    held = halves(y, 0)[1]
    counts = np.zeros((2, 2, 4))
    np.add.at(counts, tuple(bit[held].astype(int) for bit in (x1.mean(1) > 0.5, x2.mean(1) > 0.5, y)), 1)
    exact, found = broja(counts, normalise=True), pid_neural(x1, x2, y, **QUICK)
    for c in COMPONENTS:
        assert getattr(found.pid, c) == pytest.approx(getattr(exact, c), abs=0.06), c


def test_noise_is_not_above_its_null_and_xor_is():
    x1, x2, y = embedded(lambda a, b: a ^ b, n=300)
    settings = QUICK | {"nulls": 3, "align_steps": 10}
    noise = pid_neural(x1, x2, np.random.default_rng(5).permutation(y), **settings)
    told = pid_neural(x1, x2, y, **settings)
    assert all(abs(getattr(noise, c).value) < 0.05 for c in COMPONENTS)
    assert max(abs(m) for m in noise.null_mean.values()) < 0.05
    assert len(told.null) == 3
    assert len(set(told.null)) == 3
    assert told.synergy.value > 0.5 > 10 * told.null_mean["synergy"]
    assert told.p_value["synergy"] == 0.25


def test_it_follows_from_its_seed_and_leaves_the_callers_random_state_alone():
    x1, x2, y = embedded(lambda a, b: a & b, n=80)
    few = QUICK | {"epochs": 2, "align_steps": 2, "nulls": 1}
    before = torch.get_rng_state()
    found = pid_neural(x1, x2, y, **few)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(9)
    again = pid_neural(torch.tensor(1000 * x1 - 3), torch.tensor(x2), torch.tensor(y), **few)
    for c in COMPONENTS:  # scales do not matter
        assert getattr(again, c).value == pytest.approx(getattr(found, c).value, abs=1e-3)
    assert pid_neural(x1, x2, y, **few) == found
    assert pid_neural(x1, x2, y, **few, seed=1) != found


def test_a_rare_class_gets_a_sentence_and_one_just_common_enough_a_value():
    x1, x2, y = embedded(lambda a, b: a, n=200)
    few = QUICK | {"epochs": 2, "align_steps": 2, "nulls": 1}
    y[:9] = 2
    with pytest.raises(ValueError, match="Class 2 has 9 examples, but at least 10 of each class are needed"):
        pid_neural(x1, x2, y, **few)
    y[9] = 2
    for seed in range(3):
        found = pid_neural(x1, x2, y, **few, seed=seed)
        assert np.isfinite([getattr(one, c) for one in (found.pid, *found.null) for c in COMPONENTS]).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0"])
def test_the_random_state_of_a_cuda_device_is_left_alone(device):
    x1, x2, y = embedded(lambda a, b: a & b, n=80)
    few = QUICK | {"epochs": 2, "align_steps": 2}
    torch.cuda.manual_seed(5)
    torch.rand(3, device="cuda")
    before = torch.cuda.get_rng_state()
    found = pid_neural(x1, x2, y, **few, device=device)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    torch.rand(3, device="cuda")
    again = pid_neural(x1, x2, y, **few, device=device)
    assert again.synergy.value == pytest.approx(found.synergy.value, abs=1e-3)


# Its parts


def marginals(n=6, classes=3):
    p = torch.rand(2, n, classes, dtype=torch.double)
    p = p / p.sum(2, keepdim=True)
    return p[0], p[0][torch.randperm(n)]  # both have the same classes in all


def test_after_recalibration_entropy_is_cross_entropy_and_classes_are_as_frequent_as_seen():
    target = torch.randint(3, (500,))
    sure = (20 * (torch.randn(500, 3) + F.one_hot(target, 3))).double().log_softmax(1)
    held = torch.arange(100, 400)
    p = _recalibrated([sure], target, held)[held]
    entropy = -(p * p.log()).sum(1).mean().item()
    assert F.nll_loss(p.log(), target[held]).item() == pytest.approx(entropy, abs=1e-4)
    assert F.nll_loss(sure[held], target[held]).item() > entropy + 1  # it was too sure before
    torch.testing.assert_close(p.mean(0), torch.bincount(target[held]).double() / 300, atol=1e-4, rtol=0)


def test_a_network_worse_than_chance_tells_nothing():
    target = torch.arange(300) % 3 // 2
    wrong = (1.0 - F.one_hot(target, 2)).double()
    p = _recalibrated([wrong], target, torch.arange(300))
    torch.testing.assert_close(p, torch.tensor([2 / 3, 1 / 3]).double().expand(300, 2), atol=1e-6, rtol=0)


def test_shares_of_the_information_have_it_as_their_mean():
    p1, p2 = marginals(40)
    prior, target = p1.mean(0), torch.randint(3, (40,))
    assert _information_shares(p1, prior, target).mean().item() == pytest.approx(
        (p1 * (p1 / prior).log()).sum(1).mean().item()
    )
    kernel = torch.rand(3, 40, 40).double() + 0.1
    x, everything = torch.zeros(40, 1), torch.arange(40)
    shares = _aligned(lambda a, b: kernel, [x, x], [p1, p2], prior, target, everything, 50)
    expected = aligned_information(kernel, p1, p2, prior, 50).sum().item()
    assert shares.mean().item() == pytest.approx(expected)
