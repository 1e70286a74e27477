"""A recorded step, replayed by a tape instead of a CUDA graph: the same operations on the same memory, on any device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from synib.methods import METHODS, Vanilla
from synib.objective import Bernoulli
from synib.training import fleet
from synib.training.recorded import Recorded
from synib.training.stacked import StackedModels


class Tape(TorchDispatchMode):
    """What a CUDA graph does: while it records nothing changes; afterwards every operation runs again, and no Python.

    A tensor that was there before is read and written where it lies; one that was made while recording is made anew.
    """

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    def replay(self):
        now = {}

        def current(tensor):
            return now.get(id(tensor), tensor)

        for func, args, kwargs, out in self.operations:
            args, kwargs = tree_map_only(torch.Tensor, current, (args, kwargs))
            made = func(*args, **kwargs)
            for before, new in zip(tensors(out), tensors(made), strict=True):
                now.setdefault(id(before), new)


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Tapes:
    """Records with tapes; counts how often."""

    def __init__(self, *held):
        self.held, self.recorded, self.replayed = held, 0, 0

    def __call__(self, run):
        self.recorded += 1
        before = [(t, t.clone()) for t in self.state()]
        with Tape() as tape:
            run()
        for tensor, value in before:  # to record is not to run
            tensor.copy_(value)

        def replay():
            self.replayed += 1
            tape.replay()

        return replay

    def state(self):
        return self.held


class OfFleet(Tapes):
    """Tapes of the steps of a fleet."""

    def __init__(self, trained):
        super().__init__()
        self.trained = trained

    def state(self):
        fleet = self.trained
        moments = [t for state in fleet.optimiser.state.values() for t in state.values()]
        return [*fleet.parameters.values(), *fleet.buffers.values(), *moments]


@pytest.fixture
def taped(monkeypatch):
    """Every fleet that is made records its steps with tapes; gives the recorders."""
    made, plain = [], StackedModels.__init__

    def init(self, *arguments):
        plain(self, *arguments)
        self.recorded = Recorded(OfFleet(self))
        made.append(self.recorded)

    monkeypatch.setattr(StackedModels, "__init__", init)
    return made


@pytest.mark.parametrize("method", METHODS)
def test_recorded_steps_train_what_plain_ones_do(tiny, cell, method, taped, monkeypatch):
    cells = [cell(method, beta=beta, seed=seed, epochs=4) for seed, beta in enumerate((0.0, 1.0))]
    recorded = fleet.train(tiny(0.3), cells)
    (steps,) = taped
    # An epoch has two batches of 16 and one of 8. A method that follows the epoch is recorded anew in each of the four.
    follows = hasattr(recorded.fleet.template.method, "epoch")
    assert (steps.record.recorded, steps.record.replayed) == ((4, 4) if follows else (2, 7 + 3))
    monkeypatch.undo()
    plain = fleet.train(tiny(0.3), cells)
    assert plain.fleet.recorded is None
    for name, value in (plain.fleet.parameters | plain.fleet.buffers).items():
        assert torch.equal((recorded.fleet.parameters | recorded.fleet.buffers)[name], value), name
    assert recorded.metrics == plain.metrics


def test_the_first_call_runs_the_second_records_and_later_ones_replay():
    total, calls = torch.zeros(3), []

    def run(x, y):
        calls.append(x)
        total.add_(x["a"] * y)

    steps = Recorded(Tapes(total))
    for i in range(5):
        steps(run, {"a": torch.full((3,), float(i))}, torch.tensor(2.0))
    assert total.tolist() == [20.0] * 3
    assert len(calls) == 2
    assert (steps.record.recorded, steps.record.replayed) == (1, 4)


def test_other_shapes_are_recorded_apart():
    total = torch.zeros(())
    steps = Recorded(Tapes(total))
    for n in (2, 3, 2, 3, 3, 2):
        steps(lambda x: total.add_(x.sum()), torch.ones(n))
    assert total == 15
    assert (steps.record.recorded, steps.record.replayed) == (2, 4)


def test_after_forgetting_it_is_recorded_anew():
    total = torch.zeros(())
    steps = Recorded(Tapes(total))
    for by in (1.0, 10.0):
        steps.forget()
        for _ in range(3):
            steps(lambda x, by=by: total.add_(x * by), torch.ones(()))
    assert total == 33
    assert steps.record.recorded == 2


def test_what_cannot_be_recorded_goes_on_as_it_was():
    total, tried = torch.zeros(()), []

    def refuse(run):
        tried.append(run)
        raise RuntimeError("operation not permitted when stream is capturing")

    steps = Recorded(refuse)
    for i in range(5):
        steps(total.add_, torch.tensor(float(i)))
    assert total == 10
    assert len(tried) == 1


class Counting(Vanilla):
    """Keeps the last two steps in buffers; and where it says, how often it was called, where no recorded step would count."""

    def __init__(self, where=None, **settings):
        super().__init__(**settings)
        self.where, self.calls, self._calls = where, 0, 0
        self.register_buffer("current", torch.zeros(()))
        self.register_buffer("previous", torch.zeros(()))
        self.register_buffer("history", torch.zeros(2))
        self.register_buffer("last", torch.zeros(()))
        self.register_buffer("turned", torch.tensor([[0.0, 1.0], [2.0, 3.0]]))

    def loss(self, model, batch, key):
        self.previous, self.current = self.current, self.current + 1
        self.last = self.history[1]
        self.history = torch.stack([self.history[1], self.history[1] + 1])
        self.turned = self.turned.t()
        if self.where is not None:
            setattr(self, self.where, getattr(self, self.where) + 1)
        return super().loss(model, batch, key)


@pytest.mark.parametrize("where", [None, "calls", "_calls"])
@pytest.mark.parametrize("recorded", [True, False])
def test_buffers_that_move_on_are_recorded_and_what_counts_outside_of_tensors_is_not(
    tiny, cell, request, where, recorded
):
    class Counts(tiny):
        def method(self, cell, data):
            return Counting(where, family=Bernoulli())

    made = request.getfixturevalue("taped") if recorded else []
    trained = fleet.train(Counts(), [cell(epochs=3)]).fleet  # nine steps
    buffers = {name.removeprefix("method."): b[0].tolist() for name, b in trained.buffers.items()}
    assert buffers | {"current": 9.0, "previous": 8.0, "last": 8.0, "history": [8.0, 9.0]} == buffers
    assert buffers["turned"] == [[0.0, 2.0], [1.0, 3.0]]
    if recorded:
        assert (made[0].record.recorded == 0) is (where is not None)
    if where is not None:
        assert getattr(trained.template.method, where) == 9
