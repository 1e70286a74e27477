"""The process that communicates with Ray for a run.

It runs this file alone, in the environment set by :mod:`synib.training.cluster_session`, so that Ray reads these
settings whatever the main process has imported, and so that Ray's signal handlers, messages and crashes do not affect
the main process. It imports neither synib nor torch. It ends with the main process.
"""

import contextlib
import importlib
import json
import shutil
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

LOOPBACK = "127.0.0.1"
OBJECT_STORE = 100 * 2**20  # bytes; arguments and results are small
LOOK = 1.0  # seconds between two looks at the nodes
Messages = SimpleQueue[tuple[Any, ...] | None]
NODE_PROCESS_ENDED = "Ray's node process (raylet) on this machine ended"


def main() -> None:
    """Join or start a cluster, then pass messages between the run and Ray until one of them ends."""
    connection = Connection(int(sys.argv[1]))
    options = json.loads(sys.argv[2])
    import ray

    try:
        try:
            dashboard = join(ray, options["address"], options["dashboard"])
        except Exception as e:  # Ray documents no type for this
            connection.send(("refused", next(iter(str(e).strip().splitlines()), type(e).__name__)))
            return
        connection.send(("joined", dashboard))
        with contextlib.suppress(EOFError, ConnectionResetError):  # the run has ended
            serve(ray, connection)
    finally:
        ray.shutdown()
        if options["private"]:
            shutil.rmtree(options["private"], ignore_errors=True)


def join(ray: Any, address: str | None, dashboard: bool) -> str:
    """Join the cluster at an address, or start one on this machine; return the address of its dashboard."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        return str(ray.init(address=address, **quiet).dashboard_url)
    context = ray.init(
        address="local",
        include_dashboard=dashboard,
        dashboard_host=LOOPBACK,
        object_store_memory=OBJECT_STORE,
        **quiet,
    )
    listens_at = context.address_info["node_ip_address"]
    if listens_at != LOOPBACK:
        raise RuntimeError(f"Ray listens at {listens_at} instead of {LOOPBACK}")
    return str(context.dashboard_url)


def serve(ray: Any, connection: Connection) -> None:
    """Submit incoming tasks; send back results, failures and, every second, the resources of the living nodes.

    A separate thread sends messages, so that tasks are always read: otherwise both sides could wait for each other
    forever.
    """
    messages: Messages = SimpleQueue()
    sender = threading.Thread(target=send_all, args=(connection, messages), daemon=True)
    sender.start()
    try:
        submit_all(ray, connection, messages)
    finally:
        messages.put(None)
        sender.join()


def submit_all(ray: Any, connection: Connection, messages: Messages) -> None:
    """Submit incoming tasks until the run or this machine's node ends."""
    # No retries by Ray: the run decides. Any number of calls for each worker (0), or each would import torch again.
    task = ray.remote(max_retries=0, max_calls=0)(call)
    own_node = ray.get_runtime_context().get_node_id()

    def finished(ticket: int, future: Future[Any]) -> None:
        if isinstance(future.exception(), ray.exceptions.LocalRayletDiedError):
            messages.put(("lost", NODE_PROCESS_ENDED))
        else:
            messages.put(("result", ticket, *outcome(ray, future)))

    while True:
        alive = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
        if own_node not in alive:
            messages.put(("lost", NODE_PROCESS_ENDED))
            return
        messages.put(("nodes", list(alive.values())))
        next_look = time.monotonic() + LOOK
        while connection.poll(max(0.0, next_look - time.monotonic())):
            received = connection.recv()
            if received is None:
                return
            ticket, function, arguments, resources = received
            reference = task.options(**resources).remote(function, arguments)
            reference.future().add_done_callback(partial(finished, ticket))


def send_all(connection: Connection, messages: Messages) -> None:
    """Send messages in order, until ``None`` arrives or the run has ended."""
    with contextlib.suppress(OSError):
        while (message := messages.get()) is not None:
            connection.send(message)


def call(function: str, arguments: tuple[Any, ...]) -> Any:
    """On a worker: call a function of an installed module, given as ``"module:function"``, with plain values."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(*arguments)


def outcome(ray: Any, future: Future[Any]) -> tuple[str, Any]:
    """The outcome of a task: ``("value", value)``, the name of a failure, or ``("error", text)``."""
    error = future.exception()
    failures = {
        "OUT_OF_MEMORY": ray.exceptions.OutOfMemoryError,  # of the node: Ray ends a worker before the system does
        "NODE_LOST": (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError),
        "PROCESS_ENDED": ray.exceptions.WorkerCrashedError,
    }
    if error is None:
        return "value", future.result()
    for name, kinds in failures.items():
        if isinstance(error, kinds):
            return "failure", name
    return "error", str(error)


if __name__ == "__main__":
    main()
