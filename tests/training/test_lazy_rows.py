"""Rows that are read batch by batch are those of a tensor."""

import numpy as np
import pytest
import torch

from synib.files.pages import RowReader
from synib.tokens import Tokens, optional
from synib.tokens import stack as stack_all
from synib.training.batches import batches, shared, side_by_side
from synib.training.lazy_rows import LazyRows, StackedRows, in_order


@pytest.fixture(params=[False, True], ids=["all rows have it", "some lack it"])
def folds(request):
    """Lazy rows of two folds of one table, and the same as tensors."""
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(40, 5, generator=draw).numpy()
    reader = RowReader(table)
    lazy, eager = [], []
    for _ in range(2):
        index = torch.randperm(40, generator=draw)[:12]
        mean, factor = torch.randn(5, generator=draw), torch.rand(5, generator=draw)
        present = torch.rand(12, generator=draw) > 0.3 if request.param else None
        x = (torch.from_numpy(table)[index] - mean) * factor
        lazy.append(LazyRows(reader, index, mean, factor, present))
        eager.append(x if present is None else optional(x, present))
    return lazy, eager


def same(one, other):
    if isinstance(one, Tokens):
        return torch.equal(one.values, other.values) and torch.equal(one.padding, other.padding)
    return torch.equal(one, other)


def test_they_are_indexed_as_a_tensor_is(folds):
    for lazy, eager in zip(*folds, strict=True):
        assert len(lazy) == 12
        assert lazy.shape == (12, 5)
        for rows in (slice(None), slice(3, 7), torch.tensor([5, 0, 5])):
            assert same(lazy[rows], in_order(eager, rows))
        order = torch.tensor([4, 2, 2])
        assert isinstance(in_order(lazy, order), LazyRows)
        assert same(in_order(lazy, order)[:], in_order(eager, order))


def test_examples_that_models_share_are_moved_once_and_repeated(folds):
    (_, different), places = folds, [0, 1, 0, 0]
    repeated = shared(different, places, torch.device("cpu"))
    assert same(repeated, stack_all([different[i] for i in places]))


def test_models_side_by_side_read_what_stacked_tensors_hold_and_share_the_rows_of_a_fold(folds):
    lazy, eager = ([f[0], f[1], f[0]] for f in folds)
    both, stacked = side_by_side(lazy, torch.device("cpu")), stack_all(eager)
    assert isinstance(both, StackedRows)
    assert len(both._index) == 2  # a fold's rows are there once
    order = torch.stack([torch.randperm(12, generator=torch.Generator().manual_seed(i)) for i in range(3)])
    each = torch.arange(3)[:, None]
    for where in ((slice(None), slice(None)), (slice(None), slice(2, 9)), (each, order), (each, order[:, 4:6])):
        expected = Tokens(*(part[where] for part in stacked)) if isinstance(stacked, Tokens) else stacked[where]
        assert same(both[where], expected)
    found, wanted = (list(batches({"x": x}, order, 5)) for x in (both, stacked))
    assert len(found) == len(wanted) == 3
    assert all(same(a["x"], b["x"]) for a, b in zip(found, wanted, strict=True))


def test_what_models_see_alike_is_read_once(folds, monkeypatch):
    lazy = [folds[0][0], folds[0][1], folds[0][0]]
    both, counts = side_by_side(lazy, torch.device("cpu")), []
    read = RowReader.__call__
    monkeypatch.setattr(RowReader, "__call__", lambda self, rows: counts.append(len(rows)) or read(self, rows))
    each = torch.arange(3)[:, None]
    alike, apart = torch.tensor([4, 0, 7]).expand(3, 3), torch.tensor([[1, 2], [1, 2], [2, 1]])
    for where in ((each, alike), (each, apart), (slice(None), slice(0, 5))):
        both[where]
    assert counts == [2 * 3, 3 * 2, 2 * 5]  # of two folds; of three orders; of two folds


def test_an_error_while_a_batch_is_read_reaches_the_epoch():
    broken = LazyRows(RowReader(np.zeros((3, 2), np.float32)), torch.tensor([0, 7]), torch.zeros(2), torch.ones(2))
    read = batches({"x": side_by_side([broken], torch.device("cpu"))}, torch.tensor([[0, 1]]), 1)
    assert next(read)["x"].shape == (1, 1, 2)
    with pytest.raises(IndexError):
        next(read)
