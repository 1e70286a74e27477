"""Whole sweeps: resumed, killed and repeated ones end with the same bytes."""

import csv
import dataclasses
import gc
import shutil
import weakref

import pytest
import torch

from synib.data import Split
from synib.engines import fleet
from synib.engines.cells import cut
from synib.engines.device import device_name
from synib.engines.folder import Folder, read_csv, read_json
from synib.engines.learner import Learner
from synib.engines.sweep import row, sweep

CONFIG = {"experiment": "tiny"}
TABLES = ("results.csv", "curves.csv", "shards.json")


@pytest.fixture(autouse=True, scope="module")
def _collected():
    """What is alive now need not be looked at whenever garbage is collected, which every shard's end does."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def cells(cell):
    """Five cells in two programs: two at a time they make three shards, vanilla 2 + 1 and random 2."""
    return [cell(seed=s) for s in range(3)] + [cell("synib-random", seed=s, beta=0.5) for s in range(2)]


@pytest.fixture
def trained(monkeypatch):
    """The ids of the cells of every shard that is trained."""
    seen, train = [], fleet.train

    def spied(recipe, shard, *rest):
        seen.append([c.id for c in shard])
        return train(recipe, shard, *rest)

    monkeypatch.setattr(fleet, "train", spied)
    return seen


def run(path, recipe, cells, **options):
    sweep(recipe, cells, Folder(path, CONFIG), **options)
    return {name: (path / name).read_bytes() for name in TABLES}


class Device:
    """Training that takes no time, on a device with room for as many models as :attr:`fits` says.

    Accuracies follow from the cell alone; :attr:`tried` has the shards that came, with everything else train was given.
    """

    def __init__(self):
        self.tried, self.options = [], []
        self.fits = lambda shard: True
        self.fail = out_of_memory

    def train(self, recipe, shard, device="cpu", on_epoch=lambda: None, precision="float32"):
        self.tried.append(list(shard))
        self.options.append((str(device), precision))
        for epoch in range(shard[0].settings["epochs"]):
            if epoch and not self.fits(shard):  # the first epoch has passed, and is lost
                self.fail()
            on_epoch()
        accuracy = [int(cell.id, 16) % 1000 / 1000 for cell in shard]
        return fleet.Trained(
            [{"test_accuracy": a} for a in accuracy], [{"train_accuracy": [0.5, a]} for a in accuracy], None
        )

    @property
    def sizes(self):
        return [len(shard) for shard in self.tried]


@pytest.fixture
def device(monkeypatch):
    made = Device()
    monkeypatch.setattr(fleet, "train", made.train)
    return made


def out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def kept(path):
    """Every finished shard: its bytes, and when they were written."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (path / "shards").iterdir()}


def sizes(path):
    return [len(shard) for shard in read_json(path / "shards.json")]


class Killed(BaseException):
    pass


def killed_after(n):
    """Progress that ends the run at its nth call."""
    left = iter(range(n))

    def progress(done, of):
        if next(left, None) is None:
            raise Killed

    return progress


def test_a_sweep_leaves_a_row_for_every_cell(tmp_path, tiny, cells):
    run(tmp_path, tiny(), cells, together=2)
    rows = read_csv(tmp_path / "results.csv")
    assert list(rows[0]) == [
        "experiment", "method", "beta", "seed", "train_accuracy", "validation_accuracy", "test_accuracy", "cell",
        "versions",
    ]  # fmt: skip
    assert [(r["method"], r["beta"], r["seed"], r["cell"]) for r in rows] == [
        (c.method, c.factors["beta"], c.seed, c.id) for c in cells
    ]
    assert all(0 <= r["test_accuracy"] <= 1 and f"torch {torch.__version__}" in r["versions"] for r in rows)
    kinds = {(c.method, c.factors["beta"]) for c in cells}
    assert len(read_csv(tmp_path / "curves.csv")) == len(kinds) * 2 * 2  # two epochs, training and validation
    assert len(read_json(tmp_path / "shards.json")) == 3


