"""The objective against a plain loop: 1 + n passes through the model, written out, in float64, loss and gradients."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from synib import (
    BlackBoxModel,
    LearnedMask,
    Mask,
    Noise,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    keys,
)
from synib.tokens import values

WIDTHS = {"a": 4, "b": 3, "c": 5}
ROWS, CLASSES, WEIGHT = 6, 3, 0.7


class Stripes(Mask):
    """Every draw another stripe of coordinates, without any key."""

    def forward(self, x, key, probe, draws=1):
        rows = torch.arange(draws * len(values(x)))[:, None]
        return (rows + torch.arange(values(x).shape[-1])) % 3 == 0


class Ramp(Noise):
    """Every draw other numbers, without any key."""

    def forward(self, x, key, modality="", draws=1):
        v = values(x)
        return torch.linspace(-2, 2, draws * v.numel(), dtype=v.dtype).view(draws * len(v), *v.shape[1:])


class WatchedMask(Mask):
    """Another mask, whose answers are written down."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.probes, self.seen = inner, inner.probes, {}

    def forward(self, x, key, probe, draws=1):
        self.seen[probe.modality] = self.inner(x, key, probe, draws)
        return self.seen[probe.modality]


class WatchedNoise(Noise):
    """Another noise, whose last fill for each modality is written down: the one that corrupted it."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen = inner, {}

    def forward(self, x, key, modality="", draws=1):
        self.seen[modality] = self.inner(x, key, modality, draws)
        return self.seen[modality]


MASKS = {
    "stripes": lambda: Stripes(),
    "random": lambda: RandomMask(0.5),
    "oracle": lambda: OracleMask({"a": [0, 2], "b": [1], "c": range(4)}),
    "learned": lambda: LearnedMask(3, lr=1.0),
}


def all_subsets(names, kind):
    sizes = [1] if kind == "each" else range(1, len(names))
    return [c for size in sizes for c in itertools.combinations(sorted(names), size)]


def rows_of_draw(t, k, rows):
    return t[k * rows : (k + 1) * rows] if len(t) > rows else t


def kl_to_uniform(probabilities):
    return (probabilities * (probabilities.log() + math.log(probabilities.shape[-1]))).sum(-1)


def naive(predict, x, y, masks, fills, subsets="each", draws=1, weight=WEIGHT, own=None):
    """Eq. synib-loss as a loop: an intact pass, then a pass for every counterfactual and every draw."""
    total = F.cross_entropy(predict(x), y)
    for logits in (own or {}).values():
        total = total + F.cross_entropy(logits, y)
    for corrupted in all_subsets(x, subsets):
        average = 0
        for k in range(draws):
            changed = dict(x)
            for name in corrupted:
                mask = rows_of_draw(masks[name], k, len(y))
                changed[name] = torch.where(mask, rows_of_draw(fills[name], k, len(y)), x[name])
            average = average + predict(changed).softmax(-1) / draws
        total = total + weight * kl_to_uniform(average).mean()
    return total


def assert_same(loss, expected, module):
    torch.testing.assert_close(loss, expected)
    parameters = list(module.parameters())
    pairs = (torch.autograd.grad(t, parameters, allow_unused=True, materialize_grads=True) for t in (loss, expected))
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs)


class Joint(nn.Module):
    """A model of one's own: modalities meet in the first layer, by name."""

    def __init__(self, n):
        super().__init__()
        self.names = list(WIDTHS)[:n]
        self.layers = nn.Sequential(nn.Linear(sum(WIDTHS[k] for k in self.names), 6), nn.Tanh(), nn.Linear(6, CLASSES))
        self.own = nn.ModuleDict({name: nn.Linear(WIDTHS[name], CLASSES) for name in self.names})

    def forward(self, x):
        return self.layers(torch.cat([x[name] for name in self.names], -1))

    def unimodal(self, x):
        return {name: self.own[name](x[name]) for name in self.names}


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize(("n", "subsets"), [(2, "each"), (3, "proper")])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["fusion model", "function", "function of independent rows"])
def test_loss_and_gradients_equal_the_plain_loops(kind, mask, n, subsets, draws, key, batch, fusion_model):
    x, y = batch(n)
    if kind == "fusion model":
        model = given = fusion_model(n)
    else:
        model = Joint(n).double()
        given = BlackBoxModel(model, dict(model.own), independent_rows=kind == "function of independent rows")
    watched, noise = WatchedMask(MASKS[mask]()), WatchedNoise(Ramp() if mask == "stripes" else StandardNoise())
    loss, _ = SynIB(watched, noise, weight=WEIGHT, subsets=subsets, draws=draws)(given, x, y, key=key)
    assert_same(loss, naive(model, x, y, watched.seen, noise.seen, subsets, draws, own=model.unimodal(x)), model)


def test_unimodal_predictors_may_be_given_with_the_call(key, batch):
    x, y = batch(2)
    model, objective = Joint(2).double(), SynIB(LearnedMask(3, lr=1.0), StandardNoise())
    own = dict(model.own)
    loss, _ = objective(model, x, y, key=key, unimodal=own)
    assert loss == objective(BlackBoxModel(model, own), x, y, key=key)[0]


