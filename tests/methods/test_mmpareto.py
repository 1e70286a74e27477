"""MMPareto: a step that serves the multimodal and the unimodal loss of an encoder alike."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.func import vmap

from synib import FusionModel, keys
from synib.methods.mmpareto import MMPareto, gramian, min_norm
from synib.objective import Batch
from synib.training import backward

MGDA = pytest.importorskip("torchjd.aggregation").MGDA

WIDTHS = {"a": 4, "b": 3, "c": 2}
NAMES = ["fusion", "unimodal/a", "unimodal/b"]


def make(names="ab", **settings):
    widths = {name: WIDTHS[name] for name in names}
    model = FusionModel.mlp(widths, hidden=[6, 5], classes=3, **{"head_hidden": [], **settings}).double()
    x = {name: torch.randn(12, width, dtype=torch.float64) for name, width in widths.items()}
    return model, x, torch.arange(12) % 3


def each_gradient(method, model, x, y):
    """Loss → parameter → its gradient, each from a backward pass of its own."""
    losses, _ = method.losses(model, Batch(x, y), keys.key(0))
    found = {}
    for name, loss in losses.items():
        model.zero_grad()
        loss.backward(retain_graph=True)
        found[name] = {
            f"model.{n}": torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()
        }
    model.zero_grad()
    return found


def of_encoder(gradients, name):
    return torch.cat([g.flatten() for n, g in gradients.items() if n.startswith(f"model.encoders.{name}.")])


def steps_of(method, model, x, y):
    backward(method, model, x, y, key=keys.key(0))
    return {f"model.{name}": p.grad for name, p in model.named_parameters()}


def integrate(g_m, g_u, **settings):
    """The step of an encoder with two parameters, from two vectors."""
    rows = torch.stack([g_m, g_u, torch.zeros_like(g_m)])
    cut = len(g_m) // 2
    gradients = {"model.encoders.a.w": rows[:, :cut], "model.encoders.a.b": rows[:, cut:]}
    steps = MMPareto(**settings).direction(gradients, NAMES, {}, keys.key(0))
    return torch.cat([steps["model.encoders.a.w"], steps["model.encoders.a.b"]])


def assert_optimal(weights, gram):
    """Weights on the simplex, and h = Σ w g with ⟨h, g_i⟩ ≥ ‖h‖² for all i, equal where w_i > 0 (the KKT conditions)."""
    eps = torch.finfo(gram.dtype).eps
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(), torch.ones_like(weights.sum()))
    inner, tolerance = gram @ weights, 1e3 * eps * gram.diagonal().max()
    norm = weights @ inner
    assert (inner >= norm - tolerance).all(), (inner, norm)
    assert (weights * (inner - norm)).abs().max() <= tolerance


vectors = st.builds(
    lambda seed, m, d, spread, shared: (
        torch.randn(m, d, generator=(g := torch.Generator().manual_seed(seed)), dtype=torch.float64)
        * 10.0 ** (spread * torch.randn(m, 1, generator=g, dtype=torch.float64))
        + shared * torch.randn(d, generator=g, dtype=torch.float64)
    ),
    seed=st.integers(0, 10**6),
    m=st.integers(2, 4),
    d=st.integers(1, 6),  # fewer dimensions than vectors too: then they depend on each other, and 0 may be in the hull
    spread=st.sampled_from([0.0, 0.5, 2.0]),
    shared=st.sampled_from([0.0, 1.0]),
)


@given(vectors)
@example(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
@example(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
@example(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
@example(torch.tensor([[2.0, 1.0], [2.0, 1.0], [-2.0, 1.0], [-2.0, 1.0]]))
@example(torch.tensor([[0.0, 0.0], [3.0, 1.0], [1.0, 2.0]]))
@example(torch.tensor([[2.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]))
@example(torch.zeros(3, 2))
def test_the_min_norm_point_satisfies_the_optimality_conditions(g):
    for gradients in (g.double(), g.float(), 1e-8 * g.float(), 1e6 * g.float()):
        assert_optimal(min_norm(gramian(gradients)), gramian(gradients))


@given(vectors)
def test_the_min_norm_point_is_torchjds(g):
    g = g / g.norm(dim=1, keepdim=True)  # Frank-Wolfe needs long for very different lengths
    ours = min_norm(gramian(g)) @ g
    theirs = MGDA(epsilon=1e-9, max_iters=1000)(g)
    torch.testing.assert_close(ours @ ours, theirs @ theirs, rtol=0, atol=3e-3)
    # Whatever else lies in the hull is longer than the minimum by at least its distance from it.
    assert theirs @ theirs - ours @ ours >= (theirs - ours).square().sum() - 1e-9


def test_the_min_norm_point_is_found_for_many_at_once():
    g = torch.randn(20, 3, 4)
    together = vmap(lambda one: min_norm(gramian(one)))(g)
    torch.testing.assert_close(together, torch.stack([min_norm(gramian(one)) for one in g]))


@pytest.mark.parametrize("form", ["per-encoder", "three-way"])
def test_half_precision_products_of_the_model_do_not_reach_the_weighing(form):
    gradients = {f"model.encoders.{name}.0.weight": torch.randn(3, 8, 9) for name in "ab"}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = MMPareto(form).direction(gradients, NAMES, {}, keys.key(0))
    torch.testing.assert_close(half, MMPareto(form).direction(gradients, NAMES, {}, keys.key(0)))


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.5]), st.floats(-3, 3), st.booleans())
def test_a_step_has_the_documented_direction_and_norm_and_works_against_neither_loss(seed, scale, size, conflict):
    rng = torch.Generator().manual_seed(seed)
    g_m, g_u = torch.randn(2, 7, generator=rng, dtype=torch.float64)
    g_u = 10**size * g_u * ((g_m @ g_u).sign() * (-1 if conflict else 1))
    step = integrate(g_m, g_u, scale=scale)
    torch.testing.assert_close(step.norm(), scale * (g_m + g_u).norm())
    assert step @ g_m >= -1e-12
    assert step @ g_u >= -1e-12
    if conflict:
        weights = min_norm(gramian(torch.stack([g_m, g_u])))
        h = weights @ torch.stack([g_m, g_u])
        torch.testing.assert_close(step / step.norm(), h / h.norm())
        torch.testing.assert_close(step @ g_m, step @ g_u)  # both fall alike
    else:
        torch.testing.assert_close(step, scale * (g_m + g_u))


def test_exactly_opposed_gradients_leave_an_encoder_almost_where_it_is_and_zeros_stay_zero():
    g = torch.randn(1000)
    assert integrate(g, -3 * g).norm() < 1e-2 * g.norm()
    assert integrate(g, -g).norm() < 1e-2 * g.norm()
    assert torch.equal(integrate(0 * g, 0 * g), 0 * g)
    torch.testing.assert_close(integrate(g, 0 * g), 1.5 * g)
    torch.testing.assert_close(integrate(0 * g, g), 1.5 * g)


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_each_encoder_is_integrated_by_itself_and_everything_else_gets_its_plain_gradient(names):
    method, conflicts = MMPareto(unimodal_weight=0.7, scale=2.0), 0
    for seed in range(6):
        torch.manual_seed(seed)
        model, x, y = make(names)
        each = each_gradient(method, model, x, y)
        steps = steps_of(method, model, x, y)
        for name in names:
            g_m, g_u = of_encoder(each["fusion"], name), of_encoder(each[f"unimodal/{name}"], name)
            assert g_u.norm() > 0
            conflicts += bool(g_m @ g_u < 0)
            weights = min_norm(gramian(torch.stack([g_m, g_u]))) if g_m @ g_u < 0 else torch.full_like(g_m[:2], 0.5)
            h = weights @ torch.stack([g_m, g_u])
            torch.testing.assert_close(of_encoder(steps, name), 2.0 * (g_m + g_u).norm() * h / h.norm())
        outside = [name for name in steps if not name.startswith("model.encoders.")]
        assert any("heads" in name for name in outside)
        assert any("fusion" in name for name in outside)
        for name in outside:
            torch.testing.assert_close(steps[name], sum(g[name] for g in each.values()))
    assert 0 < conflicts < 6 * len(names)


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_three_way_form_is_torchjds_min_norm_point_of_all_losses_over_all_parameters(names):
    for seed in range(3):
        torch.manual_seed(seed)
        model, x, y = make(names)
        method = MMPareto("three-way")
        each = each_gradient(method, model, x, y)
        rows = torch.stack([torch.cat([g.flatten() for g in one.values()]) for one in each.values()])
        step = torch.cat([g.flatten() for g in steps_of(method, model, x, y).values()])
        torch.testing.assert_close(step, MGDA(epsilon=1e-9, max_iters=1000)(rows), rtol=0, atol=1e-3)
        inner = rows @ step
        assert (inner >= step @ step - 1e-9).all()
        assert (step @ step) < min(rows.square().sum(1))
