"""A batch's gradient in a loop of one's own, where parameters are frozen, shared, or weigh nothing."""

import pytest
import torch
from torch import nn

import synib
from synib.measure import correct
from synib.methods import Confidence, MMPareto, Vanilla
from synib.models import Dropout
from synib.objective import Batch, Objective
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import backward
from synib.training.loop import fit


@pytest.fixture
def model():
    return synib.FusionModel.mlp({"a": 4, "b": 3}, hidden=[8], classes=3, head_hidden=[], dropout=0.3)


@pytest.fixture
def batch():
    return {"a": torch.randn(12, 4), "b": torch.randn(12, 3)}, torch.arange(12) % 3


def test_a_frozen_branch_takes_no_part_in_weighing_gradients(model, batch):
    for part in (model.encoders["a"], model.heads["a"]):
        part.requires_grad_(False)
    backward(MMPareto(), model, *batch)
    assert all(p.grad is None for p in model.encoders["a"].parameters())
    assert all(p.grad is not None for p in model.encoders["b"].parameters())


def test_gradients_of_two_parameters_are_never_one_tensor(batch):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = (nn.Parameter(torch.randn(1, 8)) for _ in range(2))
            self.encoder = nn.Linear(4, 8)

        def forward(self, x):
            return self.encoder(x) + (self.p + self.q)

    fusion = synib.models.ConcatFusion({"a": 8, "b": 3}, [8, 3])
    model = synib.FusionModel({"a": Sum(), "b": nn.Identity()}, fusion)
    backward(Vanilla(), model, *batch)
    p, q = model.encoders["a"].p, model.encoders["a"].q
    assert torch.equal(p.grad, q.grad)
    assert p.grad.data_ptr() != q.grad.data_ptr()


def test_a_batch_in_which_nothing_counts_has_no_gradient_that_is_not_a_number(model, batch):
    for method in (Confidence(), Vanilla(), synib.SynIB()):
        loss, _ = backward(method, model, *batch, sample_weight=torch.zeros(12))
        assert loss == 0
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_after_a_loop_dropout_draws_from_torchs_generator_again():
    data = spurious_xor(beta=0.0, train=60, test=60)
    model = synib.FusionModel.mlp(data.widths, hidden=[8], dropout=0.3)
    fit(Vanilla(synib.Bernoulli()), model, data, lr=1e-3, epochs=1, batch_size=30)
    assert [part.key for part in model.modules() if isinstance(part, Dropout)] == [None, None, None]


def test_values_are_looked_at_in_the_first_batch_where_looking_means_waiting():
    class Asked(Objective):
        def loss(self, model, batch: Batch, key):
            raise AssertionError

    once = Asked()
    assert [once.value_check(), once.value_check()] == [True, None]
    assert Asked(check=False).value_check() is False


@pytest.mark.parametrize(
    ("family", "prediction", "target", "right"),
    [
        (synib.Categorical(), [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.6, 0.3, 0.1], [0.5, 0.2, 0.3]], [1, 0]),
        (synib.Bernoulli(), [[2.0], [2.0]], [0.7, 0.2], [1, 0]),
    ],
)
def test_of_a_soft_target_the_most_probable_class_counts(family, prediction, target, right):
    assert correct(family, torch.tensor(prediction), torch.tensor(target)).tolist() == right