def test_the_rows_do_not_depend_on_how_many_train_at_once(tmp_path, tiny, cells):
    run(tmp_path / "one", tiny(), cells, together=1)
    run(tmp_path / "all", tiny(), cells, together=100)
    one, together = read_csv(tmp_path / "one" / "results.csv"), read_csv(tmp_path / "all" / "results.csv")
    for a, b in zip(one, together, strict=True):
        assert a.keys() == b.keys()
        assert all(a[name] == pytest.approx(b[name]) for name in a)


@pytest.mark.parametrize("calls", [0, 2, 3, 5, 8])
def test_a_run_killed_anywhere_trains_what_is_left_and_nothing_else(tmp_path, tiny, cells, device, calls):
    whole = run(tmp_path / "whole", tiny(), cells, together=2)
    everything = list(device.tried)
    with pytest.raises(Killed):
        run(tmp_path / "killed", tiny(), cells, together=2, on_progress=killed_after(calls))
    finished = len(list((tmp_path / "killed" / "shards").glob("*.json")))
    device.tried.clear()
    assert run(tmp_path / "killed", tiny(), cells, together=5) == whole
    assert device.tried == everything[finished:]


@pytest.mark.parametrize("calls", [3, 5])
def test_a_killed_run_goes_on_where_it_stopped_and_ends_with_the_same_bytes(tmp_path, tiny, cells, trained, calls):
    whole = run(tmp_path / "whole", tiny(), cells, together=2)
    everything = list(trained)
    trained.clear()

    with pytest.raises(Killed):
        run(tmp_path / "killed", tiny(), cells, together=2, on_progress=killed_after(calls))
    finished = len(list((tmp_path / "killed" / "shards").glob("*.json")))
    assert not (tmp_path / "killed" / "results.csv").exists()
    trained.clear()

    # With another shard size: the grouping that was recorded holds.
    assert run(tmp_path / "killed", tiny(), cells, together=5) == whole
    assert trained == everything[finished:]


def test_what_is_finished_is_written_before_the_next_shard_begins(tmp_path, tiny, cells):
    there = []
    run(
        tmp_path,
        tiny(),
        cells,
        together=2,
        on_progress=lambda *_: there.append(len(list((tmp_path / "shards").iterdir()))),
    )
    assert there == [0, 0, 1, 1, 1, 2, 2, 2, 3]  # two epochs and an end for each of three shards


def test_a_finished_run_is_not_trained_again(tmp_path, tiny, cells, trained):
    first = run(tmp_path, tiny(), cells, together=2)
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "shards").iterdir()}
    trained.clear()
    assert run(tmp_path, tiny(), cells, together=1) == first
    assert trained == []
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "shards").iterdir()} == kept


def test_a_removed_shard_is_trained_again_alone(tmp_path, tiny, cells, trained):
    first = run(tmp_path, tiny(), cells, together=2)
    trained.clear()
    gone = sorted((tmp_path / "shards").iterdir())[0]
    gone.unlink()
    assert run(tmp_path, tiny(), cells, together=2) == first
    assert len(trained) == 1
    assert gone.exists()