def test_a_pinned_loss_has_not_changed():
    x = {"a": torch.arange(8.0).view(4, 2) / 8, "b": torch.arange(8.0).flip(0).view(4, 2) / 4}
    objective = SynIB(RandomMask(0.5), StandardNoise(), weight=2.0)
    loss, parts = objective(lambda m: m["a"] * m["b"], x, torch.tensor([0, 1, 1, 0]), key=keys.key(7))
    assert parts["task"].item() == pytest.approx(0.6955854, abs=1e-5)
    assert loss.item() == pytest.approx(0.9901674, abs=1e-5)


# Whole modalities swapped within the batch


class WatchedShuffle(ShuffledNoise):
    def __init__(self):
        super().__init__()
        self.asked = []

    def rows(self, key, batch, draws=1, device=None):
        self.asked.append(super().rows(key, batch, draws, device))
        return self.asked[-1]


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("subsets", ["each", "proper"])
@pytest.mark.parametrize("latents", [False, True])
def test_swapping_whole_modalities_equals_a_pass_for_every_draw(draws, subsets, latents, key, batch, fusion_model):
    x, y = batch(3)
    model, noise = fusion_model(3, heads=False), WatchedShuffle()
    objective = SynIB(RandomMask(1.0), noise, weight=WEIGHT, draws=draws, subsets=subsets)
    predict, given = (model.on_latents(), model.encode_all(x)) if latents else (model, x)
    loss, _ = objective(predict, given, y, key=key)
    fills = {name: x[name][rows] for name, rows in zip("abc", noise.asked, strict=False)}
    whole = {name: torch.ones(1, 1, dtype=torch.bool) for name in x}
    assert_same(loss, naive(model, x, y, whole, fills, subsets, draws), model)


# Averaged draws


def test_debiasing_is_twice_all_draws_minus_the_mean_of_the_halves(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2, heads=False)
    noise = WatchedNoise(StandardNoise())
    loss, _ = SynIB(Stripes(), noise, weight=WEIGHT, draws=4, debias=True)(model, x, y, key=key)
    masks = {name: Stripes()(x[name], key, None, 4) for name in x}

    def part(first, last):
        cut = slice(first * ROWS, last * ROWS)
        some = [{name: t[name][cut] for name in x} for t in (masks, noise.seen)]
        return naive(model, x, y, *some, draws=last - first)

    assert_same(loss, 2 * part(0, 4) - 0.5 * (part(0, 2) + part(2, 4)), model)


# Layers that mix rows


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))

    def forward(self, x):
        return self.layers(torch.cat([x["a"], x["b"]], -1))


def test_batch_norm_in_a_function_takes_the_plain_loop(key, batch):
    x, y = batch(2)
    model, noise = Normalised().double(), WatchedNoise(Ramp())
    loss, _ = SynIB(Stripes(), noise, weight=WEIGHT)(model, x, y, key=key)
    masks = {name: Stripes()(x[name], key, None) for name in x}
    assert_same(loss, naive(model, x, y, masks, noise.seen), model)


@pytest.mark.parametrize("where", ["encoders", "fusion", "both"])
def test_batch_norm_in_training_mode_takes_the_plain_loop_and_says_so_once(where, key, fusion_model, batch):
    x, y = batch(2)
    model, noise = fusion_model(2), WatchedNoise(Ramp())
    if where != "fusion":
        for encoder in model.encoders.values():
            encoder.append(nn.BatchNorm1d(5).double())
    if where != "encoders":
        model.fusion.rest.insert(0, nn.BatchNorm1d(32).double())
    objective = SynIB(Stripes(), noise, weight=WEIGHT)
    with pytest.warns(UserWarning, match="A BatchNorm layer in training mode mixes the rows") as said:
        loss, _ = objective(model, x, y, key=key)
    assert len(said) == 1
    masks = {name: Stripes()(x[name], key, None) for name in x}
    assert_same(loss, naive(model, x, y, masks, noise.seen, own=model.unimodal(x)), model)
    objective(model, x, y, key=key)  # a second warning would be an error


def test_batch_norm_in_the_encoders_alone_is_no_hindrance_to_swapping_whole_modalities(key, fusion_model, batch):
    x, y = batch(2)
    model, noise, calls = fusion_model(2), WatchedShuffle(), []
    for encoder in model.encoders.values():
        encoder.append(nn.BatchNorm1d(5).double())
    model.fusion.rest.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    loss, _ = SynIB(RandomMask(1.0), noise, weight=WEIGHT, draws=1)(model, x, y, key=key)  # a warning would be an error
    assert calls == [3 * len(y)]
    latents = {name: encoder(x[name]) for name, encoder in model.encoders.items()}
    fills = {name: latents[name][rows] for name, rows in zip("ab", noise.asked, strict=True)}
    whole = {name: torch.ones(1, 1, dtype=torch.bool) for name in x}
    assert_same(loss, naive(model.fusion, latents, y, whole, fills, own=model.unimodal(x)), model)
