"""A recorded step: the same operations on the same memory, with the same digits."""

import pytest
import torch

from synib.methods import METHODS, Vanilla
from synib.objective import Bernoulli
from synib.training import fleet, stacked
from synib.training.recorded import Recorded
from synib.training.stacked import StackedModels
from synib.training.tape import Tapes


class Counted(Tapes):
    """Tapes that count; with ``runs=False`` they record as a CUDA graph does, without running anything."""

    def __init__(self, *held, runs=True):
        self.held, self.runs, self.recorded, self.replayed = held, runs, 0, 0

    def __call__(self, run):
        self.recorded += 1
        before = [(t, t.clone()) for t in self.held]
        again = super().__call__(run)
        for tensor, value in before if not self.runs else ():
            tensor.copy_(value)

        def replay():
            self.replayed += 1
            again()

        return None if again is None else replay


@pytest.fixture
def counted(monkeypatch):
    """Counts the tapes of every fleet that is made."""
    made = []

    def record():
        made.append(Counted())
        return made[-1]

    monkeypatch.setattr(stacked, "Tapes", record)
    return made


@pytest.fixture
def unrecorded(monkeypatch):
    """Lets a fleet run every step as an ordinary one."""

    def use():
        plain = StackedModels.__init__

        def init(self, *arguments):
            plain(self, *arguments)
            self.recorded = None

        monkeypatch.setattr(StackedModels, "__init__", init)

    return use


@pytest.mark.parametrize("method", METHODS)
def test_recorded_steps_train_what_plain_ones_do(tiny, cell, method, counted, unrecorded):
    cells = [cell(method, beta=beta, seed=seed, epochs=4) for seed, beta in enumerate((0.0, 1.0))]
    recorded = fleet.train(tiny(0.3), cells)
    (steps,) = counted
    # An epoch has two batches of 16 and one of 8. A method that follows the epoch is recorded anew in each of the four; one
    # whose second stage begins after the first epoch, once more.
    follows = hasattr(recorded.fleet.template.method, "epoch")
    two_stages = method in ("product-of-experts", "learned-mixin", "jtt")
    assert (steps.recorded, steps.replayed) == ((4, 0) if follows else (3, 2 + 3) if two_stages else (2, 6 + 2))
    unrecorded()
    plain = fleet.train(tiny(0.3), cells)
    assert plain.fleet.recorded is None
    for name, value in (plain.fleet.parameters | plain.fleet.buffers).items():
        assert torch.equal((recorded.fleet.parameters | recorded.fleet.buffers)[name], value), name
    assert recorded.metrics == plain.metrics


@pytest.mark.parametrize("runs", [True, False])
def test_the_first_call_runs_the_second_records_and_later_ones_replay(runs):
    total, calls = torch.zeros(3), []

    def run(x, y):
        calls.append(x)
        total.add_(x["a"] * y)

    steps = Recorded(Counted(total, runs=runs))
    for i in range(5):
        steps(run, {"a": torch.full((3,), float(i))}, torch.tensor(2.0))
    assert total.tolist() == [20.0] * 3
    assert len(calls) == 2
    assert (steps.record.recorded, steps.record.replayed) == (1, 3 if runs else 4)


def test_other_shapes_are_recorded_apart():
    total = torch.zeros(())
    steps = Recorded(Counted())
    for n in (2, 3, 2, 3, 3, 2):
        steps(lambda x: total.add_(x.sum()), torch.ones(n))
    assert total == 15
    assert (steps.record.recorded, steps.record.replayed) == (2, 2)


def test_after_forgetting_it_is_recorded_anew():
    total = torch.zeros(())
    steps = Recorded(Counted())
    for by in (1.0, 10.0):
        steps.forget()
        for _ in range(3):
            steps(lambda x, by=by: total.add_(x * by), torch.ones(()))
    assert total == 33
    assert steps.record.recorded == 2


def test_what_cannot_be_recorded_goes_on_as_it_was():
    total, tried = torch.zeros(()), []

    class Refuses:
        runs = False

        def __call__(self, run):
            tried.append(run)
            raise RuntimeError("operation not permitted when stream is capturing")

    steps = Recorded(Refuses())
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
    tiny, cell, counted, unrecorded, where, recorded
):
    class Counts(tiny):
        def method(self, cell, data):
            return Counting(where, family=Bernoulli())

    if not recorded:
        unrecorded()
    trained = fleet.train(Counts(), [cell(epochs=3)]).fleet  # nine steps
    buffers = {name.removeprefix("method."): b[0].tolist() for name, b in trained.buffers.items()}
    assert buffers | {"current": 9.0, "previous": 8.0, "last": 8.0, "history": [8.0, 9.0]} == buffers
    assert buffers["turned"] == [[0.0, 2.0], [1.0, 3.0]]
    if recorded:
        assert (counted[0].recorded == 0) is (where is not None)
    if where is not None:
        assert getattr(trained.template.method, where) == 9
