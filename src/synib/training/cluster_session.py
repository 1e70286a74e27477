"""A connection to a Ray cluster during a run, joined or started with a token; nothing is left running at the end."""

import contextlib
import importlib.metadata
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from synib.training import cluster_agent
from synib.training.shards import Failure

ANSWER = 10.0  # seconds within which the port of a cluster answers
CLOSING = 10.0  # seconds that Ray has to end
ROOM = 60.0  # seconds within which nodes may still join
SILENCE = 120.0  # seconds without a message after which a cluster is lost
RESUME = "Finished models are kept; start the same run again to continue."


class ClusterLost(ConnectionError):
    """The Ray cluster of a run ended before the run did."""


@dataclass(frozen=True)
class Cluster:
    """Where shards are trained, and the resources of each shard.

    Args:
        address: ``HOST:PORT`` of a running Ray cluster of which this machine is a node; ``RAY_AUTH_TOKEN`` or
            ``RAY_AUTH_TOKEN_PATH`` holds its token. Without an address, a cluster is started on this machine and
            stopped at the end.
        cpus_per_shard: Number of cores, and of threads, for each shard.
        gpus_per_shard: GPUs for each shard; 0.25 lets four shards share one. By default 1 on CUDA and 0 on a CPU.
        dashboard: Whether a cluster started here has Ray's dashboard, at 127.0.0.1.
    """

    address: str | None = None
    cpus_per_shard: int = 1
    gpus_per_shard: float | None = None
    dashboard: bool = False

    def __post_init__(self) -> None:
        """Validate the values."""
        if self.cpus_per_shard < 1:
            raise ValueError(f"cpus_per_shard must be at least 1; got {self.cpus_per_shard}.")
        gpus = self.gpus_per_shard
        if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and gpus == int(gpus))):
            raise ValueError(f"gpus_per_shard must be between 0 and 1, or a whole number; got {gpus:g}.")
        if self.address is not None:
            host, _, port = self.address.rpartition(":")
            if not host or "/" in host or not port.isdigit() or int(port) > 65535:
                raise ValueError(f"address must be HOST:PORT, as `ray start --head` prints it; got {self.address!r}.")
            if self.dashboard:
                raise ValueError(
                    "dashboard applies only to a cluster that the run starts; a running cluster has a dashboard if it "
                    "was started with `ray start --include-dashboard=true`."
                )

    @property
    def on_loopback(self) -> bool:
        """Whether the whole cluster is on this machine and unreachable from others."""
        return self.address is None or self.address.rpartition(":")[0] in (cluster_agent.LOOPBACK, "localhost")


class Session:
    """A connection to a cluster during a run.

    Args:
        connection: Pipe to the process that communicates with Ray (:mod:`synib.training.cluster_agent`).
        cluster: The options of the cluster.
    """

    def __init__(self, connection: Connection, cluster: Cluster) -> None:
        self.cluster = cluster
        self.gpus = cluster.gpus_per_shard or 0.0
        self._connection = connection
        self._nodes: list[Mapping[str, float]] = []
        self._finished: list[tuple[int, Any]] = []
        self._tickets = 0
        self._last_message = time.monotonic()

    def wait_until_joined(self) -> str:
        """The address of the dashboard, once the cluster is joined and its nodes are known."""
        kind, value = self._receive(SILENCE)
        if kind == "refused":
            raise ValueError(self._refusal(value))
        while not self._nodes:
            self._update(1.0)
        return str(value)

    def place(self, device: str) -> str:
        """The device of the shards, once a node has the resources that a shard needs."""
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(
                f"device must be auto, cpu or cuda on a cluster, which assigns a device to each shard; got {device!r}."
            )
        if device == "auto":
            device = "cuda" if self.gpus or any(node.get("GPU", 0) for node in self._nodes) else "cpu"
        self.gpus = float(self.cluster.gpus_per_shard if self.cluster.gpus_per_shard is not None else device == "cuda")
        if device == "cuda" and not self.gpus:
            raise ValueError("Training on cuda needs gpus_per_shard above 0.")
        deadline = time.monotonic() + (ROOM if self.cluster.address else 0.0)
        while not self.slots():
            if time.monotonic() >= deadline:
                raise ValueError(
                    f"No node of the cluster has {self.cluster.cpus_per_shard} cores and {self.gpus:g} GPUs for a "
                    "shard: change cpus_per_shard or gpus_per_shard, or add such a node."
                )
            self._update(0.5)
        return device

    def slots(self) -> int:
        """The number of shards that the living nodes can train at once."""
        return sum(map(self._slots_of, self._nodes))

    def submit(self, function: str, *arguments: Any) -> int:
        """Submit a call of a function in an installed module (``"module:function"``) to some node; return a ticket."""
        self._tickets += 1
        resources = {"num_cpus": self.cluster.cpus_per_shard, "num_gpus": self.gpus}
        try:
            self._connection.send((self._tickets, function, arguments, resources))
        except OSError:
            raise self._lost() from None
        return self._tickets

    def results(self, wait: float = 1.0) -> list[tuple[int, Any]]:
        """Finished tickets, each with the return value of its function or its :class:`Failure`."""
        self._update(wait)
        while self._connection.poll():
            self._update(0.0)
        finished, self._finished = self._finished, []
        return finished

    def _update(self, wait: float) -> None:
        """Receive one message, if it arrives in time."""
        message = self._receive(wait)
        if message is None:
            return
        kind, *rest = message
        if kind == "lost":
            raise self._lost(*rest)
        if kind == "nodes":
            (self._nodes,) = rest
        elif kind == "result":
            ticket, outcome, value = rest
            if outcome == "error":
                raise RuntimeError(f"A task on the cluster raised:\n{value}")
            self._finished.append((ticket, Failure[value] if outcome == "failure" else value))

    def _receive(self, wait: float) -> Any:
        try:
            if self._connection.poll(wait):
                self._last_message = time.monotonic()
                return self._connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if time.monotonic() - self._last_message >= SILENCE:
            raise self._lost(f"it did not answer for {SILENCE:.0f} seconds")
        return None

    def _lost(self, reason: str = "Ray ended, most likely because its control process (GCS) did") -> ClusterLost:
        of = f" at {self.cluster.address}" if self.cluster.address else ""
        return ClusterLost(f"The Ray cluster{of} was lost: {reason}. {RESUME}")

    def _refusal(self, reason: str) -> str:
        if self.cluster.address is not None:
            return (
                f"The Ray cluster at {self.cluster.address} could not be joined ({reason}): set RAY_AUTH_TOKEN to "
                "its token or RAY_AUTH_TOKEN_PATH to the file that holds it, and make sure that one of its nodes "
                "runs on this machine."
            )
        if "AF_UNIX path" in reason:
            return (
                f"The path of the temporary folder, {tempfile.gettempdir()}, is too long for Ray's sockets: set "
                "TMPDIR to a shorter path."
            )
        return f"A Ray cluster could not be started on this machine: {reason}"

    def _slots_of(self, node: Mapping[str, float]) -> int:
        by_cores = int(node.get("CPU", 0)) // self.cluster.cpus_per_shard
        if not self.gpus:
            return by_cores
        per_gpu = int(1 / self.gpus) if self.gpus <= 1 else 1 / self.gpus
        return min(by_cores, int(node.get("GPU", 0) * per_gpu))


