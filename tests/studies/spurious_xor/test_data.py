"""Spurious XOR, as App. "Spurious XOR" of the paper specifies it, and the parity of more than two bits."""

import itertools

import pytest
import torch

from synib.data.dataset import generator
from synib.studies.spurious_xor.data import parity, spurious_xor

N = 20_000  # so that a correlation of nothing stays below 4 / sqrt(N) = 0.028


def sign(bits):
    return 2.0 * bits - 1.0


def bits(split):
    """The bits that the signals of the modalities show."""
    return torch.stack([(x[:, :4].mean(1) > 0).long() for x in split.modalities.values()])


def correlation(a, b):
    return torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1].item()


def test_the_sizes_and_blocks_are_the_papers():
    data = spurious_xor()
    assert [len(data.train), len(data.validation), len(data.test)] == [300, 120, 30_000]
    assert data.widths == {"x1": 64, "x2": 64}
    assert data.blocks == {
        "x1": {"signal": range(4), "shortcut": range(4, 10), "noise": range(10, 64)},
        "x2": {"signal": range(4), "noise": range(4, 64)},
    }


def test_parity_has_three_modalities_and_1000_training_examples_by_default():
    data = parity(test=10)
    assert [len(data.train), len(data.validation), len(data.test)] == [1000, 120, 10]
    assert data.widths == {"x1": 64, "x2": 64, "x3": 64}


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_label_is_the_parity_of_fair_bits_and_no_proper_subset_of_them_tells_it(n):
    data = parity(n, 0.6, seed=3, train=N, validation=50, test=200)
    for split in (data.train, data.validation, data.test):
        assert torch.equal(bits(split).sum(0) % 2, split.target)
    shown, label = sign(bits(data.train)), sign(data.train.target)
    assert max(shown.mean(1).abs().max(), label.mean().abs()) < 0.04
    for size in range(1, n):
        for chosen in itertools.combinations(range(n), size):
            assert abs(correlation(shown[list(chosen)].prod(0), label)) < 0.03
    assert all(abs(correlation(a, b)) < 0.03 for a, b in itertools.combinations(shown, 2))


def test_the_shortcut_is_in_the_first_modality_only():
    data = parity(3, 1.0, seed=1, train=8000, validation=1, test=1)
    label = sign(data.train.target)[:, None]
    assert torch.allclose(data.train.modalities["x1"][:, 4:10], 1.3 * label.expand(-1, 6))
    for name in ("x2", "x3"):
        assert (data.train.modalities[name][:, 4:] * label).mean(0).abs().max() < 0.06
        assert "shortcut" not in data.blocks[name]
    assert "shortcut" in data.blocks["x1"]


@pytest.mark.parametrize("beta", [0.6, 2.0])
def test_the_shortcut_has_mean_1_3_beta_towards_the_label_and_the_remaining_spread(beta):
    data = spurious_xor(beta, train=N, validation=N, test=1)
    for split in (data.train, data.validation):
        shortcut = split.modalities["x1"][:, 4:10] * sign(split.target)[:, None]
        spread = 1.3 * max(0.0, 1 - beta**2) ** 0.5
        assert torch.allclose(shortcut.mean(0), torch.full((6,), 1.3 * beta), atol=0.04)
        assert torch.allclose(shortcut.std(0), torch.full((6,), spread), atol=0.03)


@pytest.mark.parametrize("beta", [0.6, 2.0])
def test_an_independent_test_shortcut_is_pure_noise(beta):
    test = spurious_xor(beta, train=1, validation=1, test=N).test
    shortcut = test.modalities["x1"][:, 4:10]
    assert shortcut.mean(0).abs().max() < 0.04
    assert torch.allclose(shortcut.std(0), torch.full((6,), 1.3), atol=0.04)
    assert max(abs(correlation(shortcut[:, j], test.target)) for j in range(6)) < 0.03


def test_a_constant_test_shortcut_always_says_label_0():
    test = spurious_xor(1.0, train=1, validation=1, test=500, test_shortcut="constant").test
    assert torch.allclose(test.modalities["x1"][:, 4:10], torch.tensor(-1.3))
    weaker = spurious_xor(0.6, train=1, validation=1, test=N, test_shortcut="constant").test.modalities["x1"][:, 4:10]
    assert torch.allclose(weaker.mean(0), torch.full((6,), -1.3 * 0.6), atol=0.04)
    assert torch.allclose(weaker.std(0), torch.full((6,), 1.3 * 0.8), atol=0.04)


def test_the_two_test_shortcuts_differ_in_the_shortcut_only():
    one, other = (spurious_xor(1.0, test=200, test_shortcut=kind) for kind in ("independent", "constant"))
    assert torch.equal(one.train.modalities["x1"], other.train.modalities["x1"])
    assert torch.equal(one.test.modalities["x2"], other.test.modalities["x2"])
    a, b = one.test.modalities["x1"], other.test.modalities["x1"]
    differing = (a != b).any(0)
    assert differing[4:10].all()
    assert not differing[:4].any()
    assert not differing[10:].any()


def test_draws_follow_the_documented_order_from_one_stream_for_each_split():
    """An implementation of its own: b1, b2, noise of X1, noise of X2, signal of X1, signal of X2, shortcut."""
    beta, n = 0.8, 37
    g = generator(5, "parity-2-train")
    b1, b2 = torch.randint(2, (n,), generator=g), torch.randint(2, (n,), generator=g)
    x1, x2 = torch.randn(n, 64, generator=g), torch.randn(n, 64, generator=g)
    x1[:, :4] = 2.2 * sign(b1)[:, None] + 0.55 * torch.randn(n, 4, generator=g)
    x2[:, :4] = 2.2 * sign(b2)[:, None] + 0.55 * torch.randn(n, 4, generator=g)
    y = b1 ^ b2
    x1[:, 4:10] = 1.3 * (beta * sign(y)[:, None] + 0.6 * torch.randn(n, 6, generator=g))

    train = spurious_xor(beta, seed=5, train=n, validation=1, test=1).train
    assert torch.equal(train.target, y)
    assert torch.allclose(train.modalities["x1"], x1)
    assert torch.allclose(train.modalities["x2"], x2)


def test_a_few_values_stay_what_they_were():
    train = spurious_xor(0.8, seed=0, test=1).train
    assert train.target[:12].tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0]
    assert train.modalities["x1"][0, [0, 4, 63]].tolist() == pytest.approx([1.656601, -0.814111, 0.468972], abs=1e-5)


def test_beta_changes_the_training_shortcut_and_nothing_of_the_test_set():
    weak, strong = spurious_xor(0.2, test=200), spurious_xor(2.0, test=200)
    assert torch.equal(weak.test.target, strong.test.target)
    for name in ("x1", "x2"):
        assert torch.equal(weak.test.modalities[name], strong.test.modalities[name])
    assert torch.equal(weak.train.modalities["x2"], strong.train.modalities["x2"])
    assert not torch.equal(weak.train.modalities["x1"][:, 4:10], strong.train.modalities["x1"][:, 4:10])
    assert torch.equal(weak.train.modalities["x1"][:, 10:], strong.train.modalities["x1"][:, 10:])
