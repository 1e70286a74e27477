import pytest
import torch

from synib import Tokens, tokens


def sequence(rows):
    return Tokens(torch.randn(rows, 3, 2), torch.rand(rows, 3) < 0.3)


def same(a, b):
    if isinstance(a, Tokens):
        return isinstance(b, Tokens) and torch.equal(a.values, b.values) and torch.equal(a.padding, b.padding)
    return torch.equal(a, b)


kinds = pytest.mark.parametrize("make", [lambda rows: torch.randn(rows, 4), sequence], ids=["tensor", "tokens"])


@kinds
def test_splitting_undoes_joining(make):
    pieces = [make(2), make(3), make(1)]
    back = tokens.split(tokens.join(pieces), [2, 3, 1])
    assert all(same(a, b) for a, b in zip(pieces, back, strict=True))


@kinds
def test_joining_one_batch_gives_it_back_uncopied(make):
    x = make(2)
    assert tokens.join([x]) is x


@kinds
def test_taking_rows_takes_padding_along(make):
    x = make(4)
    rows = torch.tensor([3, 0, 3])
    assert same(tokens.take(x, rows), tokens.join([tokens.split(x, [1, 1, 1, 1])[i] for i in rows]))


@kinds
def test_values_of_a_modality_can_be_exchanged(make):
    x = make(4)
    new = torch.randn_like(tokens.values(x))
    changed = tokens.with_values(x, new)
    assert tokens.values(changed) is new
    assert type(changed) is type(x)


def test_padding_is_repeated_for_several_draws():
    x = sequence(2)
    changed = tokens.with_values(x, torch.randn(6, 3, 2))
    assert torch.equal(changed.padding, torch.cat([x.padding] * 3))


@kinds
def test_stacking_puts_batches_side_by_side(make):
    batches = [make(3), make(3)]
    stacked = tokens.stack(batches)
    assert all(same(tokens.take(stacked, (torch.tensor(i),)), batch) for i, batch in enumerate(batches))
    assert same(
        tokens.take(stacked, (slice(None), slice(1, 3))), tokens.stack([tokens.take(b, slice(1, 3)) for b in batches])
    )


@kinds
def test_moving_takes_padding_along(make):
    moved = tokens.move(make(3), "meta")
    assert {t.device.type for t in ([*moved] if isinstance(moved, Tokens) else [moved])} == {"meta"}


def test_the_same_batch_many_times_is_stacked_without_a_copy():
    x = torch.randn(3, 2)
    stacked = tokens.stack([x, x, x])
    assert stacked.shape == (3, 3, 2)
    assert stacked.data_ptr() == x.data_ptr()
    assert torch.equal(stacked, torch.stack([x, x, x]))
    many_tokens = Tokens(torch.randn(3, 2, 4), torch.zeros(3, 2, dtype=torch.bool))
    many = tokens.stack([many_tokens, many_tokens])
    assert many.values.data_ptr() == many_tokens.values.data_ptr()
    assert torch.equal(many.padding, torch.stack([many_tokens.padding] * 2))
