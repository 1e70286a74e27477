import pytest
import torch
from torch import nn

from synib import (
    FusionModel,
    HideTokens,
    Mask,
    MatchedNoise,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
    keys,
)


def tokens_of(rows, length=5, width=3):
    padding = torch.zeros(rows, length, dtype=torch.bool)
    padding[0, -2:] = True
    return Tokens(torch.randn(rows, length, width), padding)


# Matched noise


def test_matched_noise_follows_the_moving_average_of_the_paper(key):
    noise, alpha = MatchedNoise(momentum=0.9), 0.9
    batches = [torch.randn(20, 3) * (i + 1) + i for i in range(3)]
    mean = variance = torch.zeros(3)
    for x in batches:
        noise.observe(x, "a")
        mean = alpha * mean + (1 - alpha) * x.mean(0)
        variance = alpha * variance + (1 - alpha) * x.var(0, correction=0)
    correction = 1 - alpha**3
    drawn = keys.normal(key, (20, 3))
    expected = mean / correction + (variance / correction).sqrt() * drawn
    torch.testing.assert_close(noise(batches[0], key, "a"), expected)


def test_widths_known_beforehand_make_the_buffers_of_the_state(key):
    x = torch.randn(20, 3) + 4
    late, early = MatchedNoise(), MatchedNoise(widths={"a": 3})
    assert not late.state_dict()
    assert set(early.state_dict()) == {"mean_a", "variance_a", "seen_a"}
    for n in (late, early):
        n.observe(x, "a")
    assert torch.equal(late(x, key, "a"), early(x, key, "a"))


def test_matched_noise_has_a_statistic_for_each_channel_of_a_map(key):
    noise = MatchedNoise()
    x = torch.randn(6, 2, 4, 4) * torch.tensor([1.0, 5.0]).view(2, 1, 1) + torch.tensor([0.0, 9.0]).view(2, 1, 1)
    noise.observe(x, "a")
    assert noise.mean_a.shape == (2,)
    fill = noise(x, key, "a", draws=50)
    assert fill.shape == (300, 2, 4, 4)
    torch.testing.assert_close(fill.mean((0, 2, 3)), x.mean((0, 2, 3)), atol=0.2, rtol=0)
    torch.testing.assert_close(fill.std((0, 2, 3)), x.std((0, 2, 3)), rtol=0.05, atol=0)


def test_matched_noise_leaves_padding_out_of_its_statistics():
    x = tokens_of(4)
    x.values[x.padding] = 1e6
    noise = MatchedNoise(momentum=0.0)
    noise.observe(x, "a")
    seen = x.values[~x.padding]
    torch.testing.assert_close(noise.mean_a, seen.mean(0))
    torch.testing.assert_close(noise.variance_a, seen.var(0, correction=0))


def test_matched_noise_without_a_batch_says_so(key):
    with pytest.raises(ValueError, match="has not seen a training batch of 'a'"):
        MatchedNoise()(torch.zeros(2, 3), key, "a")


def test_matched_noise_speaks_to_nobody_unless_it_is_given_a_group(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("nobody trains a copy of this model")

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", refuse)
    MatchedNoise().observe(torch.randn(4, 3), "a")
    with pytest.raises(AssertionError, match="nobody trains a copy"):
        MatchedNoise().observe(torch.randn(4, 3), "a", group="all")


# Shuffled noise


@pytest.mark.parametrize(("batch", "draws"), [(2, 1), (2, 3), (5, 1), (5, 4), (16, 7)])
def test_no_row_is_filled_with_itself_and_draws_differ(batch, draws):
    for k in keys.split(keys.key(1), 20):
        rows = ShuffledNoise().rows(k, batch, draws).view(draws, batch)
        assert (rows != torch.arange(batch)).all()
        for row in rows:
            assert sorted(row.tolist()) == list(range(batch))
        for example in rows.T[:, : batch - 1]:
            assert len(set(example.tolist())) == len(example)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_with_nobody_to_swap_with_is_refused(rows, key):
    with pytest.raises(ValueError, match=f"ShuffledNoise needs at least 2 rows in a batch.*; got {rows}"):
        ShuffledNoise()(torch.zeros(rows, 3), key)


@pytest.mark.parametrize("draws", [1, 3])
def test_a_swapped_token_brings_its_padding_along(draws, key):
    x = tokens_of(4)
    noise = ShuffledNoise()
    mask = keys.uniform(keys.fold(key, "mask"), (draws * 4, 5, 1)) < 0.5
    corrupted = noise.corrupt(x, mask, key, "a", draws)
    for i, donor in enumerate(noise.rows(key, 4, draws).tolist()):
        for t in range(5):
            source = donor if mask[i, t] else i % 4
            assert torch.equal(corrupted.values[i, t], x.values[source, t])
            assert corrupted.padding[i, t] == x.padding[source, t]


def test_single_coordinates_swapped_keep_the_padding_where_it_was(key):
    x = tokens_of(4)
    mask = torch.rand(4, 5, 3) < 0.5
    assert torch.equal(ShuffledNoise().corrupt(x, mask, key, "a").padding, x.padding)


@pytest.mark.parametrize("noise", [StandardNoise(), MatchedNoise()], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("mask_rows", [1, 3])
def test_a_single_row_may_be_corrupted_in_several_ways(noise, mask_rows, key, probe):
    x = torch.randn(1, 4)
    noise.observe(x, "a")
    mask = RandomMask(0.5)(x, key, probe, mask_rows)
    corrupted = noise.corrupt(x, mask, key, "a", draws=3)
    assert torch.equal(corrupted, torch.where(mask, noise(x, key, "a", 3), x))
    assert corrupted.shape == (3, 4)


# Hidden tokens


def test_hiding_needs_tokens_and_a_mask_over_them(key):
    with pytest.raises(ValueError, match=r"HideTokens needs 'a' as synib.Tokens.*got a tensor of shape \(2, 3\)"):
        HideTokens().corrupt(torch.zeros(2, 3), torch.ones(2, 1, dtype=torch.bool), key, "a")
    with pytest.raises(ValueError, match=r"hides whole tokens.*got a mask of shape \(4, 5, 3\)"):
        HideTokens().corrupt(tokens_of(4), torch.ones(4, 5, 3, dtype=torch.bool), key, "a")
    with pytest.raises(ValueError, match="has no values to mix in"):
        HideTokens()(tokens_of(4), key)


class Embed(nn.Linear):
    def forward(self, x):
        return Tokens(super().forward(x.values), x.padding)


class Attend(nn.Module):
    """A class token attends to the tokens of both modalities."""

    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, 4))
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(4, 3)

    def forward(self, latents):
        rows = len(next(iter(latents.values())).values)
        sequence = torch.cat([self.cls.expand(rows, -1, -1), *(z.values for z in latents.values())], 1)
        padding = torch.cat([torch.zeros(rows, 1, dtype=torch.bool), *(z.padding for z in latents.values())], 1)
        return self.out(self.encoder(sequence, src_key_padding_mask=padding)[:, 0])


