"""Trains the fleet's shards on several devices of this machine, with one process for each."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from synib.training import fleet, process_worker
from synib.training.cells import Cell, Recipe, grouped
from synib.training.device import Precision
from synib.training.folder import Folder
from synib.training.jobs import checked, describe_job
from synib.training.shards import Failure, Progress, Written
from synib.training.sweep import check_cells, train_and_collect

CLOSING = 5.0  # seconds that a process has to end
LOOK = 1.0  # seconds without a message after which the sweep looks for signals
START = f"from {process_worker.__name__} import main; main()"


def sweep(
    recipe: Recipe,
    cells: Sequence[Cell],
    folder: Folder,
    devices: Sequence[str],
    *,
    loader: str,
    config: Mapping[str, Any],
    precision: Precision = "float32",
    together: int | None = None,
    on_progress: Progress = lambda done, total: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Train all unfinished cells with one process for each device, then collect the tables.

    Each process writes the shards that it has trained. If one ends, the others continue, and its shard is trained once
    more by a new process. On CPUs the shards are those of one device; on GPUs a program's cells are spread over all.

    Args:
        recipe, cells, folder, precision, together, on_progress, say: As for :func:`synib.training.sweep.sweep`.
        devices: Devices of one kind; ``"cpu"`` may be repeated.
        loader: The function that constructs the recipe in a process, as ``"module:function"``.
        config: Its argument: plain values.
    """
    check_cells(cells, "fleet")
    with contextlib.ExitStack() as stack:
        workers = Processes(devices, describe_job(loader, config, devices[0], precision), folder)
        stack.callback(workers.close)

        def size(same: Sequence[Cell]) -> int:
            if together or not devices[0].startswith("cuda"):
                return together or fleet.ON_CPU
            return max(1, min(workers.capacity(same[: fleet.PROBED]), -(-len(same) // len(devices))))

        train_and_collect(recipe, cells, folder, workers, lambda: grouped(cells, size), on_progress, say)


@dataclass
class _Process:
    """A process that trains one shard at a time on one device."""

    device: str
    threads: int
    shard: list[Cell] | None = None
    on_epoch: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        """Start the process."""
        ours, its = Pipe()
        self.connection: Connection = ours
        output = None if os.environ.get("SYNIB_DEBUG") else subprocess.DEVNULL
        threads = str(self.threads)
        with its:
            # A session of its own: Ctrl-C reaches this process alone, which then ends the others.
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, str(its.fileno()), self.device, threads],
                env={**os.environ, "OMP_NUM_THREADS": threads},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def send(self, *task: Any) -> None:
        """Ask for something; a process that has ended is noticed when its answer is received."""
        with contextlib.suppress(OSError):
            self.connection.send(task)

    def end(self) -> None:
        """End the process; what it was writing is not kept."""
        self.connection.close()  # which ends it, too, unless it hangs
        self.process.terminate()
        try:
            self.process.wait(CLOSING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Processes:
    """Trains shards in processes, one for each device. They start with the first shard.

    Args:
        devices: The devices.
        job: The job, see :func:`synib.training.jobs.describe_job`; its device is replaced by that of each process.
        folder: Folder for the results.
    """

    tries = 2
    in_order = False
    memory_of = "one of the devices"

    def __init__(self, devices: Sequence[str], job: str, folder: Folder) -> None:
        self.job, self.folder = job, str(folder.path.resolve())
        self.threads = max(1, (os.cpu_count() or 1) // len(devices))
        self.free = list(reversed(devices))  # devices without a process
        self.processes: list[_Process] = []

    def room(self) -> int:
        return len(self.free) + sum(process.shard is None for process in self.processes)

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None], halvings: int) -> None:
        process = next((p for p in self.processes if p.shard is None), None) or self._started()
        process.shard, process.on_epoch = shard, on_epoch
        process.send("train", self.job, [cell.id for cell in shard], self.folder, halvings)

    def results(self) -> Iterator[tuple[list[Cell], Written | Failure]]:
        for process, kind, value in self._messages():
            if process.shard is None:
                continue
            if kind == "epoch":
                process.on_epoch()
                continue
            shard, process.shard = process.shard, None
            if kind == "ended":
                yield shard, Failure.PROCESS_ENDED
            elif checked(value).get("out_of_memory"):
                yield shard, Failure.OUT_OF_MEMORY
            else:
                yield shard, Written(value["seconds"])

    def capacity(self, cells: Sequence[Cell]) -> int:
        """The number of such models that fit into the memory of every device."""
        while self.free:
            self._started()
        asked = {process.device for process in self.processes}
        for process in self.processes:
            process.send("measure", self.job, [cell.id for cell in cells])
        numbers: dict[str, int] = {}
        while asked - numbers.keys():
            for process, kind, value in self._messages():
                if kind == "ended":
                    raise ValueError(
                        f"The process on {process.device} ended while it measured how many {cells[0].method} models fit "
                        "into its memory: run again, or set the number of models to train together."
                    )
                numbers[process.device] = checked(value)["number"]
        return min(numbers.values())

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.connection.close()
            process.process.terminate()
        for process in self.processes:
            process.end()

    def _started(self) -> _Process:
        self.processes.append(_Process(self.free.pop(), self.threads))
        return self.processes[-1]

    def _messages(self) -> Iterator[tuple[_Process, str, Any]]:
        """The messages that have arrived; ``"ended"`` for a process that has ended, whose device is then free."""
        ready = wait([process.connection for process in self.processes], LOOK)
        for process in [p for p in self.processes if p.connection in ready]:
            try:
                kind, value = process.connection.recv()
            except (EOFError, OSError):
                process.end()
                self.processes.remove(process)
                self.free.append(process.device)
                kind, value = "ended", None
            if kind == "error":
                raise RuntimeError(f"The process on {process.device} raised:\n{value}")
            yield process, kind, value
