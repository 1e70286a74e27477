"""Every method is trained alike by every trainer: a plain loop, many models at once, Lightning, and two processes.

Two processes run this file (:func:`work`) and train every method by DistributedDataParallel.
"""

import copy
import os
import warnings
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from synib import Bernoulli, Categorical, FusionModel, methods
from synib.data import Dataset, Split
from synib.methods import METHODS
from synib.training import Cell, fleet, loop, solo
from synib.training.cells import Learner

WIDTHS = {"x1": 6, "x2": 5}
MORE = {**WIDTHS, "x3": 4, "x4": 3}
TRAINING = {"lr": 1e-2, "weight_decay": 1e-2, "epochs": 3, "batch_size": 12}  # of two steps; D&R acts after the second
FROZEN = ("encoders.x1.0.weight", "heads.x2.0.bias", "fusion.bias")
ONE_PROCESS = {"agm"}  # it remembers scores from batch to batch, and each process those of its own part


def data(modalities=2, classes=2):
    drawn = torch.Generator().manual_seed(1)

    def split(n):
        seen = {name: torch.randn(n, MORE[name], generator=drawn) for name in list(MORE)[:modalities]}
        target = (seen["x1"][:, 0] * seen["x2"][:, 0] > 0).long()
        return Split(seen, target if classes == 2 else target + (seen["x2"][:, 1] > 0))

    return Dataset(split(24), split(16), None)


def model():
    torch.manual_seed(0)
    made = FusionModel.mlp(WIDTHS, hidden=[8], head_hidden=[], fusion_hidden=[8])
    for name in FROZEN:
        made.get_parameter(name).requires_grad_(False)
    return made


def method(name, settings):
    torch.manual_seed(0)
    return methods.build(name, family=Bernoulli(), **settings)


class Recipe:
    """The same as cells."""

    curves = False

    def data(self, cell):
        return data()

    def model(self, cell, data):
        return model()

    def method(self, cell, data):
        return method(cell.method, {k: v for k, v in cell.settings.items() if k not in TRAINING})


def tensors(learner):
    return {name: t.detach().clone() for name, t in [*learner.named_parameters(), *learner.named_buffers()]}


def trained(name, settings, fit, **options):
    """All parameters and buffers after training."""
    own, how = model(), method(name, settings)
    fit(how, own, data(), **TRAINING, **options)
    return tensors(Learner(own, how))


