"""What every noise must satisfy: a mask of zeros changes nothing, a mask of ones leaves nothing of the input."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib import HideTokens, MatchedNoise, ShuffledNoise, StandardNoise, Tokens, keys
from synib.masks import ZeroNoise
from synib.tokens import values

MAKE = {
    "vector": lambda rows: torch.randn(rows, 4),
    "sequence": lambda rows: torch.randn(rows, 3, 4),
    "tokens": lambda rows: Tokens(torch.randn(rows, 3, 4), torch.rand(rows, 3) < 0.3),
    "map": lambda rows: torch.randn(rows, 3, 2, 2),
}
FILLS = {"standard": StandardNoise, "matched": MatchedNoise, "shuffled": ShuffledNoise, "zeros": ZeroNoise}
every_fill = pytest.mark.parametrize(("fill", "kind"), [(f, k) for f in FILLS for k in MAKE])
sizes = {"rows": st.integers(2, 5), "draws": st.integers(1, 3), "seed": st.integers(0, 1000)}


def noise_for(fill, x):
    noise = FILLS[fill]()
    noise.observe(x, "a")
    return noise.eval()


def constant_mask(x, answer, rows=1):
    return torch.full((rows, *(1,) * (values(x).ndim - 1)), answer)


def repeated(x, draws):
    return torch.cat([values(x)] * draws)


@every_fill
@given(**sizes)
def test_a_mask_of_zeros_changes_nothing(fill, kind, rows, draws, seed):
    x = MAKE[kind](rows)
    corrupted = noise_for(fill, x).corrupt(x, constant_mask(x, False), keys.key(seed), "a", draws)
    assert torch.equal(values(corrupted), repeated(x, draws))
    assert type(corrupted) is type(x)
    if isinstance(x, Tokens):
        assert torch.equal(corrupted.padding, torch.cat([x.padding] * draws))


@every_fill
@given(**sizes)
def test_a_mask_of_ones_leaves_nothing_of_the_input(fill, kind, rows, draws, seed):
    x = MAKE[kind](rows)
    noise, key = noise_for(fill, x), keys.key(seed)
    corrupted = values(noise.corrupt(x, constant_mask(x, True), key, "a", draws))
    assert torch.equal(corrupted, noise(x, key, "a", draws))
    # Another first example: what takes its place must be the same as before.
    changed = values(x).clone()
    changed[0] += 100.0
    x = Tokens(changed, x.padding) if isinstance(x, Tokens) else changed
    again = values(noise.corrupt(x, constant_mask(x, True), key, "a", draws))
    first = torch.arange(draws) * rows
    assert torch.equal(again[first], corrupted[first])


@every_fill
@given(**sizes)
def test_only_masked_coordinates_are_touched(fill, kind, rows, draws, seed):
    x = MAKE[kind](rows)
    noise, key = noise_for(fill, x), keys.key(seed)
    mask = keys.uniform(keys.fold(key, "mask"), (draws * rows, *values(x).shape[1:])) < 0.5
    corrupted = values(noise.corrupt(x, mask, key, "a", draws))
    original, replaced = repeated(x, draws), noise(x, key, "a", draws)
    assert torch.equal(corrupted[~mask], original[~mask])
    assert torch.equal(corrupted[mask], replaced[mask])


@every_fill
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_fill_has_the_type_of_what_it_replaces(fill, kind, dtype, key):
    x = MAKE[kind](3)
    x = Tokens(x.values.to(dtype), x.padding) if isinstance(x, Tokens) else x.to(dtype)
    assert noise_for(fill, x)(x, key, "a").dtype == dtype


@pytest.mark.parametrize(("fill", "kind"), [(f, k) for f in FILLS for k in MAKE if f != "zeros"])
def test_draws_differ_and_follow_the_key(fill, kind, key):
    x = MAKE[kind](4)
    noise = noise_for(fill, x)
    first, second = noise(x, key, "a", 2).chunk(2)
    assert not torch.equal(first, second)
    assert torch.equal(noise(x, key, "a", 2), noise(x, key, "a", 2))
    assert not torch.equal(noise(x, keys.key(1), "a", 2), noise(x, key, "a", 2))


@every_fill
def test_noise_for_many_models_at_once_equals_noise_one_by_one(fill, kind):
    pairs = [MAKE[kind](3) for _ in range(2)]
    noise = noise_for(fill, pairs[0])
    stacked, many = torch.stack([values(x) for x in pairs]), torch.stack([keys.key(s) for s in range(2)])

    def one(v, key):
        return noise(v, key, "a", 2)

    together = torch.func.vmap(one)(stacked, many)
    torch.testing.assert_close(together, torch.stack([one(v, k) for v, k in zip(stacked, many, strict=True)]))


@every_fill
def test_a_fill_carries_no_gradient_back_to_the_row_it_replaces(fill, kind, key):
    x = MAKE[kind](3)
    v = values(x).clone().requires_grad_()
    x = Tokens(v, x.padding) if isinstance(x, Tokens) else v
    noise = noise_for(fill, x)
    corrupted = values(noise.corrupt(x, constant_mask(x, True), key, "a"))
    (slope,) = torch.autograd.grad(corrupted[0].sum() + 0 * v.sum(), v)
    assert not slope[0].any()


@given(**sizes)
def test_hidden_tokens_are_hidden_exactly_where_the_mask_says(rows, draws, seed):
    x = MAKE["tokens"](rows)
    key = keys.key(seed)
    padding = torch.cat([x.padding] * draws)
    for mask, hidden in (
        (constant_mask(x, False), padding),
        (constant_mask(x, True), torch.ones_like(padding)),
        (constant_mask(x, True, rows), torch.ones_like(padding)),
    ):
        corrupted = HideTokens().corrupt(x, mask, key, "a", draws)
        assert torch.equal(corrupted.values, repeated(x, draws))
        assert torch.equal(corrupted.padding, hidden)
