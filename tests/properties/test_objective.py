"""What the objective must satisfy for any number, width and order of modalities."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from synib import (
    AmortizedMask,
    Bernoulli,
    Categorical,
    Fixed,
    FusionModel,
    Gaussian,
    LearnedMask,
    MatchedNoise,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Unimodal,
    keys,
)
from synib.objective.base import Batch

WIDTHS = {"a": 3, "b": 2, "c": 4}
MASKS = {
    "random": lambda: RandomMask(0.5),
    "whole": lambda: RandomMask(1.0),
    "oracle": lambda: OracleMask({"a": [0], "b": [1], "c": [2, 3]}),
    "learned": lambda: LearnedMask(2, lr=1.0),
    "amortized": lambda: AmortizedMask(WIDTHS, hidden=3),
}
NOISES = {"standard": StandardNoise, "matched": MatchedNoise, "shuffled": ShuffledNoise}
FAMILIES = {"Categorical": (Categorical(), 3), "Bernoulli": (Bernoulli(), 1), "Gaussian": (Gaussian(2, "full"), 5)}
every_mask = pytest.mark.parametrize("mask", MASKS)
every_noise = pytest.mark.parametrize("noise", NOISES)
every_family = pytest.mark.parametrize("name", FAMILIES)


def setting(n=3, rows=6, width=3, family="Categorical"):
    widths = dict(list(WIDTHS.items())[:n])
    torch.manual_seed(0)
    model = FusionModel.mlp(widths, hidden=[4], classes=width, head_hidden=[]).double()
    x = {name: torch.randn(rows, w, dtype=torch.float64) for name, w in widths.items()}
    y = torch.randn(rows, 2, dtype=torch.float64) if family == "Gaussian" else torch.arange(rows) % max(width, 2)
    return model, x, y


@every_mask
@every_noise
@pytest.mark.parametrize("n", [2, 3])
def test_weight_zero_is_plain_cross_entropy(mask, noise, n, key):
    model, x, y = setting(n)
    objective = SynIB(MASKS[mask](), NOISES[noise](), weight=0.0, unimodal_weight=0.0).double()
    loss, _ = objective(model, x, y, key=key)
    expected = F.cross_entropy(model(x), y)
    torch.testing.assert_close(loss, expected)
    pairs = (
        torch.autograd.grad(t, list(model.parameters()), allow_unused=True, materialize_grads=True)
        for t in (loss, expected)
    )
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs)


@every_mask
@every_noise
@pytest.mark.parametrize(
    "settings_", [{}, {"subsets": "proper", "draws": 2}, {"subsets": "proper", "sample": 2}], ids=str
)
def test_the_order_of_the_modalities_does_not_matter(mask, noise, settings_, key):
    model, x, y = setting(rows=18)
    torch.manual_seed(1)
    objective = SynIB(MASKS[mask](), NOISES[noise](), **settings_).double()
    losses = []
    for order in ("abc", "cab", "bca"):
        objective.noise = NOISES[noise]()
        loss, parts = objective(model, {name: x[name] for name in order}, y, key=key)
        losses.append((loss, parts))
    for loss, parts in losses[1:]:
        torch.testing.assert_close(loss, losses[0][0])
        for name, part in parts.items():
            torch.testing.assert_close(part, losses[0][1][name])


@every_mask
@every_noise
@pytest.mark.parametrize(("subsets", "draws"), [("each", 1), ("proper", 3)])
def test_the_fast_path_equals_separate_passes(mask, noise, subsets, draws, key, separate_passes):
    model, x, y = setting()
    losses = []
    for given_model in (model, separate_passes(model)):
        torch.manual_seed(1)
        objective = SynIB(MASKS[mask](), NOISES[noise](), subsets=subsets, draws=draws).double()
        losses.append(objective(given_model, x, y, key=key)[0])
    torch.testing.assert_close(*losses)
    pairs = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs)


@every_family
@settings(max_examples=15)
@given(
    n=st.integers(2, 3),
    rows=st.integers(2, 7),
    p=st.floats(0, 1),
    draws=st.integers(1, 3),
    weight=st.floats(0, 10),
    proper=st.booleans(),
    seed=st.integers(0, 100),
)
def test_penalties_are_never_negative_and_parts_add_up(name, n, rows, p, draws, weight, proper, seed):
    family, width = FAMILIES[name]
    model, x, y = setting(n, rows, width, name)
    subsets = "proper" if proper else "each"
    objective = SynIB(RandomMask(p), StandardNoise(), family=family, weight=weight, draws=draws, subsets=subsets)
    loss, parts = objective(model, x, y, key=keys.key(seed))
    penalties = [value for part, value in parts.items() if part.startswith("penalty/")]
    assert len(penalties) == (2**n - 2 if proper else n)
    assert all(value >= -1e-12 for value in penalties)
    own = sum(value for part, value in parts.items() if part.startswith("unimodal/"))
    torch.testing.assert_close(loss.detach(), parts["task"] + own + parts["weight"] * sum(penalties))


@every_mask
def test_a_prediction_that_ignores_its_input_and_equals_the_reference_is_not_penalised(mask, key):
    _, x, y = setting()
    rho = [0.5, 0.3, 0.2]
    logits = torch.tensor(rho, dtype=torch.float64).log()
    objective = SynIB(MASKS[mask](), StandardNoise(), Fixed(rho)).double()
    own = {name: lambda v: v[:, :1] * torch.ones(3, dtype=torch.float64) for name in x}
    _, parts = objective(lambda m: logits.expand(len(m["a"]), 3), x, y, key=key, unimodal=own)
    assert all(value.abs() < 1e-7 for part, value in parts.items() if part.startswith("penalty/"))


def test_whole_modalities_corrupted_by_standard_noise_leave_no_trace(key):
    model, x, y = setting(2)
    objective = SynIB(RandomMask(1.0), StandardNoise())
    _, before = objective(model, x, y, key=key)
    _, after = objective(model, {**x, "a": x["a"] + 1.0}, y, key=key)
    assert torch.equal(after["penalty/a"], before["penalty/a"])
    assert not torch.equal(after["penalty/b"], before["penalty/b"])


@every_mask
@every_noise
def test_many_models_at_once_equal_one_by_one(mask, noise):
    model, _, y = setting(2)
    torch.manual_seed(1)
    objective = SynIB(MASKS[mask](), NOISES[noise](), reference=Unimodal(), draws=2).double()
    xs = {name: torch.randn(3, 6, WIDTHS[name], dtype=torch.float64) for name in model.names}
    for name in xs:
        objective.noise.observe(xs[name][0], name)
    objective.eval()
    many = torch.stack([keys.key(seed) for seed in range(3)])

    def one(x, key):
        return objective.loss(model, Batch(x, y), key)[0]

    with torch.no_grad():
        together = torch.func.vmap(one)(xs, many)
        alone = torch.stack([one({name: x[i] for name, x in xs.items()}, many[i]) for i in range(3)])
    torch.testing.assert_close(together, alone)
