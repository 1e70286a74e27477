"""Diagnosing & Re-learning: what is diagnosed, what is pulled back, and when."""

import pytest
import torch
from torch import nn
from torch.func import vmap

from synib import Bernoulli, Categorical, FusionModel, keys
from synib.methods.dnr import DnR, kmeans, purity
from synib.objective.base import Batch
from synib.studies.spurious_xor.data import parity
from synib.training.loop import fit

N = 60


def blobs(target, width=4, size=8.0):
    """Features that tell the class."""
    centres = size * torch.eye(int(target.max()) + 1, width)
    return centres[target] + 0.1 * torch.randn(len(target), width)


def inertia(x, labels):
    return sum(((x[labels == c] - x[labels == c].mean(0)) ** 2).sum() for c in labels.unique()).item()


@pytest.fixture
def case():
    """Modality a is told apart in both splits and equal in them; b in training only."""
    y = torch.arange(N) % 2
    same, noise = blobs(y), torch.randn(N, 4)
    train = Batch({"a": same, "b": blobs(y)}, y)
    validation = Batch({"a": same, "b": noise}, y)
    model = FusionModel.mlp({"a": 4, "b": 4}, hidden=[16], head_hidden=[], fusion_hidden=[4])
    initial = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    return model, train, validation, initial


def revise(method, model, train, validation, initial, seed=0):
    with torch.no_grad():
        return method.revise(model, train, validation, initial, keys.key(seed))


def of(model, name):
    return {f"encoders.{name}.{own}": p for own, p in model.encoders[name].named_parameters()}


# k-means and purity


@pytest.mark.parametrize("k", [2, 3, 6])
def test_kmeans_is_about_as_good_as_scikit_learns_best(k):
    sklearn = pytest.importorskip("sklearn.cluster")
    for seed in range(5):
        torch.manual_seed(seed)
        x = 2.5 * torch.randn(k, 3)[torch.randint(k, (120,))] + torch.randn(120, 3)
        best = sklearn.KMeans(k, n_init=10, random_state=seed).fit(x.numpy()).inertia_
        assert inertia(x, kmeans(x, k, keys.key(seed))) <= 1.1 * best


@pytest.mark.parametrize("x", [torch.ones(7, 3), torch.tensor([[0.0], [0.0], [5.0]])])
def test_kmeans_with_more_clusters_than_different_rows_leaves_some_empty(x):
    found = kmeans(x, 5, keys.key(0))
    same = (x[:, None] == x).all(-1)
    assert torch.equal(found[:, None] == found, same)


def test_kmeans_is_decided_by_its_key_and_is_the_same_alone_and_among_others():
    x = torch.randn(3, 40, 2)
    key = torch.stack([keys.key(s) for s in range(3)])
    together = vmap(lambda x, key: kmeans(x, 4, key, starts=1, steps=3), randomness="error")(x, key)
    before = torch.get_rng_state()
    alone = torch.stack([kmeans(a, 4, b, starts=1, steps=3) for a, b in zip(x, key, strict=True)])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(together, alone)
    assert not torch.equal(kmeans(x[0], 4, key[1], starts=1, steps=3), alone[0])


def test_purity_gives_every_cluster_its_majority_even_if_two_have_the_same():
    where = torch.arange(100) % 2
    rare = torch.zeros(100, dtype=torch.long)
    rare[:10] = 1  # five in each cluster
    assert purity(blobs(where), rare, 2, keys.key(0)).item() == pytest.approx(0.9)
    assert purity(blobs(where), where, 2, keys.key(0)).item() == 1.0
    assert purity(blobs(where), 1 - where, 2, keys.key(0)).item() == 1.0  # a cluster's number means nothing


def test_purity_does_not_depend_on_the_scale_of_a_coordinate_and_bears_dead_ones():
    y = torch.arange(N) % 2
    tells = y[:, None] + 0.01 * torch.randn(N, 2)
    x = torch.cat([torch.rand(N, 1), tells / 1000, torch.zeros(N, 1)], 1)  # unscaled, the first would decide
    assert purity(x, y, 2, keys.key(0)).item() == 1.0


def test_purity_flattens_latents_and_takes_targets_of_any_shape_and_type():
    y = torch.arange(N) % 2
    x = blobs(y, width=6)
    flat = purity(x, y, 2, keys.key(0))
    assert flat == purity(x.view(N, 2, 3), y.double()[:, None], 2, keys.key(0)) == 1.0


