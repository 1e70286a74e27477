"""Spurious XOR, as App. "Spurious XOR" of the paper specifies it."""

import pytest
import torch

from synib.data.dataset import generator
from synib.studies.spurious_xor.data import spurious_xor

N = 20_000  # so that a correlation of nothing stays below 4 / sqrt(N) = 0.028


@pytest.fixture(scope="module")
def large():
    return spurious_xor(0.6, seed=3, train=N, validation=50, test=N)


def sign(bits):
    return 2.0 * bits - 1.0


def bit(split, name):
    """The bit a modality's signal shows."""
    return (split.modalities[name][:, :4].mean(1) > 0).long()


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


def test_the_label_is_the_xor_of_the_bits_that_the_signals_show(large):
    for split in (large.train, large.validation, large.test):
        assert torch.equal(bit(split, "x1") ^ bit(split, "x2"), split.target)


def test_bits_and_label_are_fair_and_pairwise_independent(large):
    b1, b2, y = bit(large.train, "x1"), bit(large.train, "x2"), large.train.target
    for one in (b1, b2, y):
        assert one.double().mean().item() == pytest.approx(0.5, abs=0.02)
    for a, b in ((b1, b2), (b1, y), (b2, y)):
        assert abs(correlation(a, b)) < 0.03


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


def test_a_seed_gives_the_same_data_again_and_another_seed_other_data():
    first, again, other = (spurious_xor(0.6, seed=s, test=100) for s in (1, 1, 2))
    for part in ("train", "validation", "test"):
        a, b, c = (getattr(d, part) for d in (first, again, other))
        assert torch.equal(a.target, b.target)
        for name in ("x1", "x2"):
            assert torch.equal(a.modalities[name], b.modalities[name])
            assert not torch.equal(a.modalities[name], c.modalities[name])


def test_data_neither_reads_nor_moves_torchs_own_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = spurious_xor(test=10)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(first.train.modalities["x1"], spurious_xor(test=10).train.modalities["x1"])


def test_splits_have_streams_of_their_own():
    data = spurious_xor(0.6, train=50, validation=50, test=50)
    x = [split.modalities["x2"] for split in (data.train, data.validation, data.test)]
    assert not any(torch.equal(a, b) for a, b in ((x[0], x[1]), (x[0], x[2]), (x[1], x[2])))
    assert max(abs(correlation(x[i].flatten(), x[j].flatten())) for i, j in ((0, 1), (0, 2), (1, 2))) < 0.1


def test_the_size_of_one_split_does_not_change_another():
    small, large = spurious_xor(0.6, train=10, test=60), spurious_xor(0.6, train=300, test=60)
    assert torch.equal(small.test.modalities["x1"], large.test.modalities["x1"])
    assert torch.equal(small.validation.target, large.validation.target)


def test_beta_changes_the_training_shortcut_and_nothing_of_the_test_set():
    weak, strong = spurious_xor(0.2, test=200), spurious_xor(2.0, test=200)
    assert torch.equal(weak.test.target, strong.test.target)
    for name in ("x1", "x2"):
        assert torch.equal(weak.test.modalities[name], strong.test.modalities[name])
    assert torch.equal(weak.train.modalities["x2"], strong.train.modalities["x2"])
    assert not torch.equal(weak.train.modalities["x1"][:, 4:10], strong.train.modalities["x1"][:, 4:10])
    assert torch.equal(weak.train.modalities["x1"][:, 10:], strong.train.modalities["x1"][:, 10:])
