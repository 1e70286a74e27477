"""Strength and alignment of the updates that groups ask for."""

import math
from itertools import combinations

import pytest
import torch
from torch.func import functional_call, jacrev, vmap

import synib
from synib.measure import ntk
from synib.measure.ntk import tangents
from synib.objective import Bernoulli, Categorical, Gaussian

N = 24
FAMILY = {1: Bernoulli(), 3: Categorical()}


def setup(outputs, seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    model = synib.FusionModel.mlp({"a": 3, "b": 2}, hidden=[5], classes=outputs).to(dtype)
    modalities = {"a": torch.randn(N, 3, dtype=dtype), "b": torch.randn(N, 2, dtype=dtype)}
    groups = {
        "g": torch.arange(N) < 10,
        "h": (torch.arange(N) >= 8) & (torch.arange(N) < 20),
        "k": torch.arange(N) > 18,
    }
    return model, modalities, groups


def explicit(model, modalities, residual, groups, link=lambda x: x):
    """λ and cosines through the whole kernel."""
    parameters = dict(model.named_parameters())
    jacobian = jacrev(lambda p: link(functional_call(model, p, (modalities,))).reshape(-1))(parameters)
    j = torch.cat([block.reshape(residual.numel(), -1) for block in jacobian.values()], 1)
    kernel = j @ j.T
    s = {
        name: (residual * members.view(-1, *(1,) * (residual.ndim - 1))).reshape(-1) for name, members in groups.items()
    }
    pull = {(a, b): (s[a] @ kernel @ s[b]).item() for a in groups for b in groups}
    strength = {g: pull[g, g] / (s[g] @ s[g]).item() for g in groups}
    return strength, {(g, h): pull[g, h] / math.sqrt(pull[g, g] * pull[h, h]) for g, h in combinations(groups, 2)}


@pytest.mark.parametrize("of", ["logits", "probabilities"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_products_with_the_jacobian_give_what_the_whole_kernel_gives(outputs, of):
    model, modalities, groups = setup(outputs)
    out = model(modalities)
    if outputs == 1:
        target = torch.randint(2, (N,)).double()
        residual = target.view(out.shape) - torch.sigmoid(out)
    else:
        target = torch.randint(3, (N,))
        residual = torch.nn.functional.one_hot(target, 3) - torch.softmax(out, 1)
    probability = torch.sigmoid if outputs == 1 else lambda x: torch.softmax(x, 1)
    link = probability if of == "probabilities" else lambda x: x
    strength, cosine = explicit(model, modalities, residual.detach(), groups, link)
    found = ntk(model, modalities, target, groups, FAMILY[outputs], of=of)
    assert found.strength == pytest.approx(strength, rel=1e-5)
    assert found.cosine == pytest.approx(cosine, rel=1e-5, abs=1e-7)


def test_a_group_is_as_strong_when_its_errors_are_as_large_as_half_of_them():
    """λ does not depend on the size of the residual: for a Gaussian mean, doubling all residuals changes nothing."""
    model, modalities, groups = setup(2)
    with torch.no_grad():
        mean = model(modalities)[:, :1]
    near, far = ntk_gaussian(model, modalities, mean + 1.0, groups), ntk_gaussian(model, modalities, mean + 2.0, groups)
    assert near == pytest.approx(far, rel=1e-4)


def ntk_gaussian(model, modalities, target, groups):
    class Fixed(Gaussian):
        def nll(self, parameters, target):
            return 0.5 * (target - parameters[:, :1]).square().sum(1)

    return ntk(model, modalities, target, groups, family=Fixed()).strength


def test_a_group_is_aligned_with_itself_and_opposed_to_its_contrary():
    model, modalities, _ = setup(1)
    twice = {name: torch.cat([x, x]) for name, x in modalities.items()}
    first = torch.arange(2 * N) < N
    with torch.no_grad():
        right = (model(modalities).reshape(-1) > 0).double()
    same = ntk(model, twice, torch.cat([right, right]), {"one": first, "two": ~first}, Bernoulli())
    assert same.cosine["one", "two"] == pytest.approx(1.0)
    assert same.strength["one"] == pytest.approx(same.strength["two"])
    zero = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    model.load_state_dict(zero | {k: v for k, v in model.state_dict().items() if "fusion" in k and "bias" not in k})
    against = ntk(model, twice, torch.cat([right, 1 - right]), {"one": first, "two": ~first}, Bernoulli())
    assert against.cosine["one", "two"] == pytest.approx(-1.0, abs=1e-6)  # at logit 0 the residuals are ±1/2


def test_a_vanished_residual_has_no_strength_and_no_direction():
    model, modalities, groups = setup(1, dtype=torch.float32)
    with torch.no_grad():
        for p in model.fusion.parameters():
            p.mul_(0)
        last = [p for p in model.fusion.parameters() if p.ndim == 1][-1]
        last.fill_(200.0)  # everyone is sure of class 1
    target = (~groups["g"]).float()
    found = ntk(model, modalities, target, {"wrong": groups["g"], "right": ~groups["g"]}, Bernoulli())
    assert found.strength["wrong"] > 0
    assert math.isnan(found.strength["right"])
    assert math.isnan(found.cosine["wrong", "right"])


def test_at_most_so_many_examples_are_the_first_of_each_group():
    model, modalities, groups = setup(1)
    target = torch.randint(2, (N,)).double()
    few = {name: members & (members.cumsum(0) <= 4) for name, members in groups.items()}
    assert ntk(model, modalities, target, groups, Bernoulli(), most=4) == ntk(
        model, modalities, target, few, Bernoulli()
    )
    assert ntk(model, modalities, target, groups, Bernoulli(), most=4) != ntk(
        model, modalities, target, groups, Bernoulli()
    )


def test_it_runs_under_vmap_with_groups_of_different_sizes():
    models = [setup(1, seed, torch.float32) for seed in range(3)]
    targets = [torch.randint(2, (N,)).float() for _ in models]
    groups = [{"g": torch.arange(N) < 3 + 5 * i, "h": torch.arange(N) >= 12} for i in range(3)]
    template = models[0][0]

    def one(parameters, modalities, target, members):
        call = lambda p, x: functional_call(template, dict(p), (x,))  # noqa: E731
        return tangents(call, parameters, Bernoulli(), modalities, target, members, 12)

    stacked = [
        {k: torch.stack([d[k] for d in column]) for k in column[0]}
        for column in ([dict(m.named_parameters()) for m, _, _ in models], [x for _, x, _ in models], groups)
    ]
    together = vmap(one)(stacked[0], stacked[1], torch.stack(targets), stacked[2])
    for i, (model, modalities, _) in enumerate(models):
        alone = ntk(model, modalities, targets[i], groups[i], Bernoulli(), most=12)
        assert together["strength_g"][i].item() == pytest.approx(alone.strength["g"], rel=1e-4)
        assert together["cosine_g_h"][i].item() == pytest.approx(alone.cosine["g", "h"], rel=1e-3, abs=1e-5)


def test_the_model_is_left_as_it_was():
    model, modalities, groups = setup(1, dtype=torch.float32)
    model.train()
    model.fusion.eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    ntk(model, modalities, torch.zeros(N), groups, Bernoulli())
    assert (model.training, model.fusion.training) == (True, False)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_probabilities_hide_the_strength_of_what_is_certain():
    model, modalities, groups = setup(1)
    target = torch.randint(2, (N,)).double()
    weak = ntk(model, modalities, target, groups, Bernoulli(), of="probabilities").strength
    with torch.no_grad():
        list(model.fusion.parameters())[-1].add_(8.0)  # certain, if not right
    sure, logits = (
        ntk(model, modalities, target, groups, Bernoulli(), of=of).strength for of in ("probabilities", "logits")
    )
    assert all(sure[g] < 1e-3 * weak[g] for g in groups)
    assert all(sure[g] < 1e-3 * logits[g] for g in groups)


def test_arrays_and_lists_do_as_well():
    model, modalities, groups = setup(1, dtype=torch.float32)
    target = torch.randint(2, (N,)).float()
    arrays = {name: x.double().numpy() for name, x in modalities.items()}
    plain = {name: members.tolist() for name, members in groups.items()}
    found = ntk(model, arrays, target.numpy(), plain, Bernoulli())
    assert found == ntk(model, modalities, target, groups, Bernoulli())


def test_the_cosine_of_tiny_directions_is_a_cosine():
    """At logit 13 the squared length of a direction is so small that a product of two is 0 in float32."""
    model, modalities, groups = setup(1, dtype=torch.float32)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.1)
        list(model.fusion.parameters())[-1].fill_(13.0)
    small = {name: 1e-3 * x for name, x in modalities.items()}
    args = (small, torch.ones(N), groups, Bernoulli())
    found, exact = ntk(model, *args, of="probabilities"), ntk(model.double(), *args, of="probabilities")
    assert found.cosine == pytest.approx(exact.cosine, abs=1e-2)
    assert all(-1 <= c <= 1 for c in found.cosine.values())
