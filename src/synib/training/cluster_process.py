"""The process that joins or starts a Ray cluster for a run: always with a token, and nothing left behind at the end."""

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
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from synib.training import cluster_agent
from synib.training.cluster_session import Cluster, Session

ANSWER = 10.0  # seconds within which the port of a cluster answers
CLOSING = 10.0  # seconds that Ray has to end


@contextlib.contextmanager
def joined(cluster: Cluster, say: Callable[[str], None] = lambda sentence: None) -> Iterator[Session]:
    """Within this context the cluster can be used; afterwards everything that was started is stopped, on all nodes.

    SIGTERM raises ``KeyboardInterrupt`` here, as Ctrl-C does, unless the program handles it in its own way.
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
        raise ValueError(f"The cluster engine needs Ray 2.52 or later, which has tokens; found {version}.")
    if cluster.dashboard and find_spec("aiohttp_cors") is None:
        raise ValueError("Ray's dashboard needs more packages; install them with: pip install 'ray[default]'")


def _check_address(address: str) -> None:
    """Refuse an address without a token to use there, or without anything that answers."""
    if not os.environ.get("RAY_AUTH_TOKEN"):
        path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
        if not path:
            raise ValueError(
                f"Joining the Ray cluster at {address} needs its token: set RAY_AUTH_TOKEN_PATH to the file that holds it, "
                "or RAY_AUTH_TOKEN to the token itself."
            )
        if not (os.access(path, os.R_OK) and Path(path).is_file() and Path(path).stat().st_size):
            raise ValueError(f"RAY_AUTH_TOKEN_PATH must name a file with the cluster's token; got {path}.")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except OSError as e:
        raise ValueError(
            f"Nothing answers at {address} ({e.strerror or e}); address is what `ray start --head` printed."
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
    """A connection to the process that talks to Ray, in a session of its own, so that no signal of a terminal reaches it."""
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
    """The environment of the process that talks to Ray, and of all that it starts: always a token, no usage reports."""
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
