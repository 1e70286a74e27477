"""One modality alone."""

import copy

import pytest
import torch
import torch.nn.functional as F

from synib import FusionModel, Gaussian
from synib.data import Dataset, Split
from synib.methods.unimodal import UnimodalModel
from synib.training.loop import fit

WIDTHS = {"a": 4, "b": 3, "b2": 2}  # one name begins like another
HOW = {"lr": 1e-2, "weight_decay": 1e-1, "epochs": 2, "batch_size": 16}


def three_modalities(n=40):
    def split(rows):
        return Split({name: torch.randn(rows, width) for name, width in WIDTHS.items()}, torch.arange(rows) % 3)

    return Dataset(split(n), split(n), split(n))


def model_of(widths, **settings):
    return FusionModel.mlp(widths, **({"hidden": [8], "classes": 3, "head_hidden": [5]} | settings))


@pytest.mark.parametrize("detach_heads", [False, True])
def test_the_loss_is_cross_entropy_of_the_head_and_trains_its_encoder_even_if_heads_are_detached(detach_heads):
    model = model_of(WIDTHS, detach_heads=detach_heads)
    x, y = {name: torch.randn(6, width) for name, width in WIDTHS.items()}, torch.arange(6) % 3
    loss, parts = UnimodalModel("b")(model, x, y)
    expected = F.cross_entropy(model.heads["b"](model.encoders["b"](x["b"])), y)
    torch.testing.assert_close(loss, expected)
    assert parts == {"unimodal/b": loss.detach()}
    loss.backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None}
    assert touched == {name for name, _ in model.named_parameters() if ".b." in name and "fusion" not in name}
    assert all(model.get_parameter(name).grad.abs().sum() > 0 for name in touched)


@pytest.mark.parametrize("detach_heads", [False, True])
def test_everything_else_stays_bit_identical_through_training_with_weight_decay(detach_heads):
    model = model_of(WIDTHS, detach_heads=detach_heads, dropout=0.2)
    before = copy.deepcopy(model.state_dict())
    fit(UnimodalModel("b"), model, three_modalities(), **HOW)
    for name, value in model.state_dict().items():
        own = name.startswith(("encoders.b.", "heads.b."))
        assert torch.equal(value, before[name]) != own, name


def test_the_answer_is_the_heads_and_depends_on_nothing_else():
    model, x = model_of(WIDTHS), {name: torch.randn(6, width) for name, width in WIDTHS.items()}
    answer = UnimodalModel("a").predict(model, x)
    assert torch.equal(answer, model.unimodal(x)["a"])
    other = {name: v if name == "a" else torch.randn_like(v) for name, v in x.items()}
    assert torch.equal(UnimodalModel("a").predict(model, other), answer)


def test_any_family_will_do_and_a_plain_callable_brings_its_own_predictor():
    x, y = {name: torch.randn(6, width) for name, width in WIDTHS.items()}, torch.randn(6)
    model = model_of(WIDTHS, classes=2)
    torch.testing.assert_close(
        UnimodalModel("b2", family=Gaussian())(model, x, y)[0], Gaussian().nll(model.unimodal(x)["b2"], y).mean()
    )
    loss, _ = UnimodalModel("b2", family=Gaussian())(lambda m: m["a"], x, y, unimodal={"b2": lambda z: z})
    torch.testing.assert_close(loss, Gaussian().nll(x["b2"], y).mean())
