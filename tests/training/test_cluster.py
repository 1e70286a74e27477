"""The cluster engine without Ray: its session with the process that talks to Ray, and what workers answer."""

import contextlib
import os
import secrets
import signal
import sys
from multiprocessing import Pipe

import pytest
import torch

from synib.files import read_csv
from synib.studies import SpuriousXOR, run
from synib.training import Folder
from synib.training import cluster as engine
from synib.training.cluster import Cluster, ClusterLost, Session, joined

SMALL = SpuriousXOR(seeds=4, beta=(1.0,), methods=("vanilla",), epochs=1)


@pytest.fixture
def session():
    """``session(cluster, *messages)``: a session that has received these messages from a process that ends then."""

    def make(cluster, *messages):
        ours, its = Pipe()
        for message in (("joined", ""), *messages):
            its.send(message)
        its.close()
        made = Session(ours, cluster)
        made.wait_until_joined()
        return made

    return make


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
def test_cores_and_fractions_of_gpus_determine_how_many_shards_are_trained_at_once(session, cluster, device, slots):
    made = session(cluster, ("nodes", [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0}]))
    assert made.place(device) == device
    assert made.slots() == slots


def test_auto_is_cuda_if_some_node_has_a_gpu(session):
    assert session(Cluster(), ("nodes", [{"CPU": 8.0}, {"CPU": 8.0, "GPU": 1.0}])).place("auto") == "cuda"
    assert session(Cluster(), ("nodes", [{"CPU": 8.0}])).place("auto") == "cpu"


@pytest.mark.parametrize("cluster", [Cluster(gpus_per_shard=0.25), Cluster(cpus_per_shard=2)])
def test_some_node_must_have_what_a_shard_needs(session, cluster):
    with pytest.raises(ValueError, match=r"No node of the cluster has . cores and .* GPUs for a shard"):
        session(cluster, ("nodes", [{"CPU": 1.0}])).place("cpu")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [([("lost", "the node ended")], "the node ended"), ([], "Ray ended, most likely because its control process")],
)
def test_a_lost_cluster_is_an_error_with_its_reason(session, messages, reason):
    made = session(Cluster("h:1"), ("nodes", [{"CPU": 1.0}]), *messages)
    with pytest.raises(ClusterLost, match=f"The Ray cluster at h:1 was lost: {reason}"):
        made.results()


def test_the_command_ends_with_the_sentence_of_a_lost_cluster(synib_command, session, monkeypatch):
    lost = session(Cluster(), ("nodes", [{"CPU": 1.0}]))
    monkeypatch.setattr("synib.training.cluster.joined", lambda cluster, say: contextlib.nullcontext(lost))
    code, _, said = synib_command("reproduce", "spurious-xor", "--quick", "--engine", "cluster")
    assert code == 2
    assert said.startswith("synib: The Ray cluster was lost: ")
    assert said.count("\n") == 1


def test_a_silent_cluster_is_lost(monkeypatch):
    monkeypatch.setattr("synib.training.cluster_session.SILENCE", 0.0)
    ours, its = Pipe()
    with its, pytest.raises(ClusterLost, match="did not answer"):
        Session(ours, Cluster()).results(wait=0.0)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("AF_UNIX path length cannot exceed 107 bytes: somewhere", "set TMPDIR to a shorter path"),
        ("no luck", "could not be started on this machine: no luck$"),
    ],
)
def test_a_cluster_that_does_not_start_is_an_error_with_its_reason(reason, sentence):
    ours, its = Pipe()
    its.send(("refused", reason))
    with its, pytest.raises(ValueError, match=sentence):
        Session(ours, Cluster()).wait_until_joined()


def test_sigterm_leaves_a_cluster_as_ctrl_c_does_and_its_handler_is_put_back(monkeypatch):
    ours, its = Pipe()
    its.send(("joined", ""))
    its.send(("nodes", [{"CPU": 1.0}]))
    closed = []

    @contextlib.contextmanager
    def agent(cluster, private):
        try:
            yield ours
        finally:
            closed.append(private)

    monkeypatch.setattr("synib.training.cluster_session._check_installed", lambda cluster: None)
    monkeypatch.setattr("synib.training.cluster_session._agent", agent)
    with pytest.raises(KeyboardInterrupt), joined(Cluster()):
        signal.raise_signal(signal.SIGTERM)
    assert not closed[0].exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_an_error_of_a_task_is_raised_with_its_text(session):
    made = session(Cluster(), ("nodes", [{"CPU": 1.0}]), ("result", 1, "error", "KeyError: 'lr'"))
    with pytest.raises(RuntimeError, match="KeyError: 'lr'"):
        made.results()


