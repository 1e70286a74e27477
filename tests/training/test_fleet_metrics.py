"""What training tells: metrics, curves, accuracies of groups, and ordinary modules."""

import dataclasses

import pytest
import torch

from synib.data import Split
from synib.training import fleet
from synib.training.stacked import StackedModels


def test_metrics_are_those_of_the_last_epoch_and_curves_have_every_epoch(tiny, cell):
    passed = []
    trained = fleet.train(tiny(), [cell(epochs=3)], on_epoch=lambda: passed.append(1))
    assert len(passed) == 3
    assert list(trained.metrics[0]) == ["train_accuracy", "validation_accuracy", "test_accuracy"]
    curves = trained.curves[0]
    assert {name: len(curve) for name, curve in curves.items()} == {"train_accuracy": 3, "validation_accuracy": 3}
    assert all(trained.metrics[0][name] == curve[-1] for name, curve in curves.items())


def test_without_curves_the_same_models_come_out_and_are_looked_at_once(tiny, cell, monkeypatch):
    class Quiet(type(tiny())):
        curves = False

    looked, accuracies = [], StackedModels.accuracies

    def spied(self, split, name, *rest):
        looked.append(name)
        return accuracies(self, split, name, *rest)

    monkeypatch.setattr(StackedModels, "accuracies", spied)
    cells, passed = [cell("synib-random", seed=s, epochs=3) for s in range(2)], []
    quiet = fleet.train(Quiet(), cells, on_epoch=lambda: passed.append(1))
    assert looked == ["train_accuracy", "validation_accuracy", "test_accuracy"]
    assert len(passed) == 3
    looked.clear()
    loud = fleet.train(tiny(), cells)
    assert looked == ["train_accuracy", "validation_accuracy"] * 3 + ["test_accuracy"]
    assert quiet.curves == [{}, {}]
    assert quiet.metrics == loud.metrics
    for a, b in zip(quiet.learners, loud.learners, strict=True):
        torch.testing.assert_close(a.state_dict(), b.state_dict(), rtol=0, atol=0)


def test_groups_get_accuracies_of_their_own_and_an_empty_one_has_none(tiny, cell):
    class Grouped(type(tiny())):
        def data(self, cell):
            made = super().data(cell)

            def grouped(split):
                first = torch.arange(len(split)) < 10
                return Split(
                    split.modalities, split.target, {"first": first, "rest": ~first, "none": torch.zeros_like(first)}
                )

            return dataclasses.replace(
                made, train=grouped(made.train), validation=grouped(made.validation), test=grouped(made.test)
            )

    trained = fleet.train(Grouped(), [cell(), cell(seed=1)])
    for metrics, curves in zip(trained.metrics, trained.curves, strict=True):
        parts = 10 * metrics["test_accuracy_first"] + 54 * metrics["test_accuracy_rest"]
        assert parts == pytest.approx(64 * metrics["test_accuracy"], abs=1e-4)
        assert metrics["test_accuracy_none"] != metrics["test_accuracy_none"]  # NaN
        assert len(curves["validation_accuracy_first"]) == 2


def test_cells_with_splits_of_different_sizes_are_refused_with_the_sizes(tiny, cell):
    class Uneven(type(tiny())):
        def data(self, cell):
            made = super().data(cell)
            shorter = Split({n: x[:30] for n, x in made.train.modalities.items()}, made.train.target[:30])
            return dataclasses.replace(made, train=shorter) if cell.seed else made

    with pytest.raises(ValueError, match=r"splits of equal size; got \[30, 40\]"):
        fleet.train(Uneven(), [cell(), cell(seed=1)])


def test_without_accuracies_the_same_models_are_trained(tiny, cell):
    measured, quick = (fleet.train(tiny(), [cell(epochs=2)], accuracies=given) for given in (True, False))
    assert quick.metrics == [{}]
    for name, parameter in measured.fleet.parameters.items():
        assert torch.equal(parameter, quick.fleet.parameters[name])
