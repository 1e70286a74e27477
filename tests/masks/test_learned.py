import pytest
import torch
import torch.nn.functional as F
from torch import nn

from synib import FusionModel, LearnedMask, OracleMask, StandardNoise, SynIB, keys
from synib.masks import Probe
from synib.models import Dropout
from synib.tokens import values


def probe_of(x, loss):
    return Probe("a", lambda key: StandardNoise()(x, key, "a"), loss)


def plain_search(mask, x, key, loss):
    """Eq. mask-loss descended with torch's own Adam and autograd: the gates after the last step."""
    noise, v = StandardNoise(), values(x)
    shape = {"coordinates": v.shape, "tokens": (*v.shape[:2], 1), "modality": (len(v), *(1,) * (v.ndim - 1))}[mask.over]
    logits = torch.full(shape, mask.init, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=mask.lr)
    for step_key in keys.split(key, mask.steps):
        gate = torch.sigmoid(logits / mask.temperature)
        size = gate.flatten(1).sum(1) if mask.norm == "sum" else gate.flatten(1).mean(1)
        corrupted = (1 - gate) * v + gate * noise(x, step_key)
        adam.zero_grad()
        (mask.sparsity * size - loss(corrupted)).sum().backward()
        adam.step()
    return torch.sigmoid(logits / mask.temperature).detach()


@pytest.mark.parametrize("norm", ["sum", "mean"])
@pytest.mark.parametrize(("temperature", "init"), [(1.0, 0.0), (0.5, -0.3), (2.0, 0.4)])
@pytest.mark.parametrize("over", ["coordinates", "tokens", "modality"])
def test_the_search_equals_one_written_with_torchs_adam(norm, temperature, init, over, key):
    x = torch.randn(6, 4, 3, dtype=torch.float64)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    target = torch.arange(6) % 3

    def loss(v):
        return F.cross_entropy(network(v), target, reduction="none")

    for threshold in (0.3, 0.5, 0.7):
        settings = {"lr": 0.3, "sparsity": 0.3, "norm": norm, "temperature": temperature, "init": init, "over": over}
        mask = LearnedMask(steps=8, threshold=threshold, **settings)
        expected = plain_search(mask, x, key, loss) > threshold
        assert torch.equal(mask(x, key, probe_of(x, loss)), ~expected)  # what the search found is what stays


def linear_toy():
    """Ten coordinates of which the predictor reads the first two."""
    target = torch.arange(32) % 2
    x = torch.randn(32, 10)
    x[:, :2] = 2.0 * (2 * target - 1)[:, None]
    weight = torch.zeros(10)
    weight[:2] = 1.0

    def loss(v):
        return F.binary_cross_entropy_with_logits(v @ weight, target.float(), reduction="none")

    return x, loss


def test_it_finds_the_coordinates_that_a_linear_predictor_relies_on(key):
    x, loss = linear_toy()
    found = ~LearnedMask(steps=40, lr=0.3, sparsity=0.02)(x, key, probe_of(x, loss))
    assert found[:, :2].float().mean() > 0.9
    assert not found[:, 2:].any()


def test_a_share_of_the_examples_has_its_whole_modality_corrupted_and_the_others_as_without(key):
    x = torch.randn(400, 10)
    target = torch.arange(400) % 2

    def loss(v):
        return F.binary_cross_entropy_with_logits(v[:, :2].sum(1), target.float(), reduction="none")

    settings = {"steps": 4, "lr": 0.5, "sparsity": 0.01}
    plain, mixed = (LearnedMask(**settings, whole_share=share)(x, key, probe_of(x, loss)) for share in (0.0, 0.3))
    changed = (mixed != plain).any(1)
    assert mixed[changed].all()
    searched = ~plain.all(1)  # of the others a search would corrupt everything, too
    assert 0.2 < changed[searched].float().mean() < 0.4
    assert LearnedMask(**settings, whole_share=1.0)(x, key, probe_of(x, loss)).all()


# What follows looks at the whole model: the search may leave nothing behind.

WIDTHS = {"a": 5, "b": 4}


class Searching(LearnedMask):
    """Searches, then answers what an oracle would: whatever the search left behind is all that can differ."""

    def __init__(self, steps):
        super().__init__(steps)
        self.answer = OracleMask({"a": [0, 1], "b": [2]})

    def forward(self, x, key, probe, draws=1):
        super().forward(x, key, probe, draws)
        return self.answer(x, key, probe, draws)


def batch(rows=8):
    return {name: torch.randn(rows, width) for name, width in WIDTHS.items()}, torch.arange(rows) % 3


