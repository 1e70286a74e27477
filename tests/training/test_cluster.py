"""Sweeps on a Ray cluster: the fleet's bytes, whatever is lost on the way, and nobody let in."""

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from synib.files import read_csv, read_json
from synib.studies import SpuriousXOR, run
from synib.training import cluster as engine
from synib.training.cluster import Cluster, joined
from synib.training.cluster_session import Session, _begin

ray = pytest.importorskip("ray", reason="Ray is not installed")

SMALL = SpuriousXOR(seeds=4, beta=(1.0,), methods=("vanilla", "synib-random"), epochs=3)
TABLES = ("results.csv", "curves.csv", "shards.json")
OPTIONS = {"device": "cpu", "together": 1}


def tables(path):
    return {name: (path / name).read_bytes() for name in TABLES}


def until(what, seconds=120.0):
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
    return value


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the fleet makes of the same shards."""
    return tables(run(SMALL, tmp_path_factory.mktemp("fleet"), **OPTIONS))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A head with one core and a second node with one, at 127.0.0.1 and behind a token."""
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config
    from ray.cluster_utils import Cluster as Nodes

    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(secrets.token_hex(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
        patch.setattr(ray_constants, "NUM_REDIS_GET_RETRIES", 3)  # seconds that a wrong token costs
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
        made = Nodes(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False},
        )
        made.second = made.add_node(num_cpus=1, node_ip_address="127.0.0.1")
        yield made
        made.shutdown()


@pytest.fixture
def on_nodes(nodes):
    """``on_nodes(out, **options)``: a run on those nodes."""

    def swept(out, cluster=None, **options):
        return run(SMALL, out, engine="cluster", cluster=cluster or Cluster(nodes.address), **OPTIONS | options)

    return swept


def test_what_each_shard_needs_must_be_had_on_some_node(tmp_path, on_nodes, nodes, monkeypatch):
    monkeypatch.setattr("synib.training.cluster_session.ROOM", 0.5)
    with pytest.raises(ValueError, match=r"No node of the cluster has 1 cores and 0\.25 GPUs for a shard"):
        on_nodes(tmp_path / "a", Cluster(nodes.address, gpus_per_shard=0.25))
    with pytest.raises(ValueError, match="No node of the cluster has 2 cores and 0 GPUs for a shard"):
        on_nodes(tmp_path / "b", Cluster(nodes.address, cpus_per_shard=2))
    assert not any(tmp_path.iterdir())


def test_a_wrong_token_is_refused_in_a_sentence(tmp_path, on_nodes, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with pytest.raises(ValueError, match=r"could not be joined .*its token has to be in RAY_AUTH_TOKEN"):
        on_nodes(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_whoever_has_no_token_is_not_let_in(nodes):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH_TOKEN")}
    environment |= {"RAY_AUTH_MODE": "disabled", "RAY_NUM_REDIS_GET_RETRIES": "2"}
    code = "import ray, sys; ray.init(address=sys.argv[1]); print('let in', ray.nodes())"
    done = subprocess.run([sys.executable, "-c", code, nodes.address], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "let in" not in done.stdout


def test_a_run_that_is_stopped_leaves_no_node_at_work(tmp_path, nodes):
    endless = SpuriousXOR(seeds=4, beta=(1.0,), methods=("vanilla",), epochs=10**6)

    def stop():
        try:
            until(lambda: ray.is_initialized() and not ray.available_resources().get("CPU"))  # both nodes train
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        run(endless, tmp_path / "out", engine="cluster", cluster=Cluster(nodes.address), **OPTIONS)
    stopper.join()
    with joined(Cluster(nodes.address)) as session:
        until(lambda: session.ray.available_resources().get("CPU") == 2, 30.0)


def test_a_node_killed_in_the_midst_costs_nothing_and_the_bytes_are_the_fleets(tmp_path, nodes):
    """The last of this cluster: it is a node short afterwards."""
    longer = SpuriousXOR(seeds=5, beta=(1.0,), methods=("vanilla",), epochs=150)  # seconds for each shard
    whole = tables(run(longer, tmp_path / "fleet", **OPTIONS))
    for attempt in range(3):  # a kill may come between two shards
        said, told = [], []

        def kill_second(done, of, told=told):
            told.append(done)
            if len(told) == 2:  # the first shard is back, and the other node's soon
                time.sleep(1.5)
                until(lambda: not ray.available_resources().get("CPU"))  # both train the next
                nodes.remove_node(nodes.second, allow_graceful=False)

        options = OPTIONS | {"on_progress": kill_second, "say": said.append}
        path = run(longer, tmp_path / f"{attempt}", engine="cluster", cluster=Cluster(nodes.address), **options)
        assert not ray.is_initialized()
        assert tables(path) == whole
        assert [row["cell"] for row in read_csv(path / "results.csv")] == [cell.id for cell in longer.cells()]
        if any("trained again" in sentence for sentence in said):  # Ray hears of the process or of its node first
            return
        nodes.second = nodes.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    pytest.fail(f"no kill hit a shard: {said}")


MARK = "SYNIB_TEST_MARK"


def marked(mark):
    """Processes that have inherited a mark: pid → its ports that listen, by address."""
    found = {}
    listening = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                listening[fields[9]] = fields[1].partition(":")[0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes():
                continue
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            inodes = [os.readlink(fd).removeprefix("socket:[").rstrip("]") for fd in (process / "fd").iterdir()]
        except OSError:
            continue  # it ended meanwhile
        if state != "Z":
            found[int(process.name)] = [listening[i] for i in inodes if i in listening]
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.fixture
def started(tmp_path):
    """``started(out)``: the command, training on a cluster of its own; and the mark of all its processes."""
    begun = []
    short = Path(tempfile.mkdtemp(prefix="t"))  # for Ray's sockets

    def start(out):
        mark = uuid.uuid4().hex
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        environment |= {MARK: mark, "TMPDIR": str(short), "OMP_NUM_THREADS": "1"}
        methods = [word for method in SMALL.methods for word in ("--method", method)]
        command = [
            sys.executable, "-m", "synib.cli", "reproduce", "spurious-xor", "--seeds", "4", "--beta", "1", "--epochs", "3",
            *methods, "--device", "cpu", "--together", "1", "--engine", "cluster", "--out", str(out),
        ]  # fmt: skip
        # A group of its own: when a driver is killed, Ray ends all that is in its group.
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        begun.append((process, mark))
        until(lambda: process.poll() is not None or any(Path(out, "shards").glob("*.json")))
        assert process.poll() is None, process.stderr.read().decode()
        return process, mark

    start.short = short
    yield start
    for process, mark in begun:
        process.stdout.close()
        process.stderr.close()
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(short, ignore_errors=True)


@pytest.mark.skipif(not Path("/proc/net/tcp6").exists(), reason="looks at processes in /proc")
@pytest.mark.slow
def test_a_run_of_its_own_is_out_of_reach_and_leaves_nothing_behind(tmp_path, started, whole):
    out = tmp_path / "out"
    process, mark = started(out)
    ports = [address for addresses in marked(mark).values() for address in addresses]
    assert ports  # Ray's own
    assert set(ports) <= LOOPBACK
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.1", 8265)) != 0  # Ray's dashboard
    (token,) = started.short.glob("synib-*/token")
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    assert len(token.read_text()) == 64
    process.kill()
    until(lambda: process.poll() is not None)
    until(lambda: not marked(mark))
    kept = len(list((out / "shards").glob("*.json")))
    assert not (out / "results.csv").exists()

    process, mark = started(out)
    until(lambda: len(list((out / "shards").glob("*.json"))) > kept)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said.decode()
    assert "the same command goes on from there" in said.decode()
    assert "Traceback" not in said.decode()
    until(lambda: not marked(mark))
    assert not (out / "results.csv").exists()
    assert len(list(started.short.glob("synib-*"))) == 1  # that of the run that was killed

    assert tables(run(SMALL, out, **OPTIONS)) == whole  # either engine goes on with what the other began


class Fates:
    """A session without Ray: each shard is trained here and now, unless a fate is said for it."""

    def __init__(self, slots=1, fate=lambda ids, time: None):
        self.ray = SimpleNamespace(exceptions=ray.exceptions, get=self.get)
        self.cluster, self.gpus = Cluster(), 0.0
        self.room, self.fate = slots, fate
        self.sent, self.held, self.most = [], {}, 0

    def slots(self):
        return self.room

    def start(self, function, order, ids, *rest):
        self.sent.append(ids)
        self.held[len(self.sent)] = (function, order, ids, rest)
        self.most = max(self.most, len(self.held))
        return len(self.sent)

    def ready(self, references):
        return references[:1]

    def get(self, reference):
        function, order, ids, rest = self.held.pop(reference)
        fate = self.fate(ids, self.sent.count(ids))
        if isinstance(fate, BaseException):
            raise fate
        return fate if fate is not None else function(order, ids, *rest)


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """``swept(session, experiment, together)``: a sweep by that session, and its folder."""
    from synib.training import Folder

    monkeypatch.setenv("RAY_AUTH_MODE", "token")

    def sweep(session, experiment=SMALL, together=1, **options):
        folder = Folder(tmp_path / "out", experiment.config())
        engine.sweep(
            experiment, experiment.cells(), folder, session, loader="synib.studies.run:from_config",
            config=experiment.config(), device="cpu", together=together, **options,
        )  # fmt: skip
        return folder.path

    return sweep


ONE = SpuriousXOR(seeds=8, beta=(1.0,), methods=("vanilla",), epochs=1)


def test_only_a_few_shards_are_in_the_clusters_hands(swept):
    session, told = Fates(slots=2), []
    swept(session, ONE, on_progress=lambda done, of: told.append((done, of)))
    assert session.most == 2 * engine.AHEAD
    assert len(session.sent) == 8
    assert told == [(float(done), 8.0) for done in range(9)]  # as shards come back


def test_a_shard_that_is_lost_is_sent_again_as_often_as_nodes_die(swept, tmp_path):
    died = ray.exceptions.NodeDiedError("gone")
    session = Fates(fate=lambda ids, time: died if time < 9 else None)
    path = swept(session, SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1))
    assert len(session.sent) == 9
    assert len(read_csv(path / "results.csv")) == 1


def test_a_shard_that_ends_its_process_again_and_again_is_blamed_and_the_others_are_kept(swept, tmp_path):
    bad = ONE.cells()[3].id
    session = Fates(fate=lambda ids, time: ray.exceptions.WorkerCrashedError() if bad in ids else None)
    with pytest.raises(ValueError, match="Training 1 vanilla models ended its process 3 times"):
        swept(session, ONE)
    assert session.sent.count([bad]) == 3
    kept = [row["cell"] for file in (tmp_path / "out" / "shards").iterdir() for row in read_json(file)["rows"]]
    assert kept
    assert bad not in kept


def test_a_shard_that_ends_its_process_once_is_trained_again(swept):
    session = Fates(fate=lambda ids, time: ray.exceptions.WorkerCrashedError() if time == 1 else None)
    assert len(read_csv(swept(session, ONE) / "results.csv")) == 8


@pytest.mark.parametrize("told", [{"content": None}, ray.exceptions.OutOfMemoryError("the node's")])
def test_shards_too_large_for_a_workers_memory_are_halved(swept, told):
    said = []
    session = Fates(fate=lambda ids, time: told if len(ids) > 2 else None)
    path = swept(session, ONE, together=4, say=said.append)
    assert [len(ids) for ids in session.sent if len(ids) > 2] in ([4], [4, 4])
    assert sorted(len(ids) for ids in read_json(path / "shards.json")) == [2, 2, 2, 2]
    assert any("Out of memory with 4 models at once on a worker" in sentence for sentence in said)
    assert [row["cell"] for row in read_csv(path / "results.csv")] == [cell.id for cell in ONE.cells()]


def test_one_model_that_does_not_fit_alone_is_said(swept):
    with pytest.raises(ValueError, match="One vanilla model alone does not fit into the memory of a worker"):
        swept(Fates(fate=lambda ids, time: ray.exceptions.OutOfMemoryError("the node's")), ONE)


def test_without_any_room_it_waits_and_says_so(swept):
    session, said, rounds = Fates(slots=0), [], []

    def ready(references):
        rounds.append(len(references))
        if len(rounds) == 3:
            session.room = 1
        return references[:1]

    session.ready = ready
    swept(session, ONE, say=said.append)
    assert rounds[:3] == [0, 0, 0]
    assert sum("waiting for one" in sentence for sentence in said) == 1


def test_a_failed_models_last_good_state_comes_back(swept):
    pytest.importorskip("safetensors")
    wild = SpuriousXOR(seeds=2, beta=(1.0,), methods=("vanilla",), epochs=2, overrides={"vanilla": {"lr": 1e38}})
    path = swept(Fates(), wild)
    rows = read_csv(path / "results.csv")
    assert all("no finite number" in row["error"] for row in rows)
    assert {p.stem for p in (path / "failed").iterdir()} == {row["cell"] for row in rows}


def test_a_worker_with_other_versions_refuses_to_train(swept, monkeypatch):
    class Old(Fates):
        def get(self, reference):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch, "__version__", "1.0")
                return super().get(reference)

    with pytest.raises(
        ValueError, match=r"The node .* has synib .*, torch 1\.0, and the driver synib .*install the same"
    ):
        swept(Old(), ONE)


def test_a_worker_of_other_code_refuses_to_train_cells_it_does_not_make(swept):
    class Other(Fates):
        def start(self, function, order, ids, *rest):
            return super().start(function, order, ["0" * 16], *rest)

    with pytest.raises(ValueError, match="makes other cells of this experiment than the driver"):
        swept(Other(), ONE)


def test_a_cluster_that_lets_anybody_in_is_refused(swept, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ValueError, match="lets in whoever reaches it"):
        swept(Fates(), ONE)


def resources(**node):
    return {"Alive": True, "Resources": node}


@pytest.mark.parametrize(
    ("cluster", "device", "slots"),
    [
        (Cluster(), "cpu", 8 + 4),
        (Cluster(cpus_per_shard=3), "cpu", 2 + 1),
        (Cluster(), "cuda", 2),
        (Cluster(gpus_per_shard=0.25), "cuda", 8),
        (Cluster(gpus_per_shard=0.4), "cuda", 4),
        (Cluster(gpus_per_shard=2), "cuda", 1),
    ],
)
def test_fractions_of_gpus_and_cores_decide_how_many_shards_are_trained_at_once(cluster, device, slots):
    dead = {"Alive": False, "Resources": {"CPU": 100.0, "GPU": 100.0}}
    fake = SimpleNamespace(nodes=lambda: [resources(CPU=8.0, GPU=2.0), resources(CPU=4.0), dead])
    session = Session(fake, cluster)
    assert session.place(device) == device
    assert session.slots() == slots


def test_auto_is_cuda_where_some_node_has_a_gpu():
    with_gpu = SimpleNamespace(nodes=lambda: [resources(CPU=8.0), resources(CPU=8.0, GPU=1.0)])
    without = SimpleNamespace(nodes=lambda: [resources(CPU=8.0)])
    assert Session(with_gpu, Cluster()).place("auto") == "cuda"
    assert Session(without, Cluster()).place("auto") == "cpu"


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:10001", "127.0.0.1:", "127.0.0.1:99999", ":6379"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValueError, match="--address is HOST:PORT"):
        Cluster(address)


def test_a_wrong_address_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with pytest.raises(ValueError, match=r"Nothing answers at 127\.0\.0\.1:1 "):
        run(SMALL, tmp_path / "out", engine="cluster", cluster=Cluster("127.0.0.1:1"), **OPTIONS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", [None, "missing"])
def test_no_cluster_is_joined_without_a_token(tmp_path, monkeypatch, path):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    if path:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / path))
    with pytest.raises(ValueError, match=r"RAY_AUTH_TOKEN_PATH"), joined(Cluster("127.0.0.1:1")):
        raise AssertionError("let in")


def test_a_missing_ray_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    before = dict(os.environ)
    with pytest.raises(ValueError, match=r"pip install 'synib\[cluster\]'"), joined(Cluster()):
        raise AssertionError("there is no Ray")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (OSError("AF_UNIX path length cannot exceed 107 bytes: somewhere"), "set TMPDIR to a shorter one"),
        (RuntimeError("no luck\nand more"), "could not be started on this machine: no luck$"),
    ],
)
def test_a_cluster_that_does_not_start_is_said_in_a_sentence(tmp_path, raised, sentence):
    def init(**options):
        assert options["address"] == "local"  # and not that of RAY_ADDRESS
        raise raised

    with pytest.raises(ValueError, match=sentence):
        _begin(SimpleNamespace(init=init), Cluster(), tmp_path)


