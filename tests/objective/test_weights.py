import pytest
import torch

from synib import Annealing, FusionModel, LinearWarmup, RandomMask, StandardNoise, SynIB
from synib.objective import Constant


@pytest.mark.parametrize(
    ("schedule", "weights"),
    [
        (Constant(8.0), [8.0] * 6),
        (LinearWarmup(8.0, steps=4), [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]),
        (Annealing(8.0, steps=4), [8.0, 6.0, 4.0, 2.0, 0.0, 0.0]),
        (Annealing(8.0, steps=4, floor=4.0), [8.0, 7.0, 6.0, 5.0, 4.0, 4.0]),
    ],
)
def test_a_weight_is_constant_grows_linearly_and_stays_or_falls_linearly_to_its_floor(schedule, weights):
    assert [schedule(torch.tensor(step)).item() for step in range(6)] == weights


def test_a_penalty_that_was_annealed_away_teaches_nothing(key):
    model = FusionModel.mlp({"a": 2, "b": 2}, hidden=[3], classes=2)
    x, y = {"a": torch.randn(4, 2), "b": torch.randn(4, 2)}, torch.tensor([0, 1, 0, 1])
    objective = SynIB(RandomMask(), StandardNoise(), weight=Annealing(2.0, steps=2))
    told = [objective(model, x, y, key=key) for _ in range(4)]
    assert [parts["weight"].item() for _, parts in told] == [2.0, 1.0, 0.0, 0.0]
    assert [torch.equal(loss, parts["task"]) for loss, parts in told] == [False, False, True, True]


def test_steps_count_in_training_mode_only(key):
    model = FusionModel.mlp({"a": 2, "b": 2}, hidden=[3], classes=2)
    x, y = {"a": torch.randn(4, 2), "b": torch.randn(4, 2)}, torch.tensor([0, 1, 0, 1])
    objective = SynIB(RandomMask(), StandardNoise(), weight=LinearWarmup(1.0, steps=4))

    def weight():
        return objective(model, x, y, key=key)[1]["weight"].item()

    assert [weight(), weight()] == [0.25, 0.5]
    objective.eval()
    assert [weight(), weight()] == [0.75, 0.75]
    objective.train()
    assert [weight(), weight(), weight()] == [0.75, 1.0, 1.0]
    assert objective.step == 5


def test_a_floor_is_at_most_the_weight():
    with pytest.raises(ValueError, match="floor must be at most the weight, 3; got 4"):
        Annealing(3.0, steps=5, floor=4.0)
    assert "floor=2" in repr(Annealing(3.0, steps=5, floor=2.0))
