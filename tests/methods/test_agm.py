import itertools
import math

import pytest
import torch
from torch import nn

from synib import Bernoulli, Categorical, FusionModel, Tokens
from synib.methods import Vanilla
from synib.methods.agm import AGM, shapley
from synib.objective.model import BlackBoxModel
from synib.training import backward

WIDTHS = {"a": 4, "b": 3, "c": 2, "d": 5}
FAMILIES = [(Bernoulli(), 1), (Categorical(), 3)]


def setting(names="ab", classes=3, rows=7, heads=()):
    widths = {name: WIDTHS[name] for name in names}
    model = FusionModel.mlp(widths, hidden=[5], classes=classes, head_hidden=heads).double()
    x = {name: torch.randn(rows, width, dtype=torch.float64) for name, width in widths.items()}
    return model, x, torch.arange(rows) % max(classes, 2)


def responses(predict, x):
    model = predict if isinstance(predict, FusionModel) else BlackBoxModel(predict, {})
    latents = {name: model.encode(name, v) for name, v in x.items()}
    prediction = model.combine({name: model.project(name, z) for name, z in latents.items()})
    return shapley(model, x, latents, prediction)


def nothing(x):
    return {name: torch.zeros_like(v) for name, v in x.items()}


def slow_shapley(predict, x):
    """What a modality adds when it joins, averaged over all orders of joining."""
    orders = list(itertools.permutations(x))
    phi = dict.fromkeys(x, 0.0)
    for order in orders:
        seen = nothing(x)
        for name in order:
            before = predict(seen)
            seen = seen | {name: x[name]}
            phi[name] = phi[name] + (predict(seen) - before) / len(orders)
    return phi


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_responses_are_average_gains_over_all_orders_and_add_up_to_the_output(names):
    model, x, _ = setting(names)
    phi = responses(model, x)
    for name, slow in slow_shapley(model, x).items():
        torch.testing.assert_close(phi[name], slow)
    torch.testing.assert_close(sum(phi.values()), model(x) - model(nothing(x)))


def slow_scores(family, model, x, y):
    return {name: family.nll(phi, y).mean().item() for name, phi in slow_shapley(model, x).items()}


def slow_ratio(scores, name):
    others = [s - scores[name] for n, s in scores.items() if n != name]
    return math.exp(sum(others) / len(others))


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize(("family", "classes"), FAMILIES)
def test_the_gradient_is_that_of_the_responses_each_times_its_coefficient(names, family, classes):
    model, x, y = setting(names, classes)
    past = dict(zip(names, (0.9, 0.2, 0.6), strict=False))
    method = AGM(alpha=1.5, family=family, unimodal_weight=0.3)
    method.scores[: len(names)] = torch.tensor(list(past.values()))
    parts = method(model, x, y)[1]
    method.scores[: len(names)] = torch.tensor(list(past.values()))
    backward(method, model, x, y)
    found = {name: p.grad.clone() for name, p in model.named_parameters()}

    now = slow_scores(family, model, x, y)
    kappa = {name: math.exp(-1.5 * (slow_ratio(now, name) - slow_ratio(past, name))) for name in names}
    assert {name: parts[f"kappa/{name}"].item() for name in names} == pytest.approx(kappa, rel=1e-5)
    assert max(abs(k - 1) for k in kappa.values()) > 0.1

    output = model(x)
    slope = torch.autograd.grad(family.nll(output, y).mean(), output)[0]
    pieces = {name: (slope * phi).sum() for name, phi in slow_shapley(model, x).items()}
    rest = (slope * model(nothing(x))).sum() + 0.3 * sum(family.nll(q, y).mean() for q in model.unimodal(x).values())
    weighted = [*((kappa[name], piece) for name, piece in pieces.items()), (1.0, rest)]
    expected = dict.fromkeys(found, 0.0)
    for weight, piece in weighted:
        own = torch.autograd.grad(piece, list(model.parameters()), retain_graph=True, materialize_grads=True)
        expected = {name: e + weight * g for (name, e), g in zip(expected.items(), own, strict=True)}
    for name, e in expected.items():
        torch.testing.assert_close(found[name], e, rtol=1e-5, atol=1e-8)


def test_the_reference_is_the_mean_of_scores_over_the_training_steps_before():
    family, method, history = Bernoulli(), AGM(alpha=0.7, family=Bernoulli()), []
    for step in range(4):
        model, x, y = setting("abc", 1)
        scores = slow_scores(family, model, x, y)
        mean = {n: sum(h[n] for h in history) / len(history) for n in scores} if history else dict.fromkeys(scores, 0.0)
        _, parts = method(model, x, y)
        for name in scores:
            expected = math.exp(-0.7 * (slow_ratio(scores, name) - slow_ratio(mean, name)))
            assert parts[f"kappa/{name}"].item() == pytest.approx(expected, rel=1e-5)
        history.append(scores)
        assert method.steps == step + 1
    assert method.scores.tolist() == pytest.approx([sum(h[n] for h in history) / 4 for n in "abc"] + [0.0], rel=1e-6)


def test_evaluation_reads_the_scores_and_does_not_move_them():
    model, x, y = setting()
    method = AGM()
    method(model, x, y)
    before = {name: b.clone() for name, b in method.named_buffers()}
    _, parts = method.eval()(model, {name: 2 * v for name, v in x.items()}, y)
    assert all(torch.equal(b, before[name]) for name, b in method.named_buffers())
    assert parts["kappa/a"] != 1.0
    fresh = AGM()
    fresh.load_state_dict(method.state_dict())
    assert torch.equal(fresh.scores, method.scores.float())


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_coefficients_stay_finite_however_wrong_a_modality_is(alpha):
    x = {"a": torch.full((4, 1), 1e4), "b": torch.full((4, 1), -1e4)}
    method = AGM(alpha=alpha, family=Bernoulli())
    for sign in (1.0, -1.0, 1.0):
        _, parts = method(lambda m, sign=sign: sign * (m["a"] + m["b"]), x, torch.ones(4))
        kappa = torch.stack([parts["kappa/a"], parts["kappa/b"]])
        assert kappa.isfinite().all()
        assert (kappa <= math.exp(10.0 * alpha) * 1.001).all()
        assert alpha > 0 or (kappa == 1).all()


def test_passes_without_a_modality_leave_dropout_and_statistics_to_the_training_pass():
    found = []
    for method in (Vanilla(), AGM()):
        torch.manual_seed(0)
        model = FusionModel.mlp({"a": 4, "b": 3}, hidden=[5], classes=3, dropout=0.5)
        model.encoders["a"].append(nn.BatchNorm1d(5))
        loss, _ = method(model, {"a": torch.randn(6, 4), "b": torch.randn(6, 3)}, torch.arange(6) % 3)
        loss.backward()
        found.append((loss, *model.buffers()))
        assert all(m.training for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_modalities_may_be_tokens():
    def predict(m):
        return ((m["a"].values * ~m["a"].padding[..., None]).sum(1) + m["b"]) * m["b"]

    x = {"a": Tokens(torch.randn(6, 4, 3), torch.rand(6, 4) < 0.3), "b": torch.randn(6, 3)}
    phi = responses(predict, x)
    torch.testing.assert_close(phi["a"] + phi["b"], predict(x))  # which is 0 where there is nothing
