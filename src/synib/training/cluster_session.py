"""A Ray cluster for a run: one that runs already, or one of this machine for this run alone; never without a token."""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = ("127.0.0.1", "localhost")
STORE = 100 * 2**20  # bytes; ids and rows travel with the tasks, so that nothing goes there
ANSWER = 10.0  # seconds in which a cluster answers
ROOM = 60.0  # seconds in which nodes may still join
LOOK = 5.0  # seconds for which what the nodes have is taken as known


@dataclass(frozen=True)
class Cluster:
    """Where shards are trained, and what each of them gets.

    Args:
        address: ``HOST:PORT`` of a Ray cluster that runs, of which this machine is a node; ``RAY_AUTH_TOKEN`` or
            ``RAY_AUTH_TOKEN_PATH`` has its token. Without an address one is started here, and stopped at the end.
        cpus_per_shard: Cores for each shard, and threads that it computes with.
        gpus_per_shard: GPUs for each shard; 0.25 lets four share one. By default 1 on CUDA and 0 on a CPU.
        dashboard: Whether a cluster that is started here has Ray's dashboard, at 127.0.0.1.
    """

    address: str | None = None
    cpus_per_shard: int = 1
    gpus_per_shard: float | None = None
    dashboard: bool = False

    def __post_init__(self) -> None:
        """Refuse what no cluster can give."""
        if self.cpus_per_shard < 1:
            raise ValueError(f"--cpus-per-shard is at least 1; got {self.cpus_per_shard}.")
        gpus = self.gpus_per_shard
        if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and gpus == int(gpus))):
            raise ValueError(f"--gpus-per-shard is a fraction of one, or a whole number; got {gpus:g}.")
        if self.address is not None:
            host, _, port = self.address.rpartition(":")
            if not host or "/" in host or not port.isdigit() or int(port) > 65535:
                raise ValueError(
                    f"--address is HOST:PORT, as `ray start` says it on the head node; got {self.address!r}."
                )
            if self.dashboard:
                raise ValueError(
                    "--dashboard is for a cluster that the run starts; that of a running one is chosen when it is started, "
                    "with `ray start --include-dashboard=true`."
                )

    @property
    def local(self) -> bool:
        """Whether all of it is on this machine, out of reach of others."""
        return self.address is None or self.address.rpartition(":")[0] in HERE


