"""The step of an ordinary loop as a CUDA graph: it trains what the loop trains, with new draws in each step."""

import copy

import pytest
import torch

import synib
from synib import keys
from synib.methods import MMPareto

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

OBJECTIVES = {
    "random": lambda: synib.SynIB(synib.RandomMask(0.4), synib.StandardNoise(), weight=2.0),
    "shuffled": lambda: synib.SynIB(weight=2.0),
    "annealed": lambda: synib.SynIB(synib.RandomMask(0.4), synib.MatchedNoise(), weight=synib.Annealing(3.0, steps=5)),
    "learned": lambda: synib.SynIB(synib.LearnedMask(steps=2), synib.StandardNoise()),
    "mmpareto": MMPareto,
}


def runs(objective, optimizer="Adam", schedule=False, **options):
    """Losses and parameters of ten steps, recorded and plain."""
    torch.manual_seed(0)
    start = synib.FusionModel.mlp({"a": 8, "b": 6}, hidden=[16], classes=3, head_hidden=[], dropout=0.3).cuda()
    data = [
        ({"a": torch.randn(12, 8).cuda(), "b": torch.randn(12, 6).cuda()}, torch.randint(3, (12,)).cuda())
        for _ in range(10)
    ]
    out = []
    for plain in (False, True):
        model = copy.deepcopy(start)
        step = synib.recorded(
            objective(), model, getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2), **options
        )
        if plain:
            step._plain("asked")
        rates = torch.optim.lr_scheduler.ExponentialLR(step.optimizer, 0.8) if schedule else None
        losses = []
        for i, (x, y) in enumerate(data):
            losses.append(step(x, y, key=keys.key(i))[0])
            if rates is not None:
                rates.step()
        out.append((step, torch.stack(losses), [p.detach() for p in model.parameters()]))
    return out


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_replayed_steps_train_what_plain_ones_do(objective):
    (recorded, losses, parameters), (_, expected, theirs) = runs(objective, clip=0.5)
    assert recorded.reason == ""
    assert any(replay is not None for replay in recorded._recorded.replays.values())
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for mine, other in zip(parameters, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD"])
def test_schedules_of_the_learning_rate_are_followed(optimizer):
    (recorded, losses, _), (_, expected, _) = runs(OBJECTIVES["random"], optimizer, schedule=True)
    assert recorded.reason == ""
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)


class Waits(synib.SynIB):
    def loss(self, model, batch, key):
        total, parts = super().loss(model, batch, key)
        return total * (1.0 if total.item() > 0 else 2.0), parts


def test_a_step_that_waits_for_the_device_goes_on_as_an_ordinary_one():
    def waits():
        return Waits(synib.RandomMask(0.4), weight=synib.Annealing(3.0, steps=5))

    (recorded, losses, _), (_, expected, _) = runs(waits)
    assert "copies from the host" in recorded.reason
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
