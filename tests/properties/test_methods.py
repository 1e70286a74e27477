"""What every method must satisfy: the order of modalities, what it refuses, and where it is plain fusion."""

import pytest
import torch

from synib import Bernoulli, Categorical, FusionModel, Gaussian, methods
from synib.methods import METHODS, Vanilla
from synib.methods.hooks import AddsModules
from synib.studies.spurious_xor.data import parity
from synib.training import backward
from synib.training.loop import fit

WIDTHS = {"a": 4, "b": 3, "c": 2}
every_method = pytest.mark.parametrize("name", METHODS)
# Methods whose loss has the value of plain fusion, whatever they do to its gradient; and those that train as it does.
SAME_VALUE = {"agm": {"alpha": 2.0}, "ogm": {}, "mmpareto": {}, "mcr": {"game": 3.0, "contrast": 0.0}, "dnr": {}}
NOTHING_TO_DO = [
    ("agm", {"alpha": 0.0}, {"alpha": 2.0}),
    ("mcr", {"game": 0.0, "contrast": 0.0}, {"game": 1.0, "contrast": 0.0}),
    ("ogm", {"alpha": 0.0, "noise": False}, {"stop": 1}),
    ("ogm", {"start": 3}, {"start": 1}),
    ("dnr", {"strength": 0.0, "every": 1}, {"strength": 3.0, "every": 1}),
    ("mmpareto", {"scale": 1.0, "unimodal_weight": 0.0}, {"unimodal_weight": 0.0}),
    ("masked-random", {"p": 0.0}, {"p": 0.5}),
    ("masked-random", {"p": 0.5, "weight": 0.0}, {"p": 0.5, "weight": 3.0}),
    ("modality-dropout", {"p": 0.0}, {"p": 0.5}),
    ("confidence", {"weight": 0.0}, {"weight": 3.0}),
    ("gradient-blending", {"every": 9}, {"every": 1}),
]


def model_of(widths=None, classes=3, **settings):
    torch.manual_seed(0)
    return FusionModel.mlp(widths or WIDTHS, hidden=[5], classes=classes, **{"head_hidden": [], **settings}).double()


def batch(rows=7):
    return {name: torch.randn(rows, width, dtype=torch.float64) for name, width in WIDTHS.items()}, torch.arange(
        rows
    ) % 3


def made(name, model, settings_of, **more):
    torch.manual_seed(0)
    method = methods.build(name, **settings_of(name, WIDTHS), **more).double()
    if isinstance(method, AddsModules):
        method.attach(model)
    return method


