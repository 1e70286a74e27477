"""PID-controlled XOR, as App. "PID-Controlled XOR" of the paper specifies it."""

import pytest
import torch

from synib.data.dataset import generator
from synib.studies.pid_xor.data import _draw, _projections, pid_xor  # the raw draws, whose scale standardisation hides

BLOCKS = {"unique": slice(0, 6), "redundant": slice(6, 12), "synergy": slice(12, 18), "noise": slice(18, 32)}
PURE = {"U1": (1, 0, 0, 0), "U2": (0, 1, 0, 0), "R": (0, 0, 1, 0), "S": (0, 0, 0, 1)}
# Which block each source writes, by modality.
WRITTEN = {
    "U1": {("x1", "unique")},
    "U2": {("x2", "unique")},
    "R": {("x1", "redundant"), ("x2", "redundant")},
    "S": {("x1", "synergy"), ("x2", "synergy")},
}
EVERYWHERE = [(name, block) for name in ("x1", "x2") for block in BLOCKS]


@pytest.fixture(scope="module")
def pure():
    """For each source, data in which every label comes from it."""
    return {source: pid_xor(*mixture, train=3000, validation=10, test=4000) for source, mixture in PURE.items()}


def block(split, where):
    name, kind = where
    return split.modalities[name][:, BLOCKS[kind]].double()


def rank(x):
    """How many directions a centred block fills."""
    values = torch.linalg.svdvals(x - x.mean(0))
    return int((values > 1e-3 * values[0]).sum())


def products(split):
    """All products of a coordinate of one synergy block with one of the other: an XOR is linear in them."""
    a, b = block(split, ("x1", "synergy")), block(split, ("x2", "synergy"))
    return (a[:, :, None] * b[:, None, :]).flatten(1)


def decoder(features, target):
    """Ridge regression: a written block has fewer directions than coordinates."""
    x = with_ones(features)
    ridge = 0.01 * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(x.T @ x + ridge, x.T @ (2.0 * target[:, None].double() - 1.0))


def accuracy(weights, features, target):
    return ((with_ones(features) @ weights).flatten().gt(0).long() == target).double().mean().item()


def with_ones(features):
    return torch.cat([features, torch.ones(len(features), 1, dtype=features.dtype)], 1)


def test_the_sizes_and_blocks_are_the_papers():
    data = pid_xor()
    assert [len(data.train), len(data.validation), len(data.test)] == [1800, 200, 4000]
    assert data.widths == {"x1": 32, "x2": 32}
    for blocks in data.blocks.values():
        assert {name: slice(r.start, r.stop) for name, r in blocks.items()} == BLOCKS


@pytest.mark.parametrize("source", PURE)
def test_the_active_source_writes_its_block_and_the_rest_stays_standard_noise(pure, source):
    test = pure[source].test
    for where in EVERYWHERE:
        x = block(test, where)
        if where in WRITTEN[source]:
            assert rank(x) == 4  # a latent of four numbers, projected
        else:
            assert rank(x) == x.shape[1]
            # Noise is independent: its correlation matrix is the identity, up to what 4000 examples leave open.
            assert (torch.corrcoef(x.T) - torch.eye(x.shape[1])).abs().max() < 0.08


@pytest.mark.parametrize("source", PURE)
def test_only_a_written_block_of_a_unique_or_redundant_source_says_the_label_by_itself(pure, source):
    data = pure[source]
    for where in EVERYWHERE:
        weights = decoder(block(data.train, where), data.train.target)
        found = accuracy(weights, block(data.test, where), data.test.target)
        if where in WRITTEN[source] and source != "S":
            assert found > 0.97
        else:
            assert found == pytest.approx(0.5, abs=0.04)


def test_a_synergistic_label_is_the_xor_of_what_the_two_blocks_show(pure):
    data = pure["S"]
    together = accuracy(decoder(products(data.train), data.train.target), products(data.test), data.test.target)
    assert together > 0.97


def test_redundant_blocks_share_one_latent_and_are_not_identical(pure):
    x1, x2 = (block(pure["R"].test, (name, "redundant")) for name in ("x1", "x2"))
    assert rank(torch.cat([x1, x2], 1)) == 4
    assert torch.corrcoef(torch.cat([x1, x2], 1).T)[:6, 6:].abs().max() > 0.5
    assert not torch.allclose(x1, x2)


