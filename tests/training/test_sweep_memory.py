"""Sweeps on a device with too little memory: how many models train at once, and what happens when they do not fit."""

import gc
import weakref

import pytest
import torch

from synib.files import read_csv, read_json
from synib.training import fleet
from synib.training.device import device_name
from synib.training.stacked import StackedModels


def out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.fixture
def device(device):
    """Training that takes no time, on a device that runs out of memory where :attr:`fits` says no."""
    device.fail = out_of_memory
    return device


def test_out_of_memory_halves_shards_of_that_size_and_ends_with_the_same_results(
    tmp_path, tiny, run, kept, cell, monkeypatch
):
    """The second shard fails in the midst of a step, as a device does."""
    cells = [cell(seed=s) for s in range(4)] + [cell("synib-random", seed=s) for s in range(4)]
    run(tmp_path / "whole", tiny(), cells, together=4)

    steps, step, said, before = iter(range(100)), StackedModels.step, [], {}

    def failing(self, *batch):
        if next(steps) == 9:  # a shard of the first four takes six steps
            out_of_memory()
        return step(self, *batch)

    def say(sentence):
        said.append(sentence)
        before.update(kept(tmp_path / "halved"))

    monkeypatch.setattr(StackedModels, "step", failing)
    run(tmp_path / "halved", tiny(), cells, together=2, say=say)

    assert [sentence.split(" on ")[0] for sentence in said] == ["Out of memory with 2 models at once"]
    assert len(before) == 1
    assert kept(tmp_path / "halved").items() >= before.items()  # neither its bytes nor its time changed
    ids = [c.id for c in cells]
    assert sorted(read_json(tmp_path / "halved" / "shards.json")) == sorted(
        [ids[:2], [ids[2]], [ids[3]], ids[4:6], ids[6:]]
    )
    timings = read_csv(tmp_path / "halved" / "timings.csv")
    assert list(timings[0]) == ["shard", "cells", "seconds", "device", "precision", "halvings"]
    assert {(t["device"], t["precision"]) for t in timings} == {(device_name("cpu"), "float32")}
    assert sorted((t["cells"], t["halvings"]) for t in timings) == [(1, 1), (1, 1), (2, 0), (2, 1), (2, 1)]

    whole, halved = (read_csv(tmp_path / name / "results.csv") for name in ("whole", "halved"))
    for a, b in zip(whole, halved, strict=True):
        assert a.keys() == b.keys()
        assert all(a[name] == pytest.approx(b[name]) for name in a)
    assert [t["halvings"] for t in read_csv(tmp_path / "whole" / "timings.csv")] == [0, 0]


def no_memory():
    raise MemoryError


def no_cpu_memory():
    torch.empty(1 << 60)


@pytest.mark.parametrize("fail", [out_of_memory, no_memory, no_cpu_memory])
def test_every_way_to_run_out_of_memory_is_met_by_halving(tmp_path, tiny, run, sizes, cell, device, fail):
    cells, said = [cell(seed=s) for s in range(7)], []
    whole = run(tmp_path / "whole", tiny(), cells)
    device.tried.clear()
    device.fits, device.fail = (lambda shard: len(shard) <= 2), fail
    halved = run(tmp_path / "halved", tiny(), cells, say=said.append)
    assert device.sizes == [7, 4, 2, 2, 3, 2, 1]
    assert len(said) == 3
    assert sizes(tmp_path / "halved") == [2, 2, 2, 1]
    assert (halved["results.csv"], halved["curves.csv"]) == (whole["results.csv"], whole["curves.csv"])


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), OSError(28)])
def test_any_other_error_passes_as_it_is_and_changes_nothing(tmp_path, tiny, run, kept, sizes, cell, device, error):
    cells, said = [cell(seed=s) for s in range(4)], []

    def fail():
        raise error

    device.fits, device.fail = (lambda shard: cells[0] in shard), fail
    with pytest.raises(type(error)) as raised:
        run(tmp_path, tiny(), cells, together=2, say=said.append)
    assert raised.value is error
    assert said == []
    assert (device.sizes, sizes(tmp_path), len(kept(tmp_path))) == ([2, 2], [2, 2], 1)