@every_method
def test_the_order_of_the_modalities_does_not_matter(name, key, settings_of):
    model, (x, y) = model_of(), batch()
    found = []
    for order in ("abc", "cab"):
        method, given = made(name, model, settings_of), {n: x[n] for n in order}
        found.append((method(model, given, y, key=key), method.predict(model, given)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", SAME_VALUE)
@pytest.mark.parametrize(("family", "classes"), [(Bernoulli(), 1), (Categorical(), 3)])
@pytest.mark.parametrize("sample_weight", [None, torch.arange(7.0)], ids=["equal", "weighted"])
def test_the_value_of_the_loss_is_plain_fusions_where_only_the_gradient_changes(name, family, classes, sample_weight):
    model, (x, y) = model_of(classes=classes), batch()
    settings, y = {"family": family, "unimodal_weight": 0.3}, y % max(classes, 2)
    loss, parts = methods.build(name, **SAME_VALUE[name], **settings)(model, x, y, sample_weight=sample_weight)
    expected, of_fusion = Vanilla(**settings)(model, x, y, sample_weight=sample_weight)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close({n: parts[n] for n in of_fusion}, of_fusion)


@pytest.mark.parametrize(("name", "nothing", "something"), NOTHING_TO_DO)
def test_with_nothing_to_do_training_is_plain_fusions_and_otherwise_not(name, nothing, something):
    data = parity(3, 1.0, train=40, validation=16, test=16)

    def trained(method):
        torch.manual_seed(0)
        model = FusionModel.mlp(data.widths, hidden=[8], head_hidden=[], fusion_hidden=[8])
        fit(method, model, data, lr=1e-2, weight_decay=1e-3, epochs=3, batch_size=16)
        return list(model.parameters())

    of_heads = {"unimodal_weight": 0.0} if "unimodal_weight" in nothing else {}
    fusion = trained(Vanilla(Bernoulli(), **of_heads))
    same, other = (trained(methods.build(name, family=Bernoulli(), **s)) for s in (nothing, something))
    torch.testing.assert_close(same, fusion, rtol=1e-4, atol=1e-5)
    assert any(not torch.allclose(p, q, atol=1e-4) for p, q in zip(other, fusion, strict=True))


ANNEALED = {
    "confidence": {"weight": 3.0},
    "masked-random": {"weight": 3.0, "p": 0.5},
    "modality-dropout": {"p": 0.5, "noise": "shuffled"},
    "synib-random": {"weight": 3.0, "p": 0.5},
    "synib-learned": {"weight": 3.0, "steps": 2, "mask_lr": 0.5, "sparsity": 0.01, "noise": "shuffled", "draws": 2},
    "synib-marginal": {"weight": 3.0, "draws": 2},
    "experts": {"weight": 3.0, "draws": 2},
}


@pytest.mark.parametrize("name", ANNEALED)
def test_an_annealed_method_ends_as_plain_fusion(name, key):
    model, (x, y) = model_of(), batch()
    method = methods.build(name, **ANNEALED[name], weight_schedule="anneal", weight_steps=2).double()
    if isinstance(method, AddsModules):
        method.attach(model)
    vanilla, weights = Vanilla()(model, x, y)[1]["task"], []
    for _ in range(3):
        _, parts = method(model, x, y, key=key)
        weights.append(float(parts["p" if name == "modality-dropout" else "weight"]))
        last = float(parts["task"])
    full = ANNEALED[name]["p" if name == "modality-dropout" else "weight"]
    assert weights == [full, full / 2, 0.0]
    assert last == pytest.approx(float(vanilla))


@every_method
@pytest.mark.parametrize(
    "target", [torch.full((7,), 7), torch.zeros(7), torch.zeros(7, 2)], ids=["class", "float", "shape"]
)
def test_a_target_that_does_not_fit_is_refused_in_the_familys_words(name, target, settings_of):
    model, (x, _) = model_of(), batch()
    method = made(name, model, settings_of)
    with pytest.raises(
        ValueError, match=r"Categorical (targets must be classes 0 to 2; got 7|expects \d+ integer class indices)"
    ):
        method(model, x, target)


@every_method
def test_a_family_without_classes_is_refused_by_methods_that_need_some(name, settings_of):
    kind = type(methods.build(name, **settings_of(name, WIDTHS)))
    if kind.with_classes:
        with pytest.raises(ValueError, match=rf"{kind.__name__} {kind.with_classes}: use Bernoulli\(\) .*got Gaussian"):
            methods.build(name, family=Gaussian(), **settings_of(name, WIDTHS))
    else:
        model, (x, _) = model_of(classes=2), batch()
        method = made(name, model, settings_of, family=Gaussian())
        backward(method, model, x, torch.randn(7))
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every_method
def test_a_model_that_lacks_heads_is_refused_with_the_modalities_by_methods_that_need_them(name, settings_of):
    model, (x, y) = model_of(), batch()
    del model.heads["b"]
    kind = type(methods.build(name, **settings_of(name, WIDTHS)))
    settings = {"modality": "b"} if name == "unimodal" else settings_of(name, WIDTHS)

    def train():
        method = methods.build(name, **settings).double()
        if isinstance(method, AddsModules):
            method.attach(model)
        backward(method, model, x, y)

    if kind.with_heads and kind.__name__ != "SynIB":  # of SynIB only some masks and noises need them
        with pytest.raises(
            ValueError, match=f"{kind.__name__} {kind.with_heads}, but the model has no head for 'b': give"
        ):
            train()
    elif name in ("synib-learned", "synib-amortized"):
        with pytest.raises(ValueError, match="needs a unimodal predictor of 'b', but the model has none"):
            train()
    else:
        train()
