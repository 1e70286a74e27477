"""How many models a device holds, and how precisely it multiplies while they train."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from synib.training import fleet
from synib.training.stacked import StackedModels


@pytest.fixture
def gpu(monkeypatch):
    """A CUDA device of 10 000 bytes with 1 000 in use, where training a model takes 50; what was trained is noted."""
    state = SimpleNamespace(total=10_000, used=1_000, each=50, peak=9_999, cached=0, trained=[])

    def train(recipe, cells, device="cpu", on_epoch=lambda: None, precision="float32"):
        state.trained.append((list(cells), device, precision))
        state.cached = state.each * len(cells)  # torch keeps what it was given until it is told otherwise
        state.peak = max(state.peak, state.used + state.cached)

    monkeypatch.setattr(fleet, "train", train)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: state.used)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: state.peak)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: setattr(state, "peak", state.used))
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda device: (state.total - state.used - state.cached, state.total)
    )
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: setattr(state, "cached", 0))
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    return state


def test_capacity_is_what_the_free_memory_holds_measured_on_a_few_models_in_an_epoch(tiny, cell, gpu):
    cells = [cell(seed=s, epochs=40) for s in range(9)]
    assert fleet.capacity(tiny(), cells, "cuda:1", "tf32") == 76  # 0.85 · 9 000 / (2 · 50)
    assert gpu.cached == 0
    assert gpu.trained == [([cell(seed=s, epochs=1) for s in range(fleet.PROBED)], torch.device("cuda:1"), "tf32")]
    gpu.each = 20_000
    assert fleet.capacity(tiny(), cells[:1], "cuda", "float32") == 1  # at least
    gpu.trained.clear()
    assert fleet.capacity(tiny(), cells, "cpu", "float32") == fleet.ON_CPU == 24
    assert gpu.trained == []


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_precision_holds_in_training_only(tiny, cell, monkeypatch, precision):
    seen, epoch, accuracies = [], StackedModels.epoch, StackedModels.accuracies

    def now():
        return torch.is_autocast_enabled("cpu"), torch.get_float32_matmul_precision()

    def watched(plain, what):
        def call(*arguments):
            seen.append((what, now()))
            return plain(*arguments)

        return call

    monkeypatch.setattr(StackedModels, "epoch", watched(epoch, "training"))
    monkeypatch.setattr(StackedModels, "accuracies", watched(accuracies, "evaluation"))
    before = now()
    fleet.train(tiny(), [cell(epochs=1)], precision=precision)
    assert dict(seen) == {
        "training": (True, "highest") if precision == "bf16" else (False, "high"),
        "evaluation": before,
    }
    assert now() == before


def test_a_precision_ends_with_the_training_that_failed(tiny, cell, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(StackedModels, "epoch", fail)
    with pytest.raises(torch.OutOfMemoryError):
        fleet.train(tiny(), [cell()], precision="tf32")
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_fleet_that_nobody_needs_is_gone_without_a_search_for_garbage(tiny, cell):
    fleet.train(tiny(), [cell("synib-random")])  # what torch imports at the first step may keep the frames it came from
    gc.collect()
    gc.disable()
    try:
        trained = fleet.train(tiny(), [cell("synib-random")])
        alive = weakref.ref(trained.fleet)
        del trained
        assert alive() is None
    finally:
        gc.enable()


def test_a_retired_fleet_has_its_models_and_nothing_else(tiny, cell):
    trained = fleet.train(tiny(), [cell("mcr", seed=seed) for seed in range(2)])
    before = [one.state_dict() for one in trained.learners]
    trained.fleet.retire()
    assert not hasattr(trained.fleet, "optimiser")
    for one, state in zip(trained.learners, before, strict=True):
        assert all(torch.equal(tensor, state[name]) for name, tensor in one.state_dict().items())
