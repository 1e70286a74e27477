"""Targets as users' losses take them: class weights, label smoothing, ignored and soft targets, sample weights."""

import pytest
import torch
from torch import nn

from synib import (
    Bernoulli,
    Categorical,
    LearnedMask,
    MultiLabel,
    Noise,
    OnLatents,
    OracleMask,
    Prior,
    RandomMask,
    SynIB,
)
from synib.methods import Vanilla
from synib.tokens import values

WEIGHTS = [0.5, 1.0, 2.5]
OPTIONS = [{}, {"weight": WEIGHTS}, {"label_smoothing": 0.2}, {"weight": WEIGHTS, "label_smoothing": 0.2}]


def assert_same(loss, expected, at):
    torch.testing.assert_close(loss, expected)
    pair = (torch.autograd.grad(t, at) for t in (loss, expected))
    torch.testing.assert_close(*pair)


def logits(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("ignore_index", [None, -100, 1])
def test_the_task_loss_of_classes_is_that_of_cross_entropy_loss(options, ignore_index):
    p, target = logits(9, 3), torch.arange(9) % 3
    settings, theirs = dict(options), {k: torch.tensor(v).double() if k == "weight" else v for k, v in options.items()}
    if ignore_index is not None:
        target[:4] = ignore_index
        settings["ignore_index"] = theirs["ignore_index"] = ignore_index
    family = Categorical(**settings)
    family.check_target(p, target)
    assert_same(family.mean_nll(p, target), nn.CrossEntropyLoss(**theirs)(p, target), p)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_soft_targets_are_those_of_cross_entropy_loss(options):
    p, target = logits(9, 3), torch.rand(9, 3, dtype=torch.float64).softmax(-1)
    theirs = {k: torch.tensor(v).double() if k == "weight" else v for k, v in options.items()}
    assert_same(Categorical(**options).mean_nll(p, target), nn.CrossEntropyLoss(**theirs)(p, target), p)


@pytest.mark.parametrize("pos_weight", [None, 3.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("soft", [False, True])
def test_the_task_loss_of_labels_is_that_of_bce_with_logits_loss(pos_weight, smoothing, soft):
    weight = None if pos_weight is None else torch.tensor(pos_weight).double()
    for family, p in ((Bernoulli, logits(8, 1)), (MultiLabel, logits(8, 4))):
        target = torch.rand(p.shape).double()
        target = target if soft else target.round()
        theirs = nn.BCEWithLogitsLoss(pos_weight=weight)(p, target * (1 - smoothing) + smoothing / 2)
        ours = family(pos_weight=pos_weight, label_smoothing=smoothing)
        ours.check_target(p, target)
        assert_same(ours.mean_nll(p, target), theirs * p.shape[1], p)  # a sum over labels, a mean over examples


def test_a_batch_of_ignored_targets_has_no_loss_and_no_gradient():
    p, family = logits(4, 3), Categorical(ignore_index=-100)
    loss = family.mean_nll(p, torch.full((4,), -100))
    assert loss == 0
    assert not torch.autograd.grad(loss, p)[0].any()


def test_a_prior_leaves_ignored_targets_out():
    family = Categorical(ignore_index=-100)
    prior = Prior(torch.tensor([0, -100, 1, 1, 1, -100]), family)(torch.zeros(2, 2), family, {})
    torch.testing.assert_close(prior.softmax(-1), torch.tensor([[0.25, 0.75]]))


def test_a_class_that_the_model_rules_out_has_a_finite_divergence():
    p = torch.tensor([[0.0, 1.0, -torch.inf], [-torch.inf, 0.0, -torch.inf]], requires_grad=True)
    rest = Categorical().kl(p[:1, :2], torch.zeros(1, 2)) + torch.log(torch.tensor(3 / 2))
    kl = Categorical().kl(p)
    torch.testing.assert_close(kl, torch.cat([rest, torch.log(torch.tensor([3.0]))]))
    of_draws = Categorical().kl(Categorical().average(torch.stack([p, p])))
    torch.testing.assert_close(of_draws, kl)
    for divergence in (kl, of_draws):
        (gradient,) = torch.autograd.grad(divergence.sum(), p)
        assert gradient.isfinite().all()


# Sample weights


class Mirror(Noise):
    """A fill that depends on the row alone, so that a row's copies have its counterfactual."""

    def forward(self, x, key, modality="", draws=1):
        return torch.cat([-values(x) * (k + 1) for k in range(draws)])


OBJECTIVES = {
    "vanilla": lambda: Vanilla(),
    "class weights": lambda: Vanilla(Categorical(weight=WEIGHTS, ignore_index=2)),
    "oracle": lambda: SynIB(OracleMask({"a": [0, 2], "b": [1]}), Mirror(), draws=2),
    "whole": lambda: SynIB(RandomMask(1.0), Mirror(), draws=4, debias=True),
    "latents": lambda: OnLatents(SynIB(RandomMask(1.0), Mirror())),
}


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_weight_of_two_is_a_row_that_is_there_twice_and_of_none_a_row_that_is_not(kind, key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    times = torch.tensor([1, 2, 0, 1, 3, 1])
    rows = torch.arange(6).repeat_interleave(times)
    loss, parts = OBJECTIVES[kind]()(model, x, y, key=key, sample_weight=times.double())
    copies, of_copies = OBJECTIVES[kind]()(model, {name: v[rows] for name, v in x.items()}, y[rows], key=key)
    torch.testing.assert_close(parts, of_copies)
    pair = (torch.autograd.grad(t, list(model.parameters())) for t in (loss, copies))
    for ours, theirs in zip(*pair, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_equal_weights_change_nothing(key, batch, fusion_model):
    x, y = batch(3)
    model, objective = fusion_model(3), SynIB(LearnedMask(2, lr=1.0), sample=1)
    plain, _ = objective(model, x, y, key=key)
    torch.testing.assert_close(objective(model, x, y, key=key, sample_weight=torch.full((6,), 0.3))[0], plain)


def test_the_divergence_of_a_certain_binary_prediction_is_finite_and_has_a_finite_slope():
    logit = torch.tensor([float("inf"), -float("inf"), 0.0], requires_grad=True)
    divergence = Bernoulli().kl(logit)
    divergence.sum().backward()
    torch.testing.assert_close(divergence.detach(), torch.tensor([2.0, 2.0, 1.0]).log())
    assert logit.grad.isfinite().all()