class Here:
    """A session whose tasks are called in this process."""

    cluster, gpus = Cluster(), 0.0

    def __init__(self, nodes=(1,)):
        self.nodes, self.tickets, self.most = list(nodes), {}, 0

    def slots(self):
        return self.nodes[0] if len(self.nodes) == 1 else self.nodes.pop(0)

    def submit(self, function, *arguments):
        self.tickets[len(self.tickets)] = getattr(engine, function.partition(":")[2]), arguments
        self.most = max(self.most, len(self.tickets))
        return len(self.tickets) - 1

    def results(self):
        tickets, self.tickets = self.tickets, {}
        return [(ticket, function(*arguments)) for ticket, (function, arguments) in tickets.items()]


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """``sweep(session, experiment)``: a sweep by that session; returns its folder."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")

    def run_on(session, experiment=SMALL, **options):
        folder = Folder(tmp_path / "out", experiment.config())
        engine.sweep(
            experiment, experiment.cells(), folder, session, loader="synib.studies.run:from_config",
            config=experiment.config(), device="cpu", together=1, **options,
        )  # fmt: skip
        return folder.path

    return run_on


def test_two_shards_are_submitted_for_each_that_is_trained_at_once_and_the_rows_are_the_fleets(sweep, tmp_path):
    session = Here()
    path = sweep(session)
    assert session.most == engine.AHEAD
    fleet = run(SMALL, tmp_path / "fleet", device="cpu", together=1)
    assert (path / "results.csv").read_bytes() == (fleet / "results.csv").read_bytes()


def test_a_run_that_the_cluster_began_is_continued_by_the_fleet_to_the_same_bytes(sweep, tmp_path):
    class Stop(BaseException):
        pass

    def stop(done, total):
        if done >= 2.0:  # two models, an epoch each
            raise Stop

    with pytest.raises(Stop):
        sweep(Here(), on_progress=stop)
    out = tmp_path / "out"
    finished = {path: path.stat().st_mtime_ns for path in out.glob("shards/*.json")}
    assert len(finished) == 2
    run(SMALL, out, device="cpu", together=1)
    assert finished.items() <= {path: path.stat().st_mtime_ns for path in out.glob("shards/*.json")}.items()
    fleet = run(SMALL, tmp_path / "fleet", device="cpu", together=1)
    assert (out / "results.csv").read_bytes() == (fleet / "results.csv").read_bytes()


def test_without_room_on_any_node_the_user_is_told_once(sweep):
    said = []
    sweep(Here(nodes=(0, 0, 0, 1)), say=said.append)
    assert sum("waiting for one" in sentence for sentence in said) == 1


def test_the_last_good_state_of_a_failed_model_comes_back(sweep):
    pytest.importorskip("safetensors")
    wild = SpuriousXOR(seeds=2, beta=(1.0,), methods=("vanilla",), epochs=2, overrides={"vanilla": {"lr": 1e38}})
    path = sweep(Here(), wild)
    rows = read_csv(path / "results.csv")
    assert all(row["error"] for row in rows)
    assert {p.stem for p in (path / "failed").iterdir()} == {row["cell"] for row in rows}


def test_a_worker_out_of_memory_says_so(sweep, device):
    def fail():
        raise torch.OutOfMemoryError

    device.fits, device.fail = (lambda shard: False), fail
    with pytest.raises(ValueError, match="A single vanilla model does not fit into the memory of a worker"):
        sweep(Here(), SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=2))


def test_a_worker_with_other_versions_refuses_to_train(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    job = engine.describe_job("synib.studies.run:from_config", SMALL.config(), "cpu", "float32")
    monkeypatch.setattr(torch, "__version__", "1.0")
    answer = engine.train(job, [SMALL.cells()[0].id], 1, 0.0)
    assert "torch 1.0, but the driver has synib" in answer["refused"]


def test_a_worker_whose_code_makes_other_cells_refuses_to_train(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    job = engine.describe_job("synib.studies.run:from_config", SMALL.config(), "cpu", "float32")
    assert "other cells for this experiment" in engine.train(job, ["0" * 16], 1, 0.0)["refused"]


def test_a_cluster_without_authentication_is_refused(sweep, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ValueError, match="This Ray cluster has no authentication"):
        sweep(Here())


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:10001", "127.0.0.1:99999", ":6379"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValueError, match="address must be HOST:PORT"):
        Cluster(address)


def test_an_address_where_nothing_answers_is_an_error_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with pytest.raises(ValueError, match=r"Nothing answers at 127\.0\.0\.1:1 "):
        run(SMALL, tmp_path / "out", engine="cluster", cluster=Cluster("127.0.0.1:1"), device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", [None, "missing"])
def test_no_cluster_is_joined_without_a_token(tmp_path, monkeypatch, path):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    if path:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / path))
    with pytest.raises(ValueError, match=r"RAY_AUTH_TOKEN_PATH"), joined(Cluster("127.0.0.1:1")):
        raise AssertionError("joined")


@pytest.mark.parametrize(
    ("missing", "cluster", "command"),
    [
        ("ray", Cluster(), r"pip install 'synib\[cluster\]'"),
        ("aiohttp_cors", Cluster(dashboard=True), r"pip install 'ray\[default\]'"),
    ],
)
def test_a_missing_package_is_an_error_with_what_to_install(monkeypatch, missing, cluster, command):
    monkeypatch.setattr("synib.training.cluster_session.find_spec", lambda name: None if name == missing else sys)
    before = dict(os.environ)
    with pytest.raises(ValueError, match=command), joined(cluster):
        raise AssertionError("joined")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--gpus-per-shard", "0"], "--gpus-per-shard requires --engine cluster"),
        (["--engine", "cluster", "--cpus-per-shard", "0"], "cpus_per_shard must be at least 1; got 0"),
        (["--engine", "cluster", "--gpus-per-shard", "1.5"], "gpus_per_shard must be between 0 and 1"),
        (
            ["--engine", "cluster", "--address", "h:1", "--dashboard"],
            "dashboard applies only to a cluster that the run starts",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused_by_the_command(synib_command, options, sentence):
    code, _, said = synib_command("reproduce", "spurious-xor", "--quick", *options)
    assert code == 2
    assert sentence in said


def test_an_experiment_that_workers_would_not_know_is_refused(tmp_path):
    class Mine(SpuriousXOR):
        name = "mine"

    with pytest.raises(ValueError, match="'mine'"):
        run(Mine(seeds=1), tmp_path / "out", engine="cluster")