@contextlib.contextmanager
def joined(cluster: Cluster, say: Callable[[str], None] = lambda sentence: None) -> Iterator[Session]:
    """Context in which the cluster can be used; afterwards everything that was started is stopped, on all nodes.

    SIGTERM raises ``KeyboardInterrupt`` here, like Ctrl-C, unless the program handles it.
    """
    _check_installed(cluster)
    if cluster.address is not None:
        _check_address(cluster.address)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_sigterm_interrupts())
        private = None
        if cluster.address is None:
            private = Path(tempfile.mkdtemp(prefix="synib-"))  # readable by its owner alone
            stack.callback(shutil.rmtree, private, ignore_errors=True)
        session = Session(stack.enter_context(_agent(cluster, private)), cluster)
        dashboard = session.wait_until_joined()
        if cluster.dashboard:
            say(f"Dashboard: http://{dashboard}")
        yield session


def _check_installed(cluster: Cluster) -> None:
    if find_spec("ray") is None:
        raise ValueError("The cluster engine needs Ray; install it with: pip install 'synib[cluster]'")
    version = importlib.metadata.version("ray")
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 52):
        raise ValueError(f"The cluster engine needs Ray 2.52 or later, which supports tokens; {version} is installed.")
    if cluster.dashboard and find_spec("aiohttp_cors") is None:
        raise ValueError("Ray's dashboard needs more packages; install them with: pip install 'ray[default]'")


def _check_address(address: str) -> None:
    """Raise ``ValueError`` if there is no token for the address, or nothing answers there."""
    if not os.environ.get("RAY_AUTH_TOKEN"):
        path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
        if not path:
            raise ValueError(
                f"Joining the Ray cluster at {address} needs its token: set RAY_AUTH_TOKEN_PATH to the file that holds it, "
                "or RAY_AUTH_TOKEN to the token itself."
            )
        if not (os.access(path, os.R_OK) and Path(path).is_file() and Path(path).stat().st_size):
            raise ValueError(f"RAY_AUTH_TOKEN_PATH must be a file with the cluster's token; got {path}.")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except OSError as e:
        raise ValueError(
            f"Nothing answers at {address} ({e.strerror or e}): use the address that `ray start --head` printed."
        ) from e


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def _agent(cluster: Cluster, private: Path | None) -> Iterator[Connection]:
    """A connection to the process that communicates with Ray, in a separate session, so that it receives no terminal
    signals.
    """
    ours, its = Pipe()
    options = {"address": cluster.address, "dashboard": cluster.dashboard, "private": private and str(private)}
    # -P: the folder of that file is no place to import from, on workers neither.
    command = [sys.executable, "-P", cluster_agent.__file__, str(its.fileno()), json.dumps(options)]
    output = None if os.environ.get("SYNIB_DEBUG") else subprocess.DEVNULL
    with its:
        process = subprocess.Popen(
            command,
            env=_environment(cluster, private),
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    with ours:
        try:
            yield ours
        finally:
            with contextlib.suppress(EOFError, OSError):  # it has ended
                ours.send(None)
                deadline = time.monotonic() + CLOSING
                while ours.poll(max(0.0, deadline - time.monotonic())):
                    ours.recv()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment(cluster: Cluster, private: Path | None) -> dict[str, str]:
    """The environment of the process that communicates with Ray, and of its children: always a token, no usage reports."""
    chosen = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    chosen.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")  # seconds within which a cluster accepts our token
    if cluster.on_loopback:  # Ray reads it on all systems, and then uses 127.0.0.1 instead of an address of the network
        chosen["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if private is not None:
        token = private / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        chosen.pop("RAY_AUTH_TOKEN", None)
        chosen |= {"RAY_AUTH_TOKEN_PATH": str(token), "RAY_TMPDIR": str(private)}
        chosen["RAY_process_group_cleanup_enabled"] = (
            "0"  # workers stay in our process group, which is killed at the end
        )
        # The cluster of one machine need not wait for a network: the loss of a process is noticed within seconds.
        chosen.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "10")
        chosen.setdefault("RAY_health_check_period_ms", "1000")
    return chosen
