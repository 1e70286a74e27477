"""Gradient-Blending: weights from generalisation and overfitting, and when they are set."""

import pytest
import torch

from synib import Categorical, FusionModel, keys
from synib.methods import GradientBlending
from synib.methods.gradient_blending import blended
from synib.objective import Batch


@pytest.mark.parametrize(
    ("validation", "train", "expected"),
    [
        # ΔG = .4, .2; ΔO = .2 - 0, .1 - 0: ratios 10 and 20.
        ((0.6, 0.8), (0.4, 0.7), (2 / 3, 4 / 3)),
        # The second one's validation loss rose: only the first counts.
        ((0.6, 1.2), (0.4, 0.7), (2.0, 0.0)),
        # Neither generalised: weights stay.
        ((1.1, 1.2), (0.4, 0.7), (0.5, 1.5)),
        # No overfitting at all has a weight that is bounded.
        ((0.6, 0.8), (0.6, 0.7), (2 * 4e5 / (4e5 + 20), 40 / (4e5 + 20))),
    ],
)
def test_a_loss_weighs_by_its_generalisation_over_its_squared_overfitting(validation, train, expected):
    before, now = torch.ones(2, 2, dtype=torch.double), torch.tensor([train, validation], dtype=torch.double)
    found = blended(before, now, torch.tensor([0.5, 1.5], dtype=torch.double))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.double))


@pytest.fixture
def attached():
    model = FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], classes=3, head_hidden=[])
    method = GradientBlending(every=2, family=Categorical())
    method.attach(model)
    return model, method


def batch(rows):
    return Batch({"a": torch.randn(rows, 5), "b": torch.randn(rows, 4)}, torch.arange(rows) % 3)


def losses(model, split):
    """Of the fusion and the heads."""
    predictions = [model(split.modalities), *model.unimodal(split.modalities).values()]
    return torch.stack([Categorical().nll(p, split.target).mean() for p in predictions])


def test_the_first_estimate_counts_from_the_initial_weights_and_the_next_from_the_last(attached):
    model, method = attached
    train, validation = batch(20), batch(20)
    initial = {name: p.detach().clone() for name, p in model.named_parameters()}
    seen = [torch.stack([losses(model, s) for s in (train, validation)])]
    for _ in range(2):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0.7)  # towards the uniform prediction
            seen.append(torch.stack([losses(model, s) for s in (train, validation)]))
            assert method.revise(model, train, validation, initial, keys.key(0)) == {}
    first = blended(seen[0], seen[1], torch.ones(3))
    torch.testing.assert_close(method.blend, blended(seen[1], seen[2], first))
    assert not torch.allclose(method.blend, torch.ones(3))


def test_the_loss_is_the_weighted_sum_of_all_losses(attached):
    model, method = attached
    method.blend = torch.tensor([0.5, 2.0, 0.3])
    split = batch(12)
    loss, parts = method(model, split.modalities, split.target)
    torch.testing.assert_close(loss, (losses(model, split) * method.blend).sum())
    assert float(parts["blend/b"]) == pytest.approx(0.3)


def test_it_estimates_after_every_so_many_epochs():
    assert [e for e in range(9) if GradientBlending(every=3).revises(e)] == [2, 5, 8]


def test_heads_that_do_not_reach_the_encoders_are_refused():
    model = FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], classes=3, head_hidden=[], detach_heads=True)
    method = GradientBlending()
    method.attach(model)
    split = batch(4)
    with pytest.raises(ValueError, match="construct the model with detach_heads=False"):
        method(model, split.modalities, split.target)
