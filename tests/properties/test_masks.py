"""What every mask must satisfy, whatever it is given."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib import AmortizedMask, LearnedMask, OracleMask, RandomMask, StandardNoise, Tokens, keys
from synib.masks import Probe
from synib.tokens import values

WIDTH, LENGTH = 4, 3
MASKS = {
    "random": RandomMask(0.5),
    "nothing": RandomMask(0.0),
    "whole": RandomMask(1.0),
    "random modality": RandomMask(0.5, over="modality"),
    "random tokens": RandomMask(0.5, over="tokens"),
    "oracle": OracleMask({"a": [0, 3]}),
    "learned": LearnedMask(2, lr=1.0),
    "learned tokens": LearnedMask(2, lr=1.0, over="tokens"),
    "amortized": AmortizedMask({"a": WIDTH}, hidden=3),
    "amortized tokens": AmortizedMask({"a": WIDTH}, hidden=3, over="tokens"),
}
ONLY_SEQUENCES = {"random tokens", "learned tokens", "amortized tokens"}
MAKE = {
    "vector": lambda rows: torch.randn(rows, WIDTH),
    "sequence": lambda rows: torch.randn(rows, LENGTH, WIDTH),
    "tokens": lambda rows: Tokens(torch.randn(rows, LENGTH, WIDTH), torch.rand(rows, LENGTH) < 0.3),
    "map": lambda rows: torch.randn(rows, LENGTH, 2, WIDTH),
}
CASES = [
    (mask, kind)
    for mask in MASKS
    for kind in MAKE
    if not (mask in ONLY_SEQUENCES and kind == "vector") and not (mask == "amortized tokens" and kind == "map")
]
every_mask = pytest.mark.parametrize(("mask", "kind"), CASES)
sizes = {"rows": st.integers(1, 5), "draws": st.integers(1, 3), "seed": st.integers(0, 1000)}


def ask(mask, x, seed, draws=1):
    noise = StandardNoise()
    probe = Probe("a", lambda key: noise(x, key, "a"), lambda v: v.flatten(1).cos().sum(1))
    return MASKS[mask](x, keys.key(seed), probe, draws)


@every_mask
@given(**sizes)
def test_a_mask_is_boolean_fits_its_modality_follows_the_key_and_leaves_the_input_alone(mask, kind, rows, draws, seed):
    x = MAKE[kind](rows)
    before = values(x).clone()
    answer = ask(mask, x, seed, draws)
    assert torch.equal(values(x), before)
    assert torch.equal(answer, ask(mask, x, seed, draws))
    assert answer.dtype == torch.bool
    assert not answer.requires_grad
    assert answer.shape[0] in (1, rows, draws * rows)
    assert answer.ndim == values(x).ndim
    answer.expand(answer.shape[0], *values(x).shape[1:])


@every_mask
def test_masks_of_many_models_at_once_equal_masks_one_by_one(mask, kind):
    pairs = [MAKE[kind](3) for _ in range(2)]
    seeds = torch.stack([keys.key(s) for s in range(2)])
    noise = StandardNoise()

    def one(v, key):
        x = Tokens(v, pairs[0].padding) if kind == "tokens" else v
        probe = Probe("a", lambda k: noise(x, k, "a"), lambda u: u.flatten(1).cos().sum(1))
        return MASKS[mask](x, key, probe, 2)

    stacked = torch.stack([values(x) for x in pairs])
    together = torch.func.vmap(one)(stacked, seeds)
    alone = torch.stack([one(v, key) for v, key in zip(stacked, seeds, strict=True)])
    assert torch.equal(together, alone)


@given(low=st.floats(0, 1), high=st.floats(0, 1), seed=st.integers(0, 1000))
def test_a_higher_probability_corrupts_no_less(low, high, seed):
    probe = Probe("a", keys.fresh, None)
    low, high = sorted((low, high))
    x = torch.zeros(4, 5)
    fewer, more = (RandomMask(p)(x, keys.key(seed), probe).expand(4, 5) for p in (low, high))
    assert (fewer <= more).all()