class HideColumn(Mask):
    def __init__(self, column):
        super().__init__()
        self.column = column

    def forward(self, x, key, probe, draws=1):
        mask = torch.zeros(*x.padding.shape, 1, dtype=torch.bool)
        mask[:, self.column] = True
        return mask


def test_hiding_a_token_from_attention_equals_removing_it(key, separate_passes):
    model = FusionModel({"a": Embed(3, 4), "b": Embed(3, 4)}, Attend()).double()
    x = {name: Tokens(t.values.double(), t.padding) for name, t in {"a": tokens_of(4), "b": tokens_of(4, 2)}.items()}
    target = torch.arange(4) % 3
    _, parts = SynIB(HideColumn(1), HideTokens())(model, x, target, key=key)
    torch.testing.assert_close(SynIB(HideColumn(1), HideTokens())(separate_passes(model), x, target, key=key)[1], parts)
    for name in x:
        columns = [c for c in range(x[name].padding.shape[1]) if c != 1]
        shorter = {**x, name: Tokens(x[name].values[:, columns], x[name].padding[:, columns])}
        q = torch.softmax(model(shorter), -1)
        there = ~x[name].padding.all(1)  # the first row has no token of b: nothing to hide, and no penalty
        torch.testing.assert_close(parts[f"penalty/{name}"], (q * (3 * q).log()).sum(-1)[there].mean())


def test_matched_noise_is_standard_before_its_first_batch():
    noise = MatchedNoise(widths={"a": 3}).eval()
    drawn = noise(torch.full((4000, 3), 7.0), keys.key(0), "a")
    assert drawn.isfinite().all()
    assert drawn.mean().abs() < 0.05
    assert (drawn.std() - 1).abs() < 0.05


@pytest.mark.parametrize("tokens", [False, True])
def test_matched_noise_counts_a_row_of_weight_two_twice_and_one_of_weight_none_not_at_all(tokens):
    x = torch.randn(4, 5, 3) if tokens else torch.randn(4, 3)
    padding = torch.rand(4, 5) < 0.3
    weighted, repeated = MatchedNoise(momentum=0.0), MatchedNoise(momentum=0.0)
    rows = torch.tensor([0, 1, 1, 2])
    weight = torch.tensor([1.0, 2.0, 1.0, 0.0])
    weighted.observe(Tokens(x, padding) if tokens else x, "a", sample_weight=weight)
    repeated.observe(Tokens(x[rows], padding[rows]) if tokens else x[rows], "a")
    torch.testing.assert_close(weighted.mean_a, repeated.mean_a)
    torch.testing.assert_close(weighted.variance_a, repeated.variance_a)


def test_matched_noise_keeps_its_statistics_where_no_row_counts():
    noise, x = MatchedNoise(momentum=0.5), 5.0 + torch.randn(8, 3)
    noise.observe(x, "a")
    before = {name: buffer.clone() for name, buffer in noise.named_buffers()}
    noise.observe(x, "a", sample_weight=torch.zeros(8))
    assert all(torch.equal(buffer, before[name]) for name, buffer in noise.named_buffers())
