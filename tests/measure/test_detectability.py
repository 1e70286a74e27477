"""Whether a probe can tell counterfactuals from data."""

import pytest
import torch
from torch import nn

from synib import (
    AmortizedMask,
    FusionModel,
    LearnedMask,
    MatchedNoise,
    Noise,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
)
from synib.measure import detectability
from synib.methods import OnLatents

WIDE, N = 3, 400


class Sum(nn.Module):
    def forward(self, latents):
        return sum(latents.values())


def plain_model(heads=False):
    """A model whose fusion sees the inputs."""
    encoders = {"a": nn.Identity(), "b": nn.Identity()}
    return FusionModel(encoders, Sum(), {name: nn.Linear(WIDE, WIDE) for name in encoders} if heads else None)


def examples(seed=0, dependent=False, n=N):
    a, b, c = torch.randn(3, n, WIDE, generator=torch.Generator().manual_seed(seed))
    return {"a": a, "b": a + 0.3 * c if dependent else b}, torch.arange(n) % WIDE


SWAP = SynIB(RandomMask(1.0), ShuffledNoise())


def test_swapped_modalities_that_are_independent_cannot_be_told_from_data():
    found = [detectability(SWAP, plain_model(), *examples(seed), seed=seed) for seed in range(4)]
    for name in ("a", "b"):
        assert sum(one[name] for one in found) / 4 == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("noise", [ShuffledNoise(), StandardNoise()], ids=["swapped", "noise"])
def test_nothing_that_the_probe_learned_from_fills_what_it_is_asked_about(noise):
    """A probe with more weights than examples knows every value it has seen, and whether it was a fill."""
    found = []
    for seed in range(6):
        a, b = torch.randn(2, 60, 16, generator=torch.Generator().manual_seed(seed))
        objective = SynIB(RandomMask(1.0), noise)
        found += detectability(objective, plain_model(), {"a": a, "b": b}, torch.arange(60) % 16, seed=seed).values()
    # Swaps across the halves would give .29, and noise that is drawn alike for both .69.
    assert sum(found) / len(found) == pytest.approx(0.5, abs=0.08)


def test_a_swapped_pair_is_told_where_the_modalities_agree_in_the_data():
    found = detectability(SWAP, plain_model(), *examples(dependent=True))
    assert min(found.values()) > 0.9


def test_noise_of_another_scale_gives_itself_away_and_matched_noise_does_not():
    (x, y), model = examples(), plain_model()
    x = {"a": 10 * x["a"], "b": x["b"]}
    found = detectability(SynIB(RandomMask(1.0), StandardNoise()), model, x, y)
    assert found["a"] > 0.95
    assert found["b"] == pytest.approx(0.5, abs=0.1)  # it is standard normal itself
    matched = SynIB(RandomMask(1.0), MatchedNoise())
    matched(model, x, y)
    assert detectability(matched, model, x, y)["a"] == pytest.approx(0.5, abs=0.1)


class Nothing(Noise):
    """What was there already."""

    def forward(self, x, key, modality="", draws=1):
        return torch.cat([x] * draws)


def test_what_is_not_corrupted_is_not_told():
    objective = SynIB(RandomMask(1.0), Nothing(), draws=3)
    assert detectability(objective, plain_model(), *examples()) == {"a": 0.5, "b": 0.5}


def test_the_probe_sees_what_the_encoders_let_through(key):
    x, y = examples(dependent=True)
    model = FusionModel({"a": nn.Identity(), "b": nn.Linear(WIDE, WIDE)}, Sum())
    nn.init.zeros_(model.encoders["b"].weight)  # nothing
    found = detectability(SWAP, model, x, y)
    assert max(found.values()) < 0.6


@pytest.mark.parametrize(
    "objective",
    [
        SynIB(LearnedMask(2), ShuffledNoise()),
        SynIB(AmortizedMask({"a": WIDE, "b": WIDE}), ShuffledNoise()),
        OnLatents(SynIB(RandomMask(0.5), StandardNoise(), draws=4)),
        SynIB(RandomMask(0.5), MatchedNoise(widths={"a": WIDE, "b": WIDE})),
    ],
    ids=["learned", "amortized", "latents", "matched"],
)
def test_every_mask_can_be_asked_and_nothing_is_changed_by_it(objective):
    (x, y), model = examples(n=40), plain_model(heads=True)
    model.heads["a"].eval()
    state = {k: v.clone() for m in (model, objective) for k, v in m.state_dict().items()}
    modes, generator = [m.training for o in (model, objective) for m in o.modules()], torch.get_rng_state()
    found = detectability(objective, model, x, y)
    assert list(found) == ["a", "b"]
    assert all(0 <= value <= 1 for value in found.values())
    assert all(torch.equal(v, state[k]) for m in (model, objective) for k, v in m.state_dict().items())
    assert [m.training for o in (model, objective) for m in o.modules()] == modes
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(p.grad is None for p in model.parameters())
    assert found == detectability(objective, model, x, y)
    assert found != detectability(objective, model, x, y, seed=1)


def test_tokens_are_seen_by_their_mean_without_padding():
    def model(padded):
        a, c = torch.randn(2, N, 1, 2, generator=torch.Generator().manual_seed(0))
        rest = torch.full((N, 3, 2), 1e6) if padded else torch.zeros(N, 0, 2)
        hidden = torch.zeros(N, 1 + rest.shape[1], dtype=torch.bool)
        hidden[:, 1:] = True
        x = {"a": Tokens(torch.cat([a, rest], 1), hidden), "b": (a + 0.3 * c).squeeze(1)}
        return detectability(SWAP, lambda m: m["b"], x, torch.arange(N) % 2)

    assert model(padded=True) == pytest.approx(model(padded=False))
    assert model(padded=True)["a"] > 0.8