def test_synergistic_blocks_have_latents_of_their_own(pure):
    ones = pure["S"].test.target == 1  # where the bits are opposite: one shared latent would fill four directions
    x1, x2 = (block(pure["S"].test, (name, "synergy"))[ones] for name in ("x1", "x2"))
    assert rank(torch.cat([x1, x2], 1)) == 8
    x1, x2 = (block(pure["S"].test, (name, "synergy")) for name in ("x1", "x2"))
    assert torch.corrcoef(torch.cat([x1, x2], 1).T)[:6, 6:].abs().max() < 0.08


def test_latents_are_aligned_in_sign_and_three_wide():
    """z = (2b - 1) |N(0, 9 I)|: by the projection, all four numbers of an example have the label's sign."""
    projections = _projections(0)
    raw = _draw(4000, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), projections, torch.Generator().manual_seed(0))
    z = raw.modalities["x1"][:, :6] @ torch.linalg.pinv(projections["unique", 0][:6]).T
    assert torch.equal((z > 0).long(), raw.target[:, None].expand(-1, 4))
    assert z.square().mean(0).sqrt().tolist() == pytest.approx([3.0] * 4, rel=0.05)
    entries = torch.cat([p.flatten() for p in projections.values()])
    assert len(projections) == 6
    assert entries.std().item() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize(("seed", "mixture"), [(1, (1, 0, 0, 0)), (5, (0.4, 0.2, 0.2, 0.2))])
def test_projections_are_the_same_for_every_seed_and_mixture(pure, seed, mixture):
    """So a decoder fitted on one data set reads another."""
    weights = decoder(block(pure["U1"].train, ("x1", "unique")), pure["U1"].train.target)
    other = pid_xor(*mixture, seed=seed, train=1000, validation=1, test=2000).test
    rows = other.groups["U1"]
    assert accuracy(weights, block(other, ("x1", "unique"))[rows], other.target[rows]) > 0.97


def test_another_projection_seed_is_another_task(pure):
    weights = decoder(products(pure["S"].train), pure["S"].train.target)
    other = pid_xor(*PURE["S"], train=500, validation=1, test=2000, projection_seed=1)
    assert not torch.equal(other.test.modalities["x1"], pure["S"].test.modalities["x1"][:2000])
    assert accuracy(weights, products(other.test), other.test.target) < 0.9


def test_coordinates_are_standardised_by_the_training_statistics():
    data = pid_xor(0.45, 0.0, 0.45, 0.10, train=500, validation=100, test=100)
    for name in ("x1", "x2"):
        train = data.train.modalities[name]
        assert train.mean(0).abs().max() < 1e-5
        assert (train.std(0) - 1).abs().max() < 1e-5
    mixture = torch.tensor([0.45, 0.0, 0.45, 0.10], dtype=torch.float64)
    for split, raw, rows in (
        (data.validation, _draw(600, mixture, _projections(0), generator(0, "pid-xor-fit")), slice(500, 600)),
        (data.test, _draw(100, mixture, _projections(0), generator(0, "pid-xor-test")), slice(0, 100)),
    ):
        fitted = _draw(600, mixture, _projections(0), generator(0, "pid-xor-fit"))
        for name in ("x1", "x2"):
            mean, deviation = fitted.modalities[name][:500].mean(0), fitted.modalities[name][:500].std(0)
            assert torch.allclose(split.modalities[name], (raw.modalities[name][rows] - mean) / deviation)
        assert torch.equal(split.target, raw.target[rows])


@pytest.mark.parametrize("mixture", [(0.45, 0.0, 0.45, 0.10), (0.25, 0.25, 0.25, 0.25), (0, 0, 0, 1)])
def test_groups_partition_the_examples_in_the_proportions_asked_for(mixture):
    data = pid_xor(*mixture, train=300, validation=30, test=4000)
    for split in (data.train, data.validation, data.test):
        assert list(split.groups) == ["U1", "U2", "R", "S"]
        assert torch.equal(torch.stack(list(split.groups.values())).sum(0), torch.ones(len(split), dtype=torch.long))
    shares = [rows.double().mean().item() for rows in data.test.groups.values()]
    assert shares == pytest.approx(mixture, abs=0.03)
    assert all(share == 0 for share, p in zip(shares, mixture, strict=True) if p == 0)


def test_the_label_is_fair_in_every_group():
    test = pid_xor(0.25, 0.25, 0.25, 0.25).test
    for rows in test.groups.values():
        assert test.target[rows].double().mean().item() == pytest.approx(0.5, abs=0.06)