def disturbed_model():
    """Everything that a careless search would change: statistics, dropout keys, nested modes, a frozen layer."""
    torch.manual_seed(1)
    model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[6], dropout=0.3)
    for name in WIDTHS:
        model.encoders[name].append(nn.Sequential(nn.BatchNorm1d(6), nn.Sequential(nn.BatchNorm1d(6).eval())))
        model.heads[name].insert(0, nn.BatchNorm1d(6))
    for module in model.modules():
        if isinstance(module, Dropout):
            module.follow_key()
    return model


@pytest.mark.filterwarnings("ignore:A BatchNorm layer")
def test_the_search_leaves_gradients_modes_and_buffers_as_they_were(key):
    x, target = batch()
    outcomes = []
    for mask in (OracleMask({"a": [0, 1], "b": [2]}), Searching(3)):
        model = disturbed_model()
        for p in model.parameters():
            p.grad = torch.full_like(p, 0.5)
        modes = [m.training for m in model.modules()]
        loss, _ = SynIB(mask, StandardNoise())(model, x, target, key=key)
        assert [m.training for m in model.modules()] == modes
        assert all((p.grad == 0.5).all() for p in model.parameters())
        loss.backward()
        outcomes.append((loss, dict(model.named_buffers()), {n: p.grad for n, p in model.named_parameters()}))
    (loss, buffers, gradients), (searched_loss, searched_buffers, searched_gradients) = outcomes
    assert torch.equal(loss, searched_loss)
    assert all(torch.equal(buffers[n], searched_buffers[n]) for n in buffers)
    assert all(torch.equal(gradients[n], searched_gradients[n]) for n in gradients)


def test_modes_are_put_back_when_the_unimodal_path_fails(key):
    x, target = batch()
    model = disturbed_model()
    modes = [m.training for m in model.modules()]

    def fail(*_):
        raise RuntimeError("a layer that fails")

    model.heads["b"].register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="a layer that fails"):
        SynIB(LearnedMask(2), StandardNoise())(model, x, target, key=key)
    assert [m.training for m in model.modules()] == modes


def test_the_search_runs_on_the_unimodal_path_in_evaluation_mode_and_never_calls_the_fusion(key):
    x, target = batch()

    class Fusion(nn.Linear):
        calls = 0

        def forward(self, latents):
            self.calls += 1
            return super().forward(torch.cat(list(latents.values()), -1))

    steps = 4
    encoders = {name: nn.Linear(width, 6) for name, width in WIDTHS.items()}
    model = FusionModel(encoders, Fusion(12, 3), {name: nn.Linear(6, 3) for name in WIDTHS})
    head_modes = []
    model.heads["a"].register_forward_hook(lambda module, *_: head_modes.append(module.training))
    SynIB(LearnedMask(steps), StandardNoise())(model, x, target, key=key)
    assert model.fusion.calls == 1
    assert head_modes == [False] * steps + [True]


def test_heads_that_train_detached_still_guide_the_search(key):
    x, target = batch()
    found = []

    class Watched(LearnedMask):
        def forward(self, x, key, probe, draws=1):
            found.append(super().forward(x, key, probe, draws))
            return found[-1]

    for detach in (False, True):
        torch.manual_seed(1)
        model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[], detach_heads=detach)
        SynIB(Watched(10, lr=1.0), StandardNoise())(model, x, target, key=key)
        SynIB(Watched(10, lr=1.0), StandardNoise())(model.on_latents(), model.encode_all(x), target, key=key)
    assert all(torch.equal(a, b) for a, b in zip(found[:4], found[4:], strict=True))
    assert any(not f.all() for f in found)


def test_it_works_where_gradients_are_off(key):
    x, target = batch()
    model = FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[])
    objective = SynIB(LearnedMask(3), StandardNoise())
    loss, _ = objective(model, x, target, key=key)
    with torch.no_grad():
        assert torch.equal(loss, objective(model, x, target, key=key)[0])


def test_many_keys_on_one_batch_may_be_searched_under_vmap():
    torch.manual_seed(0)
    x, target, weights = torch.randn(6, 5), torch.randint(2, (6,)).float(), torch.randn(5)
    probe = Probe("a", lambda k: keys.normal(k, (6, 5)), lambda v: F.binary_cross_entropy_with_logits(v @ weights, target, reduction="none"))  # fmt: skip  # noqa: E501
    mask = LearnedMask(steps=5, lr=1.0)
    several = torch.stack([keys.key(i) for i in range(3)])
    together = torch.func.vmap(lambda key: mask(x, key, probe))(several)
    assert torch.equal(together, torch.stack([mask(x, key, probe) for key in several]))