def test_a_damaged_shard_costs_nothing_but_itself(tmp_path, tiny, cells):
    first = run(tmp_path / "a", tiny(), cells, together=2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    damaged = sorted((tmp_path / "b" / "shards").iterdir())[0]
    damaged.write_text(damaged.read_text()[:40])
    with pytest.raises(ValueError, match=r"damaged.*remove it and run again"):
        run(tmp_path / "b", tiny(), cells)
    damaged.unlink()
    assert run(tmp_path / "b", tiny(), cells) == first


def test_progress_rises_to_all_there_is_and_a_dearer_method_counts_more(tmp_path, tiny, cells):
    seen = []
    run(tmp_path, tiny(), cells, together=2, on_progress=lambda done, of: seen.append((done, of)))
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(seen[-1][1])
    assert len({of for _, of in seen}) == 1
    assert done[0] == pytest.approx(2)  # an epoch of two vanilla models
    assert done[6] - done[5] > 2  # and of two with random masks
    seen.clear()
    run(tmp_path, tiny(), cells, on_progress=lambda done, of: seen.append((done, of)))
    assert len(seen) == 3  # finished shards pass at once
    assert seen[-1][0] == pytest.approx(seen[-1][1])


def test_out_of_memory_halves_what_is_left_and_ends_with_the_same_results(tmp_path, tiny, cell, monkeypatch):
    """The second shard fails in the midst of a step, as a device does."""
    cells = [cell(seed=s) for s in range(4)] + [cell("synib-random", seed=s) for s in range(4)]
    run(tmp_path / "whole", tiny(), cells, together=4)

    passes, gradient, said, before = iter(range(100)), Learner.gradient, [], {}

    def failing(self, *batch):
        if next(passes) == 9:  # a shard of the first four takes six steps
            out_of_memory()
        return gradient(self, *batch)

    def say(sentence):
        said.append(sentence)
        before.update(kept(tmp_path / "halved"))

    monkeypatch.setattr(Learner, "gradient", failing)
    run(tmp_path / "halved", tiny(), cells, together=2, say=say)

    assert said == [
        "Out of memory with 2 models at once on cpu; the shards that are left are halved and training goes on. "
        "What is finished is kept."
    ]
    assert len(before) == 1
    assert kept(tmp_path / "halved").items() >= before.items()  # neither its bytes nor its time changed
    first, *rest = read_json(tmp_path / "halved" / "shards.json")
    assert first == [c.id for c in cells[:2]]
    assert rest == [[c.id] for c in cells[2:]]
    timings = read_csv(tmp_path / "halved" / "timings.csv")
    assert [t["cells"] for t in timings] == [2] + [1] * 6
    assert [t["halvings"] for t in timings] == [0] + [1] * 6

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
def test_every_way_to_run_out_of_memory_is_met_by_halving(tmp_path, tiny, cell, device, fail):
    cells, said = [cell(seed=s) for s in range(7)], []
    whole = run(tmp_path / "whole", tiny(), cells)
    device.tried.clear()
    device.fits, device.fail = (lambda shard: len(shard) <= 2), fail
    halved = run(tmp_path / "halved", tiny(), cells, say=said.append)
    assert device.sizes == [7, 4, 2, 2, 2, 1]
    assert [sentence.split(" models")[0] for sentence in said] == ["Out of memory with 7", "Out of memory with 4"]
    assert sizes(tmp_path / "halved") == [2, 2, 2, 1]
    assert [t["halvings"] for t in read_csv(tmp_path / "halved" / "timings.csv")] == [2] * 4
    assert (halved["results.csv"], halved["curves.csv"]) == (whole["results.csv"], whole["curves.csv"])


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), KeyError("lr"), OSError(28)]
)
def test_any_other_error_passes_as_it_is_and_changes_nothing(tmp_path, tiny, cell, device, error):
    cells, said = [cell(seed=s) for s in range(4)], []

    def fail():
        raise error

    device.fits, device.fail = (lambda shard: cells[0] in shard), fail
    with pytest.raises(type(error)) as raised:
        run(tmp_path, tiny(), cells, together=2, say=said.append)
    assert raised.value is error
    assert said == []
    assert (device.sizes, sizes(tmp_path), len(kept(tmp_path))) == ([2, 2], [2, 2], 1)