class Session:
    """A connection to a cluster while a run lasts.

    Args:
        ray: The module, connected.
        cluster: What was asked for.
    """

    def __init__(self, ray: Any, cluster: Cluster) -> None:
        self.ray = ray
        self.cluster = cluster
        self.gpus = cluster.gpus_per_shard or 0.0
        self._seen = (float("-inf"), 0)
        self._tasks: dict[Callable[..., Any], Any] = {}

    def place(self, device: str, wait: float | None = None) -> str:
        """The device that shards are trained on, when there is a node that has what each of them needs."""
        if device not in ("auto", "cpu", "cuda"):
            raise ValueError(
                f"--device is auto, cpu or cuda on a cluster, which gives each shard its own; got {device!r}."
            )
        if device == "auto":
            device = "cuda" if self.gpus or any(node.get("GPU", 0) for node in self._nodes()) else "cpu"
        self.gpus = float(self.cluster.gpus_per_shard if self.cluster.gpus_per_shard is not None else device == "cuda")
        if device == "cuda" and not self.gpus:
            raise ValueError("--device cuda needs --gpus-per-shard above 0.")
        end = time.monotonic() + (wait if wait is not None else ROOM if self.cluster.address else 0.0)
        while not self.slots(0.0):
            if time.monotonic() >= end:
                raise ValueError(
                    f"No node of the cluster has {self.cluster.cpus_per_shard} cores and {self.gpus:g} GPUs for a shard; "
                    "change --cpus-per-shard or --gpus-per-shard, or add such a node."
                )
            time.sleep(0.5)
        return device

    def slots(self, known_for: float = LOOK) -> int:
        """How many shards the nodes that are alive can train at once."""
        now = time.monotonic()
        if now - self._seen[0] >= known_for:
            self._seen = now, sum(map(self._slots_of, self._nodes()))
        return self._seen[1]

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have a function of an installed module called with plain values on some node; what answers for its result."""
        if function not in self._tasks:
            # No retries of Ray's own: the driver knows why a shard was lost, and how often. Workers live on (0 calls means
            # any number), or every shard on a GPU would begin with importing torch.
            self._tasks[function] = self.ray.remote(
                num_cpus=self.cluster.cpus_per_shard, num_gpus=self.gpus, max_retries=0, max_calls=0
            )(function)
        return self._tasks[function].remote(*arguments)

    def ready(self, references: Sequence[Any], wait: float = 1.0) -> list[Any]:
        """Those that have a result, as soon as one has."""
        if not references:
            time.sleep(wait)
            return []
        some, others = self.ray.wait(list(references), num_returns=1, timeout=wait)
        if some and others:
            some += self.ray.wait(others, num_returns=len(others), timeout=0)[0]
        return list(some)

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _slots_of(self, node: Mapping[str, float]) -> int:
        cores = int(node.get("CPU", 0)) // self.cluster.cpus_per_shard
        if not self.gpus:
            return cores
        per_gpu = int(1 / self.gpus) if self.gpus <= 1 else 1 / self.gpus
        return min(cores, int(node.get("GPU", 0) * per_gpu))


@contextlib.contextmanager
def joined(cluster: Cluster, say: Callable[[str], None] = lambda sentence: None) -> Iterator[Session]:
    """Within this context the cluster is there; afterwards what was started is stopped, tasks on other nodes too."""
    private = Path(tempfile.mkdtemp(prefix="synib-")) if cluster.address is None else None  # for its owner alone
    try:
        with _environment(_settings(cluster, private)):
            ray = _import(cluster)
            try:
                context = _begin(ray, cluster, private)
                if cluster.dashboard:
                    say(f"Dashboard: http://{context.dashboard_url}")
                yield Session(ray, cluster)
            finally:
                ray.shutdown()
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def _settings(cluster: Cluster, private: Path | None) -> dict[str, str | None]:
    """Environment variables that Ray reads: always a token, never a report to its makers."""
    chosen: dict[str, str | None] = {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_NUM_REDIS_GET_RETRIES": "5",  # seconds in which a cluster lets us in
    }
    if cluster.local:  # it is for all systems: Ray then uses 127.0.0.1 alone, and not whatever leads outside
        chosen["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if private is not None:
        token = private / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        return {**chosen, "RAY_AUTH_TOKEN": None, "RAY_AUTH_TOKEN_PATH": str(token)}
    if not os.environ.get("RAY_AUTH_TOKEN"):
        path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
        if not path:
            raise ValueError(
                f"The token of the Ray cluster at {cluster.address} is needed to join it: set RAY_AUTH_TOKEN_PATH to the "
                "file that has it, or RAY_AUTH_TOKEN to the token itself."
            )
        if not (os.access(path, os.R_OK) and Path(path).is_file() and Path(path).stat().st_size):
            raise ValueError(f"RAY_AUTH_TOKEN_PATH is to be a file with the cluster's token; {path} is none.")
    return chosen


@contextlib.contextmanager
def _environment(chosen: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in chosen}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    put(chosen)
    try:
        yield
    finally:
        put(before)


def _import(cluster: Cluster) -> Any:
    """Ray, made to read our settings even if somebody imported it before."""
    try:
        import ray
    except ImportError:
        raise ValueError(
            "--engine cluster needs Ray, which is not installed; install it with: pip install 'synib[cluster]'"
        ) from None
    try:
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
    except ImportError:
        raise ValueError(
            f"--engine cluster needs a Ray that asks for a token, from 2.52 on; this is {ray.__version__}."
        ) from None
    if cluster.dashboard and find_spec("aiohttp_cors") is None:  # asked before Ray finds out, half started
        raise ValueError("--dashboard needs more of Ray than is installed; install it with: pip install 'ray[default]'")
    if ray.is_initialized():
        raise ValueError("This process uses Ray already; call ray.shutdown() before a run with the cluster engine.")
    from ray._private import ray_constants, worker

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
    ray_constants.ENABLE_RAY_CLUSTER = not cluster.local
    worker.print_to_stdstream = lambda *_, **__: None  # the end of a lost node's log, over the progress bar
    return ray


def _begin(ray: Any, cluster: Cluster, private: Path | None) -> Any:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address is not None:
        host, _, port = cluster.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER).close()
        except OSError as e:
            raise ValueError(
                f"Nothing answers at {cluster.address} ({e.strerror or e}); --address is what `ray start --head` said."
            ) from e
        try:
            return ray.init(address=cluster.address, **quiet)
        except Exception as e:  # Ray raises what it likes
            raise ValueError(
                f"The Ray cluster at {cluster.address} could not be joined ({_first_line(e)}): its token has to be in "
                "RAY_AUTH_TOKEN or the file RAY_AUTH_TOKEN_PATH, and a node of it has to run on this machine."
            ) from e
    try:
        context = ray.init(
            address="local",
            include_dashboard=cluster.dashboard,
            dashboard_host=HERE[0],
            object_store_memory=STORE,
            _temp_dir=f"{private}/r",  # which Ray opens to everybody, within a folder that is not
            **quiet,
        )
    except Exception as e:
        if "AF_UNIX path" in str(e):
            raise ValueError(
                f"The folder for temporary files has too long a name for Ray's sockets, {private}; set TMPDIR to a shorter one."
            ) from e
        raise ValueError(f"A Ray cluster could not be started on this machine: {_first_line(e)}") from e
    if context.address_info["node_ip_address"] != HERE[0]:
        raise RuntimeError(f"Ray listens at {context.address_info['node_ip_address']}, and not at {HERE[0]} alone.")
    return context


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0]
