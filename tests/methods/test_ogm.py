"""OGM-GE: the encoder that is ahead is held back, and noise is added to encoders' weights."""

import math

import pytest
import torch
import torch.nn.functional as F

from synib import Bernoulli, Categorical, FusionModel, keys
from synib.methods import Vanilla
from synib.methods.ogm import OGM
from synib.training import backward

WIDTHS = {"a": 40, "b": 30, "c": 20}


def make(names="ab", classes=3, **settings):
    widths = {name: WIDTHS[name] for name in names}
    model = FusionModel.mlp(widths, hidden=[50, 50], classes=classes, **{"head_hidden": [], **settings}).double()
    x = {name: torch.randn(12, width, dtype=torch.float64) for name, width in widths.items()}
    return model, x, torch.arange(12) % max(classes, 2)


def gradients(method, model, x, y, seed=0):
    model.zero_grad()
    _, parts = backward(method, model, x, y, key=keys.key(seed))
    return {name: p.grad for name, p in model.named_parameters()}, parts


def right(model, x, y):
    """Each modality's summed probability of the true class under its own head, by hand."""
    return {name: F.softmax(own, 1)[range(len(y)), y].sum().item() for name, own in model.unimodal(x).items()}


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("detach", [False, True])
def test_encoders_that_are_ahead_get_k_times_vanillas_gradient_and_all_else_exactly_vanillas(names, detach):
    model, x, y = make(names, detach_heads=detach)
    ours, parts = gradients(OGM(0.8, noise=False, unimodal_weight=0.7), model, x, y)
    plain, _ = gradients(Vanilla(unimodal_weight=0.7), model, x, y)
    score = right(model, x, y)
    ahead = 0
    for name in names:
        ratio = score[name] * (len(names) - 1) / sum(s for other, s in score.items() if other != name)
        k = 1 - math.tanh(0.8 * ratio) if ratio > 1 else 1.0
        ahead += ratio > 1
        assert parts[f"coefficient/{name}"].item() == pytest.approx(k)
        assert not parts[f"coefficient/{name}"].requires_grad
        for n in [n for n in plain if n.startswith(f"encoders.{name}.")]:
            torch.testing.assert_close(ours[n], k * plain[n])
    assert 0 < ahead < len(names)
    for n in [n for n in plain if not n.startswith("encoders.")]:
        assert torch.equal(ours[n], plain[n])


def test_one_logit_counts_as_two_classes():
    model, x, y = make(classes=1)
    _, parts = gradients(OGM(family=Bernoulli()), model, x, y)
    own = {name: torch.sigmoid(z[:, 0]) for name, z in model.unimodal(x).items()}
    a, b = (torch.where(y == 1, p, 1 - p).sum().item() for p in own.values())
    ks = [1 - math.tanh(0.3 * ratio) if ratio > 1 else 1.0 for ratio in (a / b, b / a)]
    assert [parts[f"coefficient/{name}"].item() for name in "ab"] == pytest.approx(ks)


def test_the_further_ahead_the_slower_and_scores_of_nothing_are_no_lead():
    def ks(*logits, alpha=0.3):
        alone = {str(i): torch.tensor([[float(z), 0.0]]) for i, z in enumerate(logits)}
        return [k.item() for k in OGM(alpha).coefficients(alone, torch.tensor([0])).values()]

    assert ks(1, 1) == [1.0, 1.0]
    assert ks(3, 0)[0] < ks(1, 0)[0] < 1.0
    assert ks(3, 0)[1] == ks(1, 0)[1] == 1.0
    assert ks(0, -500) == [0.0, 1.0]
    assert ks(0, -500, alpha=0.0) == [1.0, 1.0]
    assert ks(-500, -500) == [1.0, 1.0]
    assert [k < 1 for k in ks(2, 1, -3)] == [True, True, False]


def test_noise_has_the_spread_of_the_plain_gradient_and_enters_encoder_weights_only():
    model, x, y = make()
    noisy, parts = gradients(OGM(0.8), model, x, y)
    calm, _ = gradients(OGM(0.8, noise=False), model, x, y)
    plain, _ = gradients(Vanilla(), model, x, y)
    assert min(parts[f"coefficient/{name}"] for name in "ab") < 0.5  # or modulated gradients would pass for plain ones
    drawn = []
    for name, g in plain.items():
        noise = noisy[name] - calm[name]
        if name.startswith("encoders.") and g.ndim >= 2:
            drawn.append((noise / g.std()).flatten())
            assert drawn[-1].std().item() == pytest.approx(1.0, abs=0.06)
            assert drawn[-1].mean().abs() < 4 / math.sqrt(g.numel())
        else:
            assert torch.equal(noisy[name], calm[name]), name
    assert len(drawn) == 4
    together = torch.cat(drawn)
    assert (together**4).mean().item() == pytest.approx(3.0, abs=0.4)  # as a normal distribution has it
    same_shape = torch.stack([drawn[1], drawn[3]])
    assert torch.corrcoef(same_shape)[0, 1].abs() < 0.1  # each tensor has draws of its own


def test_noise_is_decided_by_the_key_and_not_by_torchs_generator():
    model, x, y = make()
    torch.manual_seed(1)
    first, _ = gradients(OGM(), model, x, y, seed=3)
    again, _ = gradients(OGM(), model, x, y, seed=3)
    other, _ = gradients(OGM(), model, x, y, seed=4)
    for name in first:
        assert torch.equal(first[name], again[name])
        assert torch.equal(first[name], other[name]) != (name.startswith("encoders.") and first[name].ndim >= 2)


def test_outside_its_epochs_it_is_vanilla():
    model, x, y = make()
    plain, _ = gradients(Vanilla(), model, x, y)
    method = OGM(start=2, stop=4)
    changed = []
    for epoch in range(6):
        method.begin(epoch)
        ours, parts = gradients(method, model, x, y)
        changed.append(not all(torch.equal(ours[name], plain[name]) for name in plain))
        assert ("coefficient/a" in parts) == changed[-1]
    assert changed == [False, False, True, True, False, False]


def test_class_weights_and_smoothing_say_nothing_of_how_right_a_modality_is():
    model, x, y = make()
    alone = model.unimodal(x)
    for family in (Categorical(weight=[0.1, 1.0, 5.0], label_smoothing=0.3), Categorical(ignore_index=-1)):
        torch.testing.assert_close(OGM(family=family).coefficients(alone, y), OGM().coefficients(alone, y))
    some = y.clone()
    some[:4] = -1
    of_rest = OGM().coefficients({name: p[4:] for name, p in alone.items()}, y[4:])
    torch.testing.assert_close(OGM(family=Categorical(ignore_index=-1)).coefficients(alone, some), of_rest)