def test_a_model_that_does_not_fit_alone_is_said_and_what_is_finished_serves_the_next_run(tmp_path, tiny, cell, device):
    cells = [cell(seed=s) for s in range(4)] + [cell("synib-random", seed=s) for s in range(4)]
    whole = run(tmp_path / "whole", tiny(), cells, together=4)
    device.fits = lambda shard: shard[0].method == "vanilla"
    device.tried.clear()
    path, said = tmp_path / "failed", []
    with pytest.raises(
        ValueError, match=r"^One synib-random model alone does not fit into the memory of .*CPU"
    ) as raised:
        run(path, tiny(), cells, together=4, say=said.append)
    assert "another device" in str(raised.value)
    assert isinstance(raised.value.__cause__, torch.OutOfMemoryError)
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


@pytest.mark.parametrize("calls", [1, 2, 4, 7])
def test_a_run_killed_after_it_was_halved_ends_as_if_it_had_not_been(tmp_path, tiny, cell, device, calls):
    cells = [cell(seed=s) for s in range(8)]
    device.fits = lambda shard: len(shard) <= 2
    whole = run(tmp_path / "whole", tiny(), cells, together=4)
    assert device.sizes == [4, 2, 2, 2, 2]

    with pytest.raises(Killed):
        run(tmp_path / "killed", tiny(), cells, together=4, on_progress=killed_after(calls))
    finished, before = len(kept(tmp_path / "killed")), kept(tmp_path / "killed")
    device.tried.clear()
    assert run(tmp_path / "killed", tiny(), cells, together=4) == whole
    assert device.sizes == [2] * (4 - finished)  # nothing is tried again that was found not to fit
    assert kept(tmp_path / "killed").items() >= before.items()


def test_halving_leaves_a_finished_shard_that_comes_later_as_it_is(tmp_path, tiny, cell, device):
    cells = [cell(seed=s) for s in range(8)]
    whole = run(tmp_path, tiny(), cells, together=4)
    names = [shard_file(tmp_path, cells[:4]), shard_file(tmp_path, cells[4:])]
    (tmp_path / "shards" / names[0]).unlink()
    before = kept(tmp_path)
    device.tried.clear()
    device.fits = lambda shard: len(shard) <= 2
    halved = run(tmp_path, tiny(), cells, together=4)
    assert device.tried == [cells[:4], cells[:2], cells[2:4]]
    assert sorted(sizes(tmp_path)) == [2, 2, 4]
    assert kept(tmp_path)[names[1]] == before[names[1]]
    assert halved["results.csv"] == whole["results.csv"]


def shard_file(path, shard):
    """The name of the file that holds these cells."""
    ids = {c.id for c in shard}
    return next(p.name for p in (path / "shards").iterdir() if {r["cell"] for r in read_json(p)["rows"]} == ids)


def test_progress_after_halving_counts_what_is_finished_and_ends_at_all_there_is(tmp_path, tiny, cell, device):
    seen, at = [], []
    device.fits = lambda shard: len(shard) == 1
    run(
        tmp_path,
        tiny(),
        [cell(seed=s) for s in range(2)],
        on_progress=lambda done, of: seen.append((done, of)),
        say=lambda _: at.append(len(seen)),
    )
    done = [d for d, _ in seen]
    assert {of for _, of in seen} == {4.0}  # two vanilla models, two epochs
    assert done[0] == 2.0  # an epoch of both, which is lost
    assert at == [1]
    assert done[-6:] == [1.0, 2.0, 2.0, 3.0, 4.0, 4.0]


@pytest.mark.parametrize("fails", [False, True])
def test_a_shards_memory_is_free_before_the_next_begins(tmp_path, tiny, cell, monkeypatch, fails):
    made, alive = [], []

    class Spy(fleet.Fleet):
        def __init__(self, *arguments):
            alive.append(sum(ref() is not None for ref in made))
            super().__init__(*arguments)
            made.append(weakref.ref(self))

        def epoch(self, split, epoch):
            if fails and len(made) == 1:
                out_of_memory()
            super().epoch(split, epoch)

    monkeypatch.setattr(fleet, "Fleet", Spy)
    gc.disable()
    try:
        run(tmp_path, tiny(), [cell(seed=s, epochs=1) for s in range(2)], together=2 if fails else 1)
    finally:
        gc.enable()
    assert alive == ([0, 0, 0] if fails else [0, 0])