def test_a_model_that_does_not_fit_alone_is_said_and_what_is_finished_serves_the_next_run(
    tmp_path, tiny, run, kept, sizes, cell, device
):
    cells = [cell(seed=s) for s in range(4)] + [cell("synib-random", seed=s) for s in range(4)]
    whole = run(tmp_path / "whole", tiny(), cells, together=4)
    device.fits = lambda shard: shard[0].method == "vanilla"
    device.tried.clear()
    path, said = tmp_path / "failed", []
    with pytest.raises(ValueError, match=r"^A single synib-random model does not fit into the memory of .*CPU"):
        run(path, tiny(), cells, together=4, say=said.append)
    assert device.sizes == [4, 4, 2, 1]
    assert len(said) == 2
    assert sizes(path) == [4, 1, 1, 1, 1]
    assert not (path / "results.csv").exists()
    before = kept(path)
    assert len(before) == 1

    device.fits = lambda shard: True
    device.tried.clear()
    again = run(path, tiny(), cells, together=4)
    assert device.tried == [[c] for c in cells[4:]]
    assert kept(path).items() >= before.items()
    assert again["results.csv"] == whole["results.csv"]


@pytest.mark.parametrize("calls", [3, 8])
def test_a_run_killed_after_it_was_halved_ends_as_if_it_had_not_been(
    tmp_path, tiny, run_killed, run, kept, cell, device, calls
):
    cells = [cell(seed=s) for s in range(8)]
    device.fits = lambda shard: len(shard) <= 2
    whole = run(tmp_path / "whole", tiny(), cells, together=4)
    assert device.sizes == [4, 2, 2, 2, 2]

    finished = run_killed(calls, tmp_path / "killed", tiny(), cells, together=4)
    before = kept(tmp_path / "killed")
    device.tried.clear()
    assert run(tmp_path / "killed", tiny(), cells, together=4) == whole
    assert device.sizes == [2] * (4 - finished)  # nothing is tried again that was found not to fit
    assert kept(tmp_path / "killed").items() >= before.items()


@pytest.mark.parametrize("fails", [False, True])
def test_a_shards_memory_is_free_before_the_next_begins(tmp_path, tiny, run, cell, monkeypatch, fails):
    made, alive = [], []

    class Spy(StackedModels):
        def __init__(self, *arguments):
            alive.append(sum(ref() is not None for ref in made))
            super().__init__(*arguments)
            made.append(weakref.ref(self))

        def epoch(self, split, epoch):
            if fails and len(made) == 1:
                out_of_memory()
            super().epoch(split, epoch)

    monkeypatch.setattr(fleet, "StackedModels", Spy)
    gc.disable()
    try:
        run(tmp_path, tiny(), [cell(seed=s, epochs=1) for s in range(2)], together=2 if fails else 1)
    finally:
        gc.enable()
    assert alive == ([0, 0, 0] if fails else [0, 0])


def test_how_many_fit_is_asked_for_each_program_once_and_never_again(
    tmp_path, tiny, run_killed, run, sizes, cells, device, monkeypatch
):
    asked = []

    def capacity(recipe, same, device, precision):
        asked.append((list(same), device, precision))
        return 2

    monkeypatch.setattr(fleet, "capacity", capacity)
    run_killed(4, tmp_path, tiny(), cells, precision="bf16")
    assert set(device.options) == {("cpu", "bf16")}
    assert asked == [(cells[:3], "cpu", "bf16"), (cells[3:], "cpu", "bf16")]
    assert sizes(tmp_path) == [2, 1, 2]

    asked.clear()
    device.tried.clear()
    run(tmp_path, tiny(), cells, precision="bf16")
    assert asked == []
    assert device.tried == [cells[2:3], cells[3:]]


def test_a_device_too_small_to_measure_on_trains_what_fits(tmp_path, tiny, run, cell, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 1000))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a small GPU")
    for name in ("empty_cache", "init"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    cells, train = [cell(seed=s) for s in range(6)], device.train

    def small(recipe, shard, *rest, **options):
        if len(shard) > 2:
            out_of_memory()
        return train(recipe, shard, *rest, **options)

    monkeypatch.setattr(fleet, "train", small)
    run(tmp_path, tiny(), cells, device="cuda")
    assert [r["cell"] for r in read_csv(tmp_path / "results.csv")] == [c.id for c in cells]
