"""The objective against a plain loop: 1 + n passes through the model, written out, in float64, loss and gradients."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from synib import (
    AmortizedMask,
    FusionModel,
    LearnedMask,
    LinearWarmup,
    Mask,
    MatchedNoise,
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


class Mirror(Noise):
    """A fill that depends on the row alone, so that batches can be cut and dealt."""

    def forward(self, x, key, modality="", draws=1):
        return torch.cat([-values(x) * (k + 1) for k in range(draws)])


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

    def observe(self, x, modality):
        self.inner.observe(x, modality)

    def forward(self, x, key, modality="", draws=1):
        self.seen[modality] = self.inner(x, key, modality, draws)
        return self.seen[modality]


MASKS = {
    "stripes": lambda: Stripes(),
    "random": lambda: RandomMask(0.5),
    "oracle": lambda: OracleMask({"a": [0, 2], "b": [1], "c": range(4)}),
    "learned": lambda: LearnedMask(3, lr=1.0),
}


def batch(n=2, rows=ROWS):
    x = {name: torch.randn(rows, WIDTHS[name], dtype=torch.float64) for name in list(WIDTHS)[:n]}
    return x, torch.arange(rows) % CLASSES


def fusion_model(n=2, heads=True, **settings):
    widths = {name: WIDTHS[name] for name in list(WIDTHS)[:n]}
    return FusionModel.mlp(widths, hidden=[5], classes=CLASSES, head_hidden=[] if heads else None, **settings).double()


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


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("subsets", ["each", "proper"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("n", [2, 3])
def test_a_fusion_models_loss_and_gradients_equal_the_plain_loops(n, mask, subsets, draws, fused, key):
    x, y = batch(n)
    model = fusion_model(n)
    watched, noise = WatchedMask(MASKS[mask]()), WatchedNoise(Ramp() if mask == "stripes" else StandardNoise())
    objective = SynIB(watched, noise, weight=WEIGHT, subsets=subsets, draws=draws, fused=fused)
    loss, _ = objective(model, x, y, key=key)
    expected = naive(model, x, y, watched.seen, noise.seen, subsets, draws, own=model.unimodal(x))
    assert_same(loss, expected, model)


class Joint(nn.Module):
    """A model of one's own: modalities meet in the first layer, by name."""

    def __init__(self, n):
        super().__init__()
        self.names = list(WIDTHS)[:n]
        self.layers = nn.Sequential(nn.Linear(sum(WIDTHS[k] for k in self.names), 6), nn.Tanh(), nn.Linear(6, CLASSES))
        self.own = nn.ModuleDict({name: nn.Linear(WIDTHS[name], CLASSES) for name in self.names})

    def forward(self, x):
        return self.layers(torch.cat([x[name] for name in self.names], -1))


@pytest.mark.parametrize("fused", [True, False, None])
@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("n", [2, 3])
def test_a_plain_callables_loss_and_gradients_equal_the_plain_loops(n, mask, draws, fused, key):
    x, y = batch(n)
    model = Joint(n).double()
    watched, noise = WatchedMask(MASKS[mask]()), WatchedNoise(Ramp() if mask == "stripes" else StandardNoise())
    objective = SynIB(watched, noise, weight=WEIGHT, subsets="proper", draws=draws, fused=fused)
    loss, _ = objective(lambda m: model(m), x, y, key=key, unimodal=dict(model.own))
    own = {name: model.own[name](x[name]) for name in x}
    assert_same(loss, naive(model, x, y, watched.seen, noise.seen, "proper", draws, own=own), model)


