"""The cluster engine on Ray: out of reach for others, and nothing left behind, however a run or a cluster ends."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from synib.studies import SpuriousXOR, run
from synib.training.cluster import Cluster, ClusterLost, joined

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp6").exists(), reason="looks at processes in /proc"),
]

MARK = "SYNIB_TEST_MARK"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
SMALL = SpuriousXOR(seeds=6, beta=(1.0,), methods=("vanilla",), epochs=20)
TABLES = ("results.csv", "curves.csv", "shards.json")


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables that the fleet writes for the same shards."""
    return tables(run(SMALL, tmp_path_factory.mktemp("fleet"), device="cpu", together=1))


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return value


def marked(mark):
    """Processes that have inherited a mark: pid → name and the addresses at which it listens."""
    listening = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                listening[fields[9]] = fields[1].partition(":")[0]
    processes = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes():
                continue
            name, _, state = (process / "stat").read_text().partition("(")[2].rpartition(")")
            inodes = [os.readlink(fd).removeprefix("socket:[").rstrip("]") for fd in (process / "fd").iterdir()]
        except OSError:
            continue  # it ended meanwhile
        if state.split()[0] != "Z":
            processes[int(process.name)] = name, [listening[i] for i in inodes if i in listening]
    return processes


def kill(mark, name):
    (pid,) = (pid for pid, (process, _) in marked(mark).items() if process == name)
    os.kill(pid, signal.SIGKILL)


def parent(pid):
    """The process that started another; 1 or a reaper once it has ended, 0 where the process itself is gone."""
    try:
        return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def halted(workers, count):
    """The workers, stopped in the middle of their tasks; they go on, and nothing comes back, where they are not `count`."""
    stopped = workers()
    for pid in stopped:
        send(pid, signal.SIGSTOP)
    if len(stopped) == count and sorted(workers()) == sorted(stopped):
        return stopped
    for pid in stopped:
        send(pid, signal.SIGCONT)
    return []


@pytest.fixture
def mark(monkeypatch, tmp_path):  # pytest makes its folder before that of temporary files changes
    """A mark that processes started in this test inherit, with a folder for temporary files; none may be left of either."""
    value = uuid.uuid4().hex
    folder = tempfile.mkdtemp(prefix="t")  # a short name, for Ray's sockets
    monkeypatch.setenv(MARK, value)
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")
    monkeypatch.setenv("RAY_health_check_period_ms", "200")
    yield value
    try:
        until(lambda: not marked(value), 30.0)
        until(lambda: not list(Path(folder).glob("synib-*")), 10.0)
    finally:
        for pid in marked(value):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def test_the_cluster_of_a_run_is_out_of_reach_and_the_loss_of_its_control_process_is_an_error(mark):
    with joined(Cluster()) as session:
        session.submit("time:time")
        assert until(session.results)
        ports = [address for _, addresses in marked(mark).values() for address in addresses]
        assert ports
        assert set(ports) <= LOOPBACK
        (token,) = Path(tempfile.gettempdir()).glob("synib-*/token")
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
        assert len(token.read_text()) == 64
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", 8265)) != 0  # Ray's dashboard
        session.submit("time:sleep", 600)
        kill(mark, "gcs_server")
        with pytest.raises(ClusterLost, match=r"control process \(GCS\)"):
            until(lambda: session.results() and False)


DRIVER = """
import time
from synib.training.cluster import Cluster, joined
with joined(Cluster()) as session:
    print("joined", flush=True)
    time.sleep(600)
"""


def test_a_driver_that_is_killed_leaves_no_process_and_no_token_behind(mark):
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "joined\n"
        process.kill()


NODES = """
import sys
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "node_ip_address": "127.0.0.1"}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
second = cluster.add_node(**node)
print(cluster.address, flush=True)
if sys.stdin.readline():
    cluster.remove_node(second, allow_graceful=False)
    print("killed", flush=True)
    sys.stdin.readline()
cluster.shutdown()
"""


@pytest.fixture
def nodes(mark, monkeypatch, tmp_path):
    """A running cluster at 127.0.0.1 of a head and a second node with a core each; a line to its process kills the second."""
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_TMPDIR", os.environ["TMPDIR"])
    with subprocess.Popen(
        [sys.executable, "-c", NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        process.address = process.stdout.readline().strip()
        yield process
        process.stdin.close()
        process.wait(60)


def test_a_running_cluster_asks_for_its_token_is_left_idle_and_may_lose_any_node_but_the_drivers(
    nodes, mark, monkeypatch, tmp_path, whole
):
    with monkeypatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_NUM_REDIS_GET_RETRIES", "1")
        with pytest.raises(ValueError, match=r"could not be joined .*: set RAY_AUTH_TOKEN to its token"):
            joined(Cluster(nodes.address)).__enter__()

    def workers():
        return [pid for pid, (name, _) in marked(mark).items() if name == "ray::call"]

    with joined(Cluster(nodes.address)) as session:
        until(lambda: session.results() or session.slots() == 2)
        session.submit("time:sleep", 600)
        session.submit("time:sleep", 600)
        until(lambda: len(workers()) == 2)
    until(lambda: not workers())

    said, progress = [], []

    def kill_second(done, total):
        progress.append(done)
        if len(progress) == 3:  # two shards have come back
            raylets = {pid: parent(pid) for pid in until(lambda: halted(workers, 2))}
            nodes.stdin.write("\n")
            nodes.stdin.flush()
            assert nodes.stdout.readline() == "killed\n"
            lost = until(lambda: [pid for pid, raylet in raylets.items() if parent(pid) != raylet])
            for pid in raylets:
                send(pid, signal.SIGKILL if pid in lost else signal.SIGCONT)

    options = {"device": "cpu", "together": 1, "on_progress": kill_second, "say": said.append}
    out = run(SMALL, tmp_path / "out", engine="cluster", cluster=Cluster(nodes.address), **options)
    assert any("trained again" in sentence for sentence in said)
    assert tables(out) == whole

    with joined(Cluster(nodes.address)) as session:
        kill(mark, "raylet")
        with pytest.raises(ClusterLost, match=r"node process \(raylet\) on this machine ended"):
            until(lambda: session.results() and False)