def test_a_dashboard_needs_its_own_packages(monkeypatch):
    monkeypatch.setattr("synib.training.cluster_session.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'ray\[default\]'"), joined(Cluster(dashboard=True)):
        raise AssertionError("it is not installed")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--address", "127.0.0.1:6379"], "--address is for --engine cluster"),
        (["--gpus-per-shard", "0"], "--gpus-per-shard is for --engine cluster"),
        (["--engine", "cluster", "--cpus-per-shard", "0"], "--cpus-per-shard is at least 1; got 0"),
        (
            ["--engine", "cluster", "--gpus-per-shard", "1.5"],
            "--gpus-per-shard is a fraction of one, or a whole number",
        ),
        (
            ["--engine", "cluster", "--address", "h:1", "--dashboard"],
            "--dashboard is for a cluster that the run starts",
        ),
    ],
)
def test_options_that_cannot_be_are_refused_by_the_command(synib_command, options, sentence):
    code, _, said = synib_command("reproduce", "spurious-xor", "--quick", *options)
    assert code == 2
    assert sentence in said


def test_an_experiment_that_workers_would_not_know_is_refused(tmp_path):
    class Mine(SpuriousXOR):
        name = "mine"

    with pytest.raises(ValueError, match="'mine' is none that synib has"):
        run(Mine(seeds=1), tmp_path / "out", engine="cluster")


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_example_for_slurm_is_a_shell_script_with_a_token():
    script = EXAMPLES / "slurm.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    assert "RAY_AUTH_MODE=token" in script.read_text()


def test_the_example_for_kubernetes_is_yaml_with_a_token():
    yaml = pytest.importorskip("yaml")
    parts = list(yaml.safe_load_all((EXAMPLES / "kuberay.yaml").read_text()))
    (job,) = (part for part in parts if part["kind"] == "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    assert spec["authOptions"] == {"mode": "token"}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"]
    assert "--engine cluster" in job["spec"]["entrypoint"]