def test_the_paper_in_one_line_each(key):
    """Task, penalty per modality, weight: the parts add up to the total."""
    x, y = batch(2)
    model = fusion_model(2)
    loss, parts = SynIB(Stripes(), Ramp(), weight=WEIGHT, unimodal_weight=0.05)(model, x, y, key=key)
    assert set(parts) == {"task", "unimodal/a", "unimodal/b", "penalty/a", "penalty/b", "weight"}
    assert not any(p.requires_grad for p in parts.values())
    own = 0.05 * (parts["unimodal/a"] + parts["unimodal/b"])
    torch.testing.assert_close(loss, parts["task"] + own + WEIGHT * (parts["penalty/a"] + parts["penalty/b"]))


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
def test_swapping_whole_modalities_equals_a_pass_for_every_draw(draws, subsets, latents, key):
    x, y = batch(3)
    model, noise = fusion_model(3, heads=False), WatchedShuffle()
    objective = SynIB(RandomMask(1.0), noise, weight=WEIGHT, draws=draws, subsets=subsets)
    predict, given = (model.on_latents(), model.encode_all(x)) if latents else (model, x)
    loss, _ = objective(predict, given, y, key=key)
    fills = {name: x[name][rows] for name, rows in zip("abc", noise.asked, strict=False)}
    whole = {name: torch.ones(1, 1, dtype=torch.bool) for name in x}
    assert_same(loss, naive(model, x, y, whole, fills, subsets, draws), model)


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("subsets", ["each", "proper"])
def test_the_shortcut_for_swaps_changes_nothing_but_the_work(draws, subsets, key):
    x, y = batch(3)
    model = fusion_model(3)
    short, long = (
        SynIB(RandomMask(1.0), ShuffledNoise(), weight=WEIGHT, draws=draws, subsets=subsets) for _ in range(2)
    )
    long.mask.whole = False
    assert_same(short(model, x, y, key=key)[0], long(model, x, y, key=key)[0], model)


def test_swapped_latents_run_each_encoder_on_the_intact_batch_only(key):
    x, y = batch(2)
    model = fusion_model(2)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    SynIB(RandomMask(1.0), ShuffledNoise(), draws=16)(model, x, y, key=key)
    assert seen == [ROWS]


def test_fused_each_encoder_and_the_fusion_run_once(key):
    x, y = batch(2)
    model = fusion_model(2)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(("encoder", len(inputs[0]))))
    model.fusion.rest.register_forward_hook(lambda _, inputs, __: seen.append(("fusion", len(inputs[0]))))
    SynIB(RandomMask(0.5), StandardNoise())(model, x, y, key=key)
    assert seen == [("encoder", 2 * ROWS), ("fusion", 3 * ROWS)]


# What a mask acts on


@pytest.mark.parametrize("mask", ["stripes", "random", "learned"])
@pytest.mark.parametrize("fused", [True, False])
def test_masks_on_latents_equal_latents_masked_by_hand(mask, fused, key):
    x, y = batch(2)
    model = fusion_model(2)
    watched, noise = WatchedMask(MASKS[mask]()), WatchedNoise(StandardNoise())
    objective = SynIB(watched, noise, weight=WEIGHT, fused=fused)
    loss, _ = objective(model.on_latents(), model.encode_all(x), y, key=key)
    latents = {name: encoder(x[name]) for name, encoder in model.encoders.items()}
    expected = naive(model.fusion, latents, y, watched.seen, noise.seen, own=model.unimodal(x))
    assert watched.seen["a"].shape == (ROWS, 5)
    assert_same(loss, expected, model)


def test_heads_that_train_detached_teach_the_encoders_nothing(key):
    x, y = batch(2)
    encoder_gradients = []
    for detach, unimodal_weight in ((True, 1.0), (False, 0.0)):
        torch.manual_seed(0)
        model = fusion_model(2, detach_heads=detach)
        loss, _ = SynIB(Stripes(), Ramp(), unimodal_weight=unimodal_weight)(model, x, y, key=key)
        loss.backward()
        encoder_gradients.append([p.grad for p in model.encoders.parameters()])
    for detached, without in zip(*encoder_gradients, strict=True):
        torch.testing.assert_close(detached, without)


# Sampled counterfactuals


@pytest.mark.parametrize(("subsets", "sample"), [("each", 1), ("each", 2), ("proper", 1), ("proper", 4)])
@pytest.mark.parametrize("rows", [12, 7])
def test_sampled_counterfactuals_give_every_penalty_without_bias(subsets, sample, rows, key):
    x, y = batch(3, rows)
    model = fusion_model(3, heads=False)
    settings = {"mask": OracleMask({"a": [0, 2], "b": [1], "c": [0]}), "noise": Mirror(), "subsets": subsets}
    _, full = SynIB(**settings)(model, x, y, key=key)
    objective = SynIB(**settings, sample=sample)
    with torch.no_grad():
        runs = [objective(model, x, y, key=k)[1] for k in keys.split(key, 150)]
    for name in full:
        drawn = torch.stack([parts[name] for parts in runs])
        error = drawn.std() / len(drawn) ** 0.5
        assert (drawn.mean() - full[name]).abs() <= 4 * error + 1e-9, name


