"""Unimodal models, averaged."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib import Bernoulli, FusionModel
from synib.data import Dataset, Split
from synib.methods import Ensemble, UnimodalModel
from synib.training.loop import fit

WIDTHS = {"a": 4, "b": 3, "c": 2}
HOW = {"lr": 1e-2, "weight_decay": 1e-1, "epochs": 3, "batch_size": 16}


def three_modalities(n=40):
    def split(rows):
        return Split({name: torch.randn(rows, width) for name, width in WIDTHS.items()}, torch.arange(rows) % 3)

    return Dataset(split(n), split(n), split(n))


def model_of(widths, **settings):
    return FusionModel.mlp(widths, **({"hidden": [8], "classes": 3, "head_hidden": [5]} | settings))


@pytest.mark.parametrize("detach_heads", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_members_are_the_models_that_training_each_modality_alone_gives(detach_heads, dropout):
    together = model_of(WIDTHS, detach_heads=detach_heads, dropout=dropout)
    alone = {name: copy.deepcopy(together) for name in WIDTHS}
    start, data = copy.deepcopy(together.state_dict()), three_modalities()
    ensemble = Ensemble(unimodal_weight=0.05)
    fit(ensemble, together, data, **HOW)
    for modality, model in alone.items():
        fit(UnimodalModel(modality), model, data, **HOW)
        for part in ("encoders", "heads"):
            mine = getattr(together, part)[modality].state_dict()
            for name, value in getattr(model, part)[modality].state_dict().items():
                assert torch.equal(mine[name], value), (part, modality, name)
                assert not torch.equal(start[f"{part}.{modality}.{name}"], value)
    x = data.test.modalities
    members = [UnimodalModel(name).predict(model, x).softmax(-1) for name, model in alone.items()]
    torch.testing.assert_close(ensemble.predict(together, x).softmax(-1), torch.stack(members).mean(0))


@pytest.mark.parametrize("detach_heads", [False, True])
def test_training_leaves_every_parameter_of_the_fusion_bit_identical(detach_heads):
    model = model_of(WIDTHS, detach_heads=detach_heads)
    before = copy.deepcopy(model.state_dict())
    fit(Ensemble(unimodal_weight=0.05), model, three_modalities(), **HOW)
    unchanged = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    fusion = {name for name in before if name.startswith("fusion.")}
    assert fusion
    assert unchanged == fusion  # and nothing else is left untrained


@given(names=st.sampled_from(["ab", "abc"]), size=st.floats(0.01, 30.0), seed=st.integers(0, 99))
def test_the_answer_is_the_mean_of_the_members_probabilities(names, size, seed):
    torch.manual_seed(seed)
    widths = {name: WIDTHS[name] for name in names}
    x = {name: size * torch.randn(6, width, dtype=torch.float64) for name, width in widths.items()}
    classes, binary = model_of(widths).double(), model_of(widths, classes=1).double()
    mean = torch.stack([own.softmax(-1) for own in classes.unimodal(x).values()]).mean(0)
    torch.testing.assert_close(Ensemble().predict(classes, x).softmax(-1), mean)
    mean = torch.stack([own.sigmoid() for own in binary.unimodal(x).values()]).mean(0)
    torch.testing.assert_close(Ensemble(family=Bernoulli()).predict(binary, x).sigmoid(), mean)
