"""The step of an ordinary loop, recorded: what is replayed trains what the loop trains."""

import copy

import pytest
import torch

import synib
from synib import keys
from synib.methods import MMPareto
from synib.training.tape import Tapes

OBJECTIVES = {
    "random": lambda: synib.SynIB(synib.RandomMask(0.4), synib.StandardNoise(), weight=2.0, check=False),
    "shuffled": lambda: synib.SynIB(weight=2.0, check=False),
    "annealed": lambda: synib.SynIB(
        synib.RandomMask(0.4), synib.MatchedNoise(), weight=synib.Annealing(3.0, steps=5), check=False
    ),
    "learned": lambda: synib.SynIB(synib.LearnedMask(steps=2), synib.StandardNoise(), check=False),
    "mmpareto": lambda: MMPareto(check=False),
}


def setting(objective="random", dropout=0.0, **adam):
    torch.manual_seed(0)
    model = synib.FusionModel.mlp({"a": 8, "b": 6}, hidden=[16], classes=3, head_hidden=[], dropout=dropout)
    optimizer = torch.optim.Adam(model.parameters(), **{"lr": torch.tensor(1e-2), "fused": True, **adam})
    return OBJECTIVES[objective](), model, optimizer


def batches(n, rows=12):
    torch.manual_seed(5)
    return [({"a": torch.randn(rows, 8), "b": torch.randn(rows, 6)}, torch.randint(3, (rows,))) for _ in range(n)]


def train(step, data):
    torch.manual_seed(1)
    return torch.stack([step(x, y)[0] for x, y in data])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_replayed_steps_train_what_plain_ones_do_with_new_draws_in_each(objective, dropout):
    plain, taped = (synib.recorded(*setting(objective, dropout), clip=0.5) for _ in range(2))
    assert "CUDA" in plain.reason
    taped.record(Tapes())
    data = batches(7)
    assert torch.equal(train(plain, data), train(taped, data))
    assert taped.reason == ""
    assert len(taped._recorded.replays) == 1
    assert all(replay is not None for replay in taped._recorded.replays.values())
    for mine, theirs in ((taped.model, plain.model), (taped.objective, plain.objective)):
        for name, value in theirs.state_dict().items():
            assert torch.equal(mine.state_dict()[name], value), name


def test_without_recording_it_is_the_ordinary_loop():
    objective, model, optimizer = setting()
    theirs, ours = copy.deepcopy(model), synib.recorded(objective, model, optimizer)
    ordinary = torch.optim.Adam(theirs.parameters(), lr=1e-2, fused=True)
    data = batches(4)
    torch.manual_seed(1)
    for x, y in data:
        loss, _ = OBJECTIVES["random"]()(theirs, x, y, key=keys.fresh())
        ordinary.zero_grad()
        loss.backward()
        ordinary.step()
    train(ours, data)
    for mine, other in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_learning_rate_in_a_tensor_is_followed_by_what_is_replayed():
    runs = []
    for how in (None, Tapes()):
        step = synib.recorded(*setting())
        schedule = torch.optim.lr_scheduler.ExponentialLR(step.optimizer, 0.5)
        if how is not None:
            step.record(how)
        for x, y in batches(6):
            step(x, y, key=keys.key(3))
            schedule.step()
        runs.append([p.detach() for p in step.model.parameters()])
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("change", ["lr", "eval"])
def test_what_is_not_in_tensors_is_recorded_anew_when_it_changes(change):
    runs = []
    for how in (None, Tapes()):
        step = synib.recorded(*setting(dropout=0.3, lr=1e-2))
        if how is not None:
            step.record(how)
        for i, (x, y) in enumerate(batches(9)):
            if i == 5 and change == "lr":
                step.optimizer.param_groups[0]["lr"] = 1e-3
            elif i == 5:
                step.model.eval()
            step(x, y, key=keys.key(i))
        assert how is None or step.reason == ""
        runs.append([p.detach() for p in step.model.parameters()])
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)


def test_batches_of_other_shapes_examples_and_weights_are_recorded_apart():
    data = [*batches(4), *batches(2, rows=5), *batches(2)]
    totals = []
    for how in (None, Tapes()):
        step = synib.recorded(*setting())
        if how is not None:
            step.record(how)
        losses = [
            step(x, y, key=keys.key(i), sample_weight=torch.rand(len(y), generator=torch.Generator().manual_seed(i)))[0]
            for i, (x, y) in enumerate(data)
        ]
        totals.append(torch.stack(losses))
    assert torch.equal(*totals)


class Waits(synib.SynIB):
    def loss(self, model, batch, key):
        total, parts = super().loss(model, batch, key)
        return total * (1.0 if total.item() > 0 else 2.0), parts


class Counts(synib.SynIB):
    calls = 0

    def loss(self, model, batch, key):
        self.calls += 1
        return super().loss(model, batch, key)


@pytest.mark.parametrize(("kind", "reason"), [(Waits, "depends on values"), (Counts, "outside of tensors")])
def test_what_cannot_be_recorded_goes_on_as_an_ordinary_loop_and_says_why(kind, reason):
    runs = []
    for how in (None, Tapes()):
        _, model, optimizer = setting()
        step = synib.recorded(kind(synib.RandomMask(0.4), check=False), model, optimizer)
        if how is not None:
            step.record(how)
        runs.append(train(step, batches(5)))
        assert reason in step.reason or how is None
    assert torch.equal(*runs)


def test_wrong_arguments_are_named():
    objective, model, optimizer = setting()
    with pytest.raises(ValueError, match="objective"):
        synib.recorded(model, model, optimizer)
    with pytest.raises(ValueError, match="optimizer"):
        synib.recorded(objective, model, model)
    with pytest.raises(ValueError, match="clip"):
        synib.recorded(objective, model, optimizer, clip=-1.0)


def test_keys_of_a_seed_repeat_a_step():
    first, second = (synib.recorded(*setting(dropout=0.3)) for _ in range(2))
    (x, y), *_ = batches(1)
    assert torch.equal(first(x, y, key=keys.key(3))[0], second(x, y, key=keys.key(3))[0])
