"""A process that trains shards on one device for a run in another process, with which it ends."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import torch

from synib.training import fleet
from synib.training.jobs import received, refusing
from synib.training.shard_files import ShardFiles
from synib.training.shards import Failure
from synib.training.sweep import train_shard


def main() -> None:
    """Answer the tasks that arrive through a pipe until the other process ends.

    Called with the pipe's file descriptor, the device and the number of threads as arguments of the command line.
    """
    connection, device, threads = Connection(int(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    tasks: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    functions: dict[str, Callable[..., dict[str, Any]]] = {"train": train, "measure": measure}
    while True:
        name, *arguments = tasks.get()
        try:
            answer = functions[name](device, lambda: connection.send(("epoch", None)), *arguments)
        except Exception:
            connection.send(("error", traceback.format_exc()))
        else:
            connection.send(("answer", answer))


def _receive(connection: Connection, tasks: "SimpleQueue[tuple[Any, ...]]") -> None:
    """Receive tasks; end this process, whatever it is doing, when the other one has ended."""
    while True:
        try:
            tasks.put(connection.recv())
        except (EOFError, OSError):
            os._exit(1)


@refusing
def train(
    device: str, on_epoch: Callable[[], None], job: str, ids: Sequence[str], folder: str, halvings: int
) -> dict[str, Any]:
    """Train a shard and write it to the folder of the run; the answer contains the ``seconds`` of its training."""
    recipe, shard, _, precision = received(job, ids)
    files = ShardFiles(folder)
    result = train_shard(recipe, shard, device, precision, on_epoch, "fleet", files.keep_failed)
    if isinstance(result, Failure):
        return {"out_of_memory": True}
    result["timing"]["halvings"] = halvings
    files.write(shard, result)
    return {"seconds": result["timing"]["seconds"]}


@refusing
def measure(device: str, on_epoch: Callable[[], None], job: str, ids: Sequence[str]) -> dict[str, Any]:
    """Measure how many such models fit into the memory of the device; the answer contains their ``number``."""
    recipe, cells, _, precision = received(job, ids)
    return {"number": fleet.capacity(recipe, cells, device, precision)}