def test_asking_for_all_counterfactuals_or_more_is_the_full_penalty(key):
    x, y = batch(3)
    model = fusion_model(3)
    losses = [SynIB(Stripes(), Ramp(), sample=s)(model, x, y, key=key)[0] for s in (None, 3, 10)]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("mask", ["random", "oracle", "learned"])
def test_batches_too_small_to_deal_out_give_no_nan(rows, draws, mask, key):
    x, y = batch(3, rows)
    model = fusion_model(3)
    for noise in (StandardNoise(), MatchedNoise()):
        objective = SynIB(MASKS[mask](), noise, subsets="proper", sample=1, draws=draws)
        loss, parts = objective(model, x, y, key=key)
        loss.backward()
        assert loss.isfinite()
        assert all(p.isfinite() for p in parts.values())
        assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_mask_network_survives_batches_too_small_to_deal_out(key):
    x, y = batch(3, 2)
    objective = SynIB(AmortizedMask(WIDTHS), StandardNoise(), subsets="proper", sample=1).double()
    loss, _ = objective(fusion_model(3), x, y, key=key)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)


def test_sampling_really_does_less(key):
    x, y = batch(3, 12)
    model = fusion_model(3, heads=False)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    SynIB(RandomMask(0.5), StandardNoise(), sample=1)(model, x, y, key=key)
    assert seen == [12 + 4]


# Averaged draws


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
    truth = kl_to_uniform(torch.stack([1 - p, p])).item()
    assert penalty_of(512, False, rows=200) == pytest.approx(truth, abs=1e-3)
    plain, debiased = penalty_of(4, False), penalty_of(4, True)
    assert plain - truth > 0.02
    assert abs(debiased - truth) < 0.25 * (plain - truth)


def test_debiasing_is_twice_all_draws_minus_the_mean_of_the_halves(key):
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


def normalised_model():
    model = fusion_model(2)
    for encoder in model.encoders.values():
        encoder.append(nn.BatchNorm1d(5).double())
    model.fusion.rest.insert(0, nn.BatchNorm1d(32).double())
    return model


@pytest.mark.parametrize(
    ("make", "fused"), [(normalised_model, None), (normalised_model, True), (lambda: Normalised().double(), True)]
)
def test_batch_norm_in_training_mode_takes_the_plain_loop_and_says_so_once(make, fused, key):
    x, y = batch(2)
    model = make()
    noise = WatchedNoise(Ramp())
    objective = SynIB(Stripes(), noise, weight=WEIGHT, fused=fused)
    with pytest.warns(UserWarning, match="A BatchNorm layer in training mode mixes the rows") as said:
        loss, _ = objective(model, x, y, key=key)
    assert len(said) == 1
    masks = {name: Stripes()(x[name], key, None) for name in x}
    own = model.unimodal(x) if isinstance(model, FusionModel) else None
    assert_same(loss, naive(model, x, y, masks, noise.seen, own=own), model)
    objective(model, x, y, key=key)  # a second warning would be an error


def test_batch_norm_in_evaluation_mode_is_fused_without_a_word(key):
    x, y = batch(2)
    model = normalised_model().eval()
    losses = [SynIB(Stripes(), Ramp(), fused=fused)(model, x, y, key=key)[0] for fused in (None, False)]
    torch.testing.assert_close(*losses)


def test_batch_norm_in_the_encoders_does_not_matter_to_latents(key):
    x, y = batch(2)
    model = fusion_model(2)
    model.encoders["a"].append(nn.BatchNorm1d(5).double())
    assert SynIB(Stripes(), Ramp())(model.on_latents(), model.encode_all(x), y, key=key)[0].isfinite()


# Odds and ends


def test_the_default_is_half_the_coordinates_with_matched_noise():
    objective = SynIB()
    assert repr(objective.mask) == "RandomMask(p=0.5, over='coordinates')"
    assert repr(objective.noise) == "MatchedNoise(momentum=0.99)"
    assert objective.draws == 1
    assert "subsets='each', sample=None, draws=1, debias=False" in repr(objective)


def test_a_schedule_may_be_given_as_the_weight(key):
    x, y = batch(2)
    model = fusion_model(2, heads=False)
    objective = SynIB(Stripes(), Ramp(), weight=LinearWarmup(1.0, 2))
    losses = [objective(model, x, y, key=key)[0] for _ in range(3)]
    plain = F.cross_entropy(model(x), y)
    torch.testing.assert_close(losses[1] - plain, 2 * (losses[0] - plain))
    torch.testing.assert_close(losses[1], losses[2])