def work(environment, folder, rank, settings):
    """What each of two processes does."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    os.environ.update(environment)
    found, keys_seen = {}, []

    def noted(how, own, data, **options):
        for hook in ("loss", "losses"):
            if hasattr(how, hook):
                compute = getattr(how, hook)

                def note(model, batch, key, compute=compute):
                    keys_seen.append(int(key))
                    return compute(model, batch, key)

                vars(how)[hook] = note
        fitted = solo.fit(how, own, data, device="cpu", devices=2, strategy="ddp", **options)
        for hook in ("loss", "losses"):
            vars(how).pop(hook, None)
        return fitted

    for name, own in settings.items():
        keys_seen.clear()
        found[name] = {"tensors": trained(name, own, noted), "keys": list(keys_seen)}
    torch.save(found, f"{folder}/{rank}.pt")


if __name__ == "worker":
    work(ENVIRONMENT, FOLDER, RANK, SETTINGS)  # noqa: F821


@pytest.fixture(scope="module")
def settings(settings_of):
    return {name: settings_of(name, WIDTHS) for name in METHODS}


@pytest.fixture(scope="module")
def ranks(together, settings):
    return together(Path(__file__), ["synib.training.solo_run", "pytest"], "worker", SETTINGS=settings)


@pytest.fixture(scope="module")
def by_loop(settings):
    return cache(lambda name: trained(name, settings[name], loop.fit))


def by_fleet(name, settings):
    cells = [Cell("tiny", name, {}, TRAINING | settings | {"lr": lr}, 0) for lr in (TRAINING["lr"], 1e-3)]
    return tensors(fleet.train(Recipe(), cells).learners[0])


def by_lightning(name, settings, **options):
    return trained(name, settings, solo.fit, device="cpu", **options)


def assert_same(found, want):
    assert found.keys() == want.keys()
    for name, value in want.items():
        torch.testing.assert_close(found[name], value, rtol=2e-3, atol=2e-5, msg=lambda m, name=name: f"{name}: {m}")


def assert_frozen_and_trained(name, found):
    """Frozen parameters are as they were, and every head that the method trains has moved."""
    begin = dict(model().named_parameters())
    for frozen in FROZEN:
        assert torch.equal(found[f"model.{frozen}"], begin[frozen]), frozen
    for modality in ("x1",) if name == "unimodal" else WIDTHS:
        head = f"heads.{modality}.0.weight"
        assert not torch.equal(found[f"model.{head}"], begin[head]), head


@pytest.mark.parametrize("name", METHODS)
def test_a_plain_loop_leaves_frozen_parameters_and_trains_the_heads(by_loop, name):
    assert_frozen_and_trained(name, by_loop(name))


@pytest.mark.parametrize("trainer", [by_fleet, by_lightning])
@pytest.mark.parametrize("name", METHODS)
def test_every_trainer_trains_what_a_plain_loop_trains(by_loop, settings, name, trainer):
    found = trainer(name, settings[name])
    assert_same(found, by_loop(name))
    assert_frozen_and_trained(name, found)


MANY = [(name, {}, modalities, 1) for name in ("agm", "mcr", "ogm", "reconboost") for modalities in (3, 4)]
MANY += [("mmpareto", {"form": form}, 3, 1) for form in ("per-encoder", "three-way")]
MANY += [("mmpareto", {}, 4, 3), ("experts", {"weight": 2.0, "draws": 3}, 3, 3), ("dnr", {"every": 1}, 3, 3)]


@pytest.mark.parametrize(("name", "own", "modalities", "classes"), MANY)
def test_more_modalities_and_classes_are_trained_together_as_alone(name, own, modalities, classes):
    class Many(Recipe):
        def data(self, cell):
            return data(modalities, max(classes, 2))

        def model(self, cell, data):
            return FusionModel.mlp(data.widths, hidden=[8], classes=classes, head_hidden=[], fusion_hidden=[8])

        def method(self, cell, data):
            return methods.build(name, family=Bernoulli() if classes == 1 else Categorical(), **own)

    epochs = 5 if name == "reconboost" else 2
    cells = [
        Cell("tiny", name, {}, TRAINING | own | {"lr": lr, "epochs": epochs}, seed)
        for lr, seed in ((1e-2, 0), (1e-3, 1))
    ]
    together = fleet.train(Many(), cells).learners
    for cell, learner in zip(cells, together, strict=True):
        assert_same(tensors(learner), tensors(fleet.train(Many(), [cell]).learners[0]))
    torch.manual_seed(0)
    own_model, how = Many().model(None, data(modalities)), Many().method(None, None)
    loop.fit(how, own_model, Many().data(None), **TRAINING | {"epochs": epochs})
    assert_same(tensors(together[0]), tensors(Learner(own_model, how)))


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_train_what_one_does_that_cuts_its_batches_in_two(ranks, settings, name):
    one, other = (found[name] for found in ranks)
    assert_frozen_and_trained(name, one["tensors"])
    for parameter, _ in model().named_parameters():
        assert torch.equal(one["tensors"][f"model.{parameter}"], other["tensors"][f"model.{parameter}"]), parameter
    if name not in ONE_PROCESS:
        assert_same(one["tensors"], by_lightning(name, settings[name], accumulate=2))
    # Every step of every process has draws of its own.
    assert len({*one["keys"], *other["keys"]}) == 2 * 2 * TRAINING["epochs"]


@pytest.mark.parametrize(
    ("layer", "advice"), [(nn.Dropout(0.5), "synib.models.Dropout"), (nn.BatchNorm1d(8), "GroupNorm")]
)
def test_layers_that_cannot_be_trained_together_are_refused_in_a_sentence(layer, advice):
    class Layered(Recipe):
        def model(self, cell, data):
            made = model()
            made.encoders["x1"].append(copy.deepcopy(layer))
            return made

    with pytest.raises(
        ValueError, match=rf"cannot contain {type(layer).__name__} \(here 'encoders.x1.*{advice}.*'solo'"
    ):
        fleet.train(Layered(), [Cell("tiny", "vanilla", {}, TRAINING, 0)])


@pytest.mark.parametrize("trainer", ["loop", "fleet", "lightning", "pieces"])
def test_a_sample_weight_of_two_is_the_example_twice(trainer):
    plain = data()
    twice = torch.arange(24) % 3 == 0
    rows = torch.cat([torch.arange(24), torch.arange(24)[twice]])

    def changed(split):
        return Dataset(split, plain.validation, None)

    weighed = Split(plain.train.modalities, plain.train.target, sample_weight=1.0 + twice.float())
    repeated = Split({name: x[rows] for name, x in plain.train.modalities.items()}, plain.train.target[rows])

    def fitted(split):
        how = {**TRAINING, "batch_size": len(split)}  # all at once
        if trainer == "fleet":

            class Weighed(Recipe):
                def data(self, cell):
                    return changed(split)

            return tensors(
                fleet.train(Weighed(), [Cell("tiny", "vanilla", {}, how, seed) for seed in (0, 1)]).learners[0]
            )
        own, vanilla = model(), method("vanilla", {})
        if trainer == "loop":
            loop.fit(vanilla, own, changed(split), **how)
        else:
            solo.fit(vanilla, own, changed(split), device="cpu", accumulate=2 if trainer == "pieces" else 1, **how)
        return tensors(Learner(own, vanilla))

    assert_same(fitted(weighed), fitted(repeated))
    assert any(not torch.allclose(a, b, atol=1e-4) for a, b in zip(
        fitted(weighed).values(), fitted(plain.train).values(), strict=True))  # fmt: skip
