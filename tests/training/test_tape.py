"""Tapes of tensor operations: what is replayed does what was run, on the same memory."""

import gc
import weakref

import pytest
import torch

from synib.training import tape
from synib.training.tape import Tapes


def test_it_reads_and_changes_what_was_there_and_makes_the_rest_anew():
    weights, x, seen = torch.ones(2, 3), torch.arange(6.0).view(2, 3), []

    def run():
        left, right = (weights * x).split([1, 2], dim=1)
        total = torch.tensor(1.0).add_(left.sum() + right.transpose(0, 1).sum())
        weights.sub_(0.01 * total * x)
        seen.append(total)

    again = Tapes()(run)
    expected = weights.clone()
    expected -= 0.01 * (1.0 + (expected * (x + 1)).sum()) * (x + 1)
    x += 1
    again()
    assert torch.allclose(weights, expected)  # a constant that is changed in place starts anew each time
    assert len(seen) == 1


def test_gradients_of_vmapped_functions_are_replayed():
    w, x = torch.randn(3, 4, 2), torch.randn(3, 5, 4)

    def loss(w, x):
        return (x @ w).relu().square().mean()

    def run():
        w.sub_(0.1 * torch.func.vmap(torch.func.grad(loss))(w, x))

    plain, expected = w.clone(), torch.func.vmap(torch.func.grad(loss))
    again = Tapes()(run)
    again()
    for _ in range(2):
        plain -= 0.1 * expected(plain, x)
    assert torch.equal(w, plain)


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.add_(x.sum().item()),
        lambda x: x.add_(x[x > 0].sum()),
        lambda x: x.add_(len(x.nonzero())),
        lambda x: x.add_(1.0 if x.sum() > 0 else 2.0),
    ],
)
def test_what_depends_on_values_is_run_and_not_replayed(step):
    x = torch.tensor([-1.0, 2.0])
    expected = step(x.clone())
    assert Tapes()(lambda: step(x)) is None
    assert torch.equal(x, expected)


def test_what_makes_large_tensors_is_run_and_not_replayed(monkeypatch):
    monkeypatch.setattr(tape, "LARGEST", 100)
    x = torch.zeros(100)
    assert Tapes()(lambda: x.add_((x + 1) * 2)) is None
    assert torch.equal(x, torch.full((100,), 2.0))


def test_rows_can_be_taken_by_number():
    x, rows, out = torch.arange(4.0), torch.tensor([2, 0]), torch.zeros(2)
    again = Tapes()(lambda: out.copy_(x[rows]))
    rows.copy_(torch.tensor([3, 1]))
    again()
    assert out.tolist() == [3.0, 1.0]


def test_a_replay_leaves_no_tensors_to_the_garbage_collector():
    x = torch.zeros(3)
    alive = weakref.ref(x)

    def tape(x):
        return Tapes()(lambda: x.add_(1.0))

    again = tape(x)
    again()
    assert torch.equal(x, torch.full((3,), 2.0))
    gc.disable()
    try:
        del x, again
        assert alive() is None
    finally:
        gc.enable()


def test_a_recording_keeps_no_tensor_but_constants_and_confuses_none_that_have_the_same_place(monkeypatch):
    x, ended = torch.randn(1000), []

    def run():
        total = torch.zeros(())
        for _ in range(50):  # each tensor may have the memory, and the id, of one that ended before
            y = x * 2
            ended.append(weakref.ref(y))
            total = total + y.sum()
        x.mul_(0.5).add_(total)

    expected = x.clone()
    again = Tapes()(run)
    gc.collect()
    assert all(of() is None for of in ended)
    again()
    for _ in range(2):
        total = torch.zeros(())
        for _ in range(50):
            total = total + (expected * 2).sum()
        expected.mul_(0.5).add_(total)
    assert torch.equal(x, expected)
