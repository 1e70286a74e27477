import pytest
import torch

from synib import Bernoulli, Fixed, FusionModel, LinearWarmup, RandomMask, StandardNoise, SynIB
from synib.methods import Confidence

WIDTHS = {"a": 4, "b": 3, "c": 2}


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize(
    "settings", [{"weight": 2.0}, {"weight": 2.0, "reference": Fixed(0.3), "unimodal_weight": 0.1}]
)
def test_the_confidence_penalty_is_synib_with_a_mask_that_corrupts_nothing(names, settings, key):
    widths = {name: WIDTHS[name] for name in names}
    model = FusionModel.mlp(widths, hidden=[5], classes=1, head_hidden=[]).double()
    x = {name: torch.randn(6, width, dtype=torch.float64) for name, width in widths.items()}
    y = torch.arange(6) % 2
    loss, parts = Confidence(family=Bernoulli(), **settings)(model, x, y)
    expected, others = SynIB(RandomMask(0.0), StandardNoise(), family=Bernoulli(), **settings)(model, x, y)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(parts["penalty"], others["penalty/a"])
    gradients = (torch.autograd.grad(t, list(model.parameters())) for t in (loss, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_its_weight_may_follow_the_step():
    model = FusionModel.mlp({"a": 4, "b": 3}, hidden=[5], classes=3)
    x, y = {"a": torch.randn(6, 4), "b": torch.randn(6, 3)}, torch.arange(6) % 3
    objective = Confidence(weight=LinearWarmup(1.0, 2))
    assert [objective(model, x, y)[1]["weight"].item() for _ in range(3)] == [0.5, 1.0, 1.0]