# What is pulled back


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_an_encoder_goes_as_far_back_as_the_gap_of_its_purities_says(case, strength):
    model, train, validation, initial = case
    changed = revise(DnR(strength, family=Bernoulli()), *case)
    with torch.no_grad():
        mine = keys.fold(keys.key(0), "b")
        p = [purity(model.encode("b", s.modalities["b"]), s.target, 2, mine) for s in (train, validation)]
    assert p[0] - p[1] > 0.2
    w = torch.tanh(strength * (p[0] - p[1]))
    for name, now in of(model, "b").items():
        torch.testing.assert_close(changed[name], w * initial[name] + (1 - w) * now.detach())


def test_only_the_modality_with_a_gap_of_its_own_changes(case):
    """Comparing one modality's training data with another's validation data fails here."""
    model, *_ = case
    changed = revise(DnR(family=Bernoulli()), *case)
    assert all(torch.equal(changed[name], now) for name, now in of(model, "a").items())
    assert not any(torch.equal(changed[name], now) for name, now in of(model, "b").items())


def test_no_head_and_no_fusion_changes(case):
    model, *_ = case
    assert revise(DnR(family=Bernoulli()), *case).keys() == {**of(model, "a"), **of(model, "b")}.keys()


def test_the_gap_counts_in_either_direction(case):
    model, train, validation, initial = case
    back = revise(DnR(1e9, family=Bernoulli()), model, validation, train, initial)
    assert all(torch.equal(back[name], initial[name]) for name in of(model, "b"))


@pytest.mark.parametrize(("threshold", "moves"), [(0.05, True), (0.9, False)])
def test_a_gap_below_the_threshold_changes_nothing(case, threshold, moves):
    model, *_ = case
    changed = revise(DnR(threshold=threshold, family=Bernoulli()), *case)
    assert all(torch.equal(changed[name], now) != moves for name, now in of(model, "b").items())


def test_there_are_as_many_clusters_as_classes_and_any_number_of_modalities():
    y = torch.arange(N) % 3
    x = {name: blobs(y) for name in "abc"}
    model = FusionModel({n: nn.Linear(4, 4) for n in "abc"}, Sum(3))
    initial = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    spoilt = Batch(x | {"c": torch.randn(N, 4)}, y)
    changed = revise(DnR(0.5, family=Categorical()), model, Batch(x, y), spoilt, initial)
    with torch.no_grad():
        left = purity(model.encode("c", spoilt.modalities["c"]), y, 3, keys.fold(keys.key(0), "c"))
    kept = 1 - torch.tanh(0.5 * (1 - left))  # two clusters could not tell three classes apart: 2/3 instead of 1
    for name, p in model.encoders.named_parameters(prefix="encoders"):
        torch.testing.assert_close(changed[name], p.detach() * (kept if ".c." in name else 1))


class Sum(nn.Module):
    """A fusion of three classes."""

    def __init__(self, classes):
        super().__init__()
        self.last = nn.Linear(4, classes)

    def forward(self, latents):
        return self.last(sum(latents.values()))


# When, and in training


def test_it_acts_after_the_documented_epochs_and_no_others():
    assert [e for e in range(200) if DnR().revises(e)] == [20, 40, 60]
    assert [e for e in range(200) if DnR(every=5, times=2).revises(e)] == [5, 10]
    assert not any(DnR(times=0).revises(e) for e in range(100))


class Spy(DnR):
    """Notes when it revises."""

    asked, seen = 0, ()

    def revises(self, epoch):
        self.asked = epoch
        return super().revises(epoch)

    def revise(self, *arguments):
        self.seen = (*self.seen, self.asked)
        return super().revise(*arguments)


SHORT = {"lr": 1e-2, "weight_decay": 1e-3, "batch_size": 16}


def trained(method, epochs=5, modalities=2, seed=0):
    data = parity(modalities, 0.5, seed, train=40, validation=24, test=1)
    torch.manual_seed(seed)
    model = FusionModel.mlp(data.widths, hidden=[8], head_hidden=[], fusion_hidden=[8])
    fit(method, model, data, epochs=epochs, seed=seed, **SHORT)
    return model


def test_training_calls_it_at_those_epochs():
    spy = Spy(every=2, times=2, family=Bernoulli())
    trained(spy, epochs=7)
    assert spy.seen == (2, 4)
