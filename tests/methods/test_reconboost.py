"""ReconBoost: whose turn it is, what it learns then, and what stays as it was."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from synib import Bernoulli, Categorical, FusionModel, keys
from synib.methods.reconboost import ReconBoost
from synib.studies.spurious_xor.data import parity
from synib.training import backward
from synib.training.loop import fit

WIDTHS = {"a": 4, "ab": 3, "c": 5}  # one name begins like another


@pytest.fixture(params=[2, 3])
def case(request):
    """A model of two or three modalities with heads, a batch, and three classes."""
    widths = dict(list(WIDTHS.items())[: request.param])
    model = FusionModel.mlp(widths, hidden=[6], classes=3, head_hidden=[]).double()
    x = {name: torch.randn(12, width, dtype=torch.float64) for name, width in widths.items()}
    return model, x, torch.arange(12) % 3


def at(epoch, model, **settings):
    """The method as it is in that epoch."""
    method = ReconBoost(**settings)
    method.attach(model)
    method.begin(epoch)
    return method


def own(model, name):
    return [*model.encoders[name].parameters(), *model.heads[name].parameters()]


def data_of(modalities):
    return parity(modalities, 0.5, train=40, validation=16, test=16)


def model_of(data):
    torch.manual_seed(0)
    return FusionModel.mlp(data.widths, hidden=[8], head_hidden=[], fusion_hidden=[4])


# The loss of a stage


def test_a_stage_has_the_cross_entropy_minus_reconcilement_plus_consistency(case):
    model, x, y = case
    names = list(x)
    logits = {name: z.detach() for name, z in model.unimodal(x).items()}
    p = {name: z.softmax(1) for name, z in logits.items()}
    for k, name in enumerate(names):
        loss, parts = at(k, model, stage=1, reconcile=0.3, consistency=0.7)(model, x, y)
        rest = sum(z for other, z in logits.items() if other != name).softmax(1)
        kl = (rest * (rest / p[name]).log()).sum(1).mean()
        consistency = (p[name] - p[names[k - 1]]).square().sum(1).mean()  # the targets cancel
        expected = F.cross_entropy(logits[name], y) - 0.3 * kl + 0.7 * consistency
        torch.testing.assert_close(loss.detach(), expected)
        torch.testing.assert_close(parts["reconcile"], kl)
        torch.testing.assert_close(parts["consistency"], consistency)
        torch.testing.assert_close(parts["task"], F.cross_entropy(sum(logits.values()), y))
        assert all(f"unimodal/{name}" in parts for name in names)


@pytest.mark.parametrize("family", [Categorical(), Bernoulli()])
def test_consistency_has_a_gradient_and_finite_differences_agree(family):
    classes = 3 if isinstance(family, Categorical) else 1
    model = FusionModel.mlp({"a": 4, "b": 3}, hidden=[6], classes=classes, head_hidden=[]).double()
    x, y = {"a": torch.randn(8, 4).double(), "b": torch.randn(8, 3).double()}, torch.arange(8) % 2
    on, off = (at(0, model, stage=1, reconcile=0.0, consistency=c, family=family) for c in (2.0, 0.0))

    def term():
        return on(model, x, y)[0] - off(model, x, y)[0]

    mine = own(model, "a")
    found = torch.autograd.grad(term(), mine)
    assert all(g.abs().max() > 1e-6 for g in found)
    towards = [torch.randn_like(p) for p in mine]
    slope = sum((g * d).sum() for g, d in zip(found, towards, strict=True)).item()
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            for p, d in zip(mine, towards, strict=True):
                p.add_(sign * 1e-6 * d)
            ends.append(term().item())
            for p, d in zip(mine, towards, strict=True):
                p.sub_(sign * 1e-6 * d)
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


def test_rectification_is_the_cross_entropy_of_the_summed_logits(case):
    model, x, y = case
    method = at(len(x), model, stage=1, rectify=1)
    loss, parts = method(model, x, y)
    expected = F.cross_entropy(sum(model.unimodal(x).values()), y)
    torch.testing.assert_close(loss, expected)
    assert "reconcile" not in parts
    backward(method, model, x, y)
    for name in x:
        gradients = torch.autograd.grad(expected, own(model, name), retain_graph=True)
        for p, g in zip(own(model, name), gradients, strict=True):
            torch.testing.assert_close(p.grad, g)
    assert all(p.grad is None for p in model.fusion.parameters())


def test_it_predicts_the_summed_logits_of_all_heads(case):
    model, x, _ = case
    torch.testing.assert_close(ReconBoost().predict(model, x), sum(model.unimodal(x).values()))


def test_heads_that_other_methods_train_detached_train_their_encoders_here(case):
    model, x, y = case
    method = at(0, model)
    attached, _ = method(model, x, y)
    model.detach_heads = True
    detached, _ = method(model, x, y)
    for one, other in zip(*(torch.autograd.grad(t, own(model, "a")) for t in (attached, detached)), strict=True):
        assert torch.equal(one, other)
        assert one.any()


# The schedule


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize(("stage", "rectify"), [(4, 4), (2, 3), (1, 0), (3, 1)])
def test_modalities_take_turns_then_all_are_rectified_and_a_new_round_begins(names, stage, rectify):
    method = ReconBoost(stage=stage, rectify=rectify)
    expected = ([k for k in range(len(names)) for _ in range(stage)] + [None] * rectify) * 2
    found = []
    for epoch in range(len(expected)):
        method.begin(epoch)
        found.append(method.turn(names))
    assert found == expected


def test_a_stage_trains_one_modality_and_rectification_all_but_the_fusion(case):
    model, x, _ = case
    names = list(x)

    def trained(epoch):
        method = at(epoch, model, stage=2, rectify=1)
        return {n.split(".")[1] for n, _ in model.named_parameters() if method.trains(f"model.{n}")}

    for k, name in enumerate(names):
        assert trained(2 * k) == trained(2 * k + 1) == {name}
    assert trained(2 * len(names)) == set(names)
    method = at(0, model)
    assert not any(method.trains(f"model.{n}") for n, _ in model.named_parameters() if n.startswith("fusion"))


# In training


def snapshot(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("modalities", [2, 3])
def test_a_stage_leaves_everything_else_as_it_was_to_the_bit(modalities):
    data = data_of(modalities)
    model = model_of(data)
    seen = [snapshot(model)]
    fit(
        ReconBoost(stage=1, rectify=1, family=Bernoulli()), model, data,
        lr=1e-2, weight_decay=1e-1, epochs=modalities + 2, batch_size=16, on_epoch=lambda _: seen.append(snapshot(model)),
    )  # fmt: skip
    changed = [
        {n.split(".")[1] if "fusion" not in n else "fusion" for n in a if not torch.equal(a[n], b[n])}
        for a, b in pairwise(seen)
    ]
    names = list(data.widths)
    assert changed == [*({name} for name in names), set(names), {names[0]}]
    for k, name in enumerate(names):  # all of it
        mine = [n for n in seen[0] if n.startswith((f"encoders.{name}.", f"heads.{name}."))]
        assert not any(torch.equal(seen[k][n], seen[k + 1][n]) for n in mine)


def test_without_its_two_terms_a_stage_is_training_one_modality_alone():
    data = data_of(2)
    model, reference = model_of(data), model_of(data)
    method = ReconBoost(stage=2, rectify=0, reconcile=0.0, consistency=0.0, family=Bernoulli())
    fit(method, model, data, lr=1e-2, weight_decay=1e-2, epochs=4, batch_size=16, seed=3)
    for k, name in enumerate(data.widths):
        optimiser = torch.optim.Adam(own(reference, name), lr=1e-2, weight_decay=1e-2)
        for epoch in (2 * k, 2 * k + 1):
            for rows in keys.permutation(keys.fold(keys.key(3), "order", epoch), 40).split(16):
                logit = reference.unimodal({n: x[rows] for n, x in data.train.modalities.items()})[name].squeeze(1)
                optimiser.zero_grad()
                F.binary_cross_entropy_with_logits(logit, data.train.target[rows].float()).backward()
                optimiser.step()
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
