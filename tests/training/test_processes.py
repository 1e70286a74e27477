"""Several devices of one machine: one process each, and the table of a single device."""

import os
import signal

import pytest
import torch

from synib.files import read_csv
from synib.studies import SpuriousXOR, run
from synib.training import process_worker, processes
from synib.training.device import choose_devices
from synib.training.folder import Folder
from synib.training.jobs import describe_job
from synib.training.processes import Processes

SMALL = SpuriousXOR(seeds=4, beta=(1.0,), methods=("vanilla", "confidence"), epochs=2)
LOADER = "synib.studies.run:from_config"
WORKER = "import sys, time\nfrom multiprocessing.connection import Connection\nother = Connection(int(sys.argv[1]))\n"


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """``sweep(code)``: a sweep on two CPUs by processes that run this code; returns the processes that were started."""
    started, start = [], Processes._started

    def spied(self):
        started.append(start(self))
        return started[-1]

    def run_on(code=None, **options):
        monkeypatch.setattr(Processes, "_started", spied)
        if code is not None:
            monkeypatch.setattr(processes, "START", WORKER + code)
        processes.sweep(
            SMALL, SMALL.cells(), Folder(tmp_path / "out", SMALL.config()), ["cpu", "cpu"], loader=LOADER,
            config=SMALL.config(), together=1, **options,
        )  # fmt: skip

    run_on.started = started
    return run_on


def test_a_process_that_is_killed_costs_its_shard_only_and_the_table_is_that_of_one_device(
    sweep, tmp_path, monkeypatch
):
    def not_here(*_):
        raise AssertionError("shards are trained by the processes")

    monkeypatch.setattr("synib.training.sweep.train_shard", not_here)
    said, progress = [], []

    def on_progress(done, total):
        if not any(progress) and done:
            os.kill(sweep.started[0].process.pid, signal.SIGKILL)
        progress.append(done)

    sweep(on_progress=on_progress, say=said.append)
    assert any("ended; they are trained again" in sentence for sentence in said)
    assert len(sweep.started) == 3
    assert progress[-1] == max(progress) == 2.0 * 2 * 4
    monkeypatch.undo()
    one = run(SMALL, tmp_path / "one", device="cpu", together=1)
    for name in ("results.csv", "curves.csv", "shards.json"):
        assert (tmp_path / "out" / name).read_bytes() == (one / name).read_bytes(), name
    timings = read_csv(tmp_path / "out" / "timings.csv")
    assert list(timings[0]) == list(read_csv(one / "timings.csv")[0])


def test_a_shard_that_ends_its_process_twice_stops_the_run(sweep):
    with pytest.raises(ValueError, match="ended 2 times"):
        sweep("sys.exit(3)")


def test_after_ctrl_c_no_process_is_left(sweep):
    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep("other.recv(); other.send(('epoch', None)); time.sleep(600)", on_progress=interrupt)
    assert sweep.started
    assert all(process.process.returncode is not None for process in sweep.started)


def test_an_error_in_a_process_is_raised_with_its_text_and_a_refusal_is_a_sentence(sweep):
    with pytest.raises(RuntimeError, match="The process on cpu raised:\nKeyError: 'lr'"):
        sweep("other.recv(); other.send(('error', \"KeyError: 'lr'\"))")
    with pytest.raises(ValueError, match=r"^no such data$"):
        sweep("other.recv(); other.send(('answer', {'refused': 'no such data'})); time.sleep(600)")


def test_a_process_out_of_memory_says_so(sweep):
    with pytest.raises(ValueError, match="does not fit into the memory of one of the devices"):
        sweep("other.recv(); other.send(('answer', {'out_of_memory': True})); time.sleep(600)")


def test_shards_are_as_large_as_the_smallest_memory_allows_and_every_device_gets_some(tmp_path, monkeypatch):
    answer = "other.recv(); other.send(('answer', {'number': 9 - int(sys.argv[2][-1])})); time.sleep(600)"
    monkeypatch.setattr(processes, "START", WORKER + answer)
    workers = Processes(["cuda:0", "cuda:4"], "job", Folder(tmp_path, {}))
    try:
        assert workers.capacity(SMALL.cells()[:1]) == 5
    finally:
        workers.close()


def test_a_process_ends_with_the_run_and_refuses_cells_of_another_version(monkeypatch):
    job = describe_job(LOADER, SMALL.config(), "cpu", "float32")
    answer = process_worker.train("cpu", lambda: None, job, ["nobody's"], "nowhere", 0)
    assert "has other cells for this experiment" in answer["refused"]
    waiting = "from synib.training.process_worker import _receive; _receive(other, None)"
    monkeypatch.setattr(processes, "START", WORKER + waiting)
    process = processes._Process("cpu", 1)
    process.connection.close()
    assert process.process.wait(60) == 1


@pytest.mark.parametrize("listed", ["cpu,cuda:0", "cuda:0,cuda:0", "cuda,cuda:1", "cuda:0,cuda:7", "cpu,gpu"])
def test_devices_that_cannot_train_together_are_refused(monkeypatch, listed):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="evice"):
        choose_devices(listed)


def test_cuda_and_auto_are_all_visible_devices(monkeypatch):
    assert choose_devices("cpu") == ["cpu"]
    assert choose_devices("cpu, cpu") == ["cpu", "cpu"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for count, devices in ((1, ["cuda"]), (2, ["cuda:0", "cuda:1"])):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert choose_devices("cuda") == choose_devices("auto") == devices


def test_several_devices_need_the_fleet_and_an_experiment_with_a_name(tmp_path):
    with pytest.raises(ValueError, match="Several devices need the engine 'fleet'"):
        run(SMALL, tmp_path, device="cpu,cpu", engine="solo")

    class Own(SpuriousXOR):
        pass

    with pytest.raises(ValueError, match=r"add it to synib\.studies\.EXPERIMENTS"):
        run(Own(seeds=1, methods=("vanilla",)), tmp_path, device="cpu,cpu")