def test_how_many_fit_is_asked_for_each_program_once_and_never_again(tmp_path, tiny, cells, device, monkeypatch):
    asked = []

    def capacity(recipe, same, device, precision):
        asked.append((list(same), device, precision))
        return 2

    monkeypatch.setattr(fleet, "capacity", capacity)
    with pytest.raises(Killed):
        run(tmp_path, tiny(), cells, precision="bf16", on_progress=killed_after(4))
    assert asked == [(cells[:3], "cpu", "bf16"), (cells[3:], "cpu", "bf16")]
    assert sizes(tmp_path) == [2, 1, 2]

    asked.clear()
    device.tried.clear()
    run(tmp_path, tiny(), cells, precision="bf16")
    assert asked == []
    assert device.tried == [cells[2:3], cells[3:]]


def test_how_many_fit_is_not_asked_where_it_is_said(tmp_path, tiny, cells, device, monkeypatch):
    def capacity(*_):
        raise AssertionError("nobody asked")

    monkeypatch.setattr(fleet, "capacity", capacity)
    run(tmp_path, tiny(), cells, together=1)
    assert device.sizes == [1] * 5


def test_by_default_a_cpu_trains_twenty_four_at_once_in_even_shards(tmp_path, tiny, cell, device):
    cells = [cell(seed=s) for s in range(25)]
    run(tmp_path, tiny(), cells)
    assert device.tried == cut(cells, 24) == [cells[:13], cells[13:]]


def test_a_device_too_small_to_measure_on_trains_what_fits(tmp_path, tiny, cell, device, monkeypatch):
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


def test_device_and_precision_reach_training_and_are_timed(tmp_path, tiny, cells, device):
    run(tmp_path, tiny(), cells, together=2, precision="bf16")
    assert device.options == [("cpu", "bf16")] * 3
    timings = read_csv(tmp_path / "timings.csv")
    assert list(timings[0]) == ["shard", "cells", "seconds", "device", "precision", "halvings"]
    assert {(t["device"], t["precision"], t["halvings"]) for t in timings} == {(device_name("cpu"), "bf16", 0)}


def test_without_curves_the_results_are_the_same_and_no_curves_are_written(tmp_path, tiny, cells):
    class Quiet(type(tiny())):
        curves = False

    loud = run(tmp_path / "loud", tiny(), cells)
    sweep(Quiet(), cells, Folder(tmp_path / "quiet", CONFIG))
    assert (tmp_path / "quiet" / "results.csv").read_bytes() == loud["results.csv"]
    assert not (tmp_path / "quiet" / "curves.csv").exists()


def test_a_group_without_examples_leaves_an_empty_field_and_no_zero(tmp_path, tiny, cell):
    class Grouped(type(tiny())):
        def data(self, cell):
            made = super().data(cell)
            members = torch.full((len(made.test),), cell.seed != 1)
            groups = {"S": members, "R": ~members}
            return dataclasses.replace(made, test=Split(made.test.modalities, made.test.target, groups))

    run(tmp_path, Grouped(), [cell(seed=s) for s in range(3)])
    with (tmp_path / "results.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [(r["test_accuracy_S"] == "", r["test_accuracy_R"] == "") for r in written] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip
    for r in written:
        assert float(r["test_accuracy_S"] or r["test_accuracy_R"]) == float(r["test_accuracy"])
    assert [r["test_accuracy_S"] is None for r in read_csv(tmp_path / "results.csv")] == [False, True, False]


def test_a_row_has_no_clock_and_no_nan_in_it(cell):
    made = row(cell(seed=4), {"test_accuracy": 0.5, "test_accuracy_S": float("nan")})
    assert list(made) == ["experiment", "method", "beta", "seed", "test_accuracy", "cell", "versions"]
