"""The process that talks to Ray, here as a thread with a stand-in for Ray."""

import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest

from synib.training import cluster_agent
from synib.training.cluster import Cluster, ClusterLost, Session
from synib.training.shards import Failure


class Died(Exception):
    pass


class Ray:
    """Calls tasks in threads; a task that returns an exception fails with it."""

    exceptions = SimpleNamespace(
        OutOfMemoryError=MemoryError, NodeDiedError=Died, ObjectLostError=KeyError, WorkerCrashedError=OSError,
        LocalRayletDiedError=ConnectionError,
    )  # fmt: skip

    def __init__(self):
        self.pool = ThreadPoolExecutor(4)
        self.alive = True

    def nodes(self):
        return [{"NodeID": "own", "Alive": self.alive, "Resources": {"CPU": 2.0}}]

    def get_runtime_context(self):
        return SimpleNamespace(get_node_id=lambda: "own")

    def remote(self, **options):
        def called(function, arguments):
            (argument,) = arguments
            if isinstance(argument, BaseException):
                raise argument
            return argument

        submitted = SimpleNamespace(
            remote=lambda *arguments: SimpleNamespace(future=lambda: self.pool.submit(called, *arguments))
        )
        return lambda function: SimpleNamespace(options=lambda **resources: submitted)


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setattr(cluster_agent, "LOOK", 0.01)
    return Ray()


@pytest.fixture
def session(ray):
    ours, its = Pipe()
    agent = threading.Thread(target=cluster_agent.serve, args=(ray, its), daemon=True)
    agent.start()
    yield Session(ours, Cluster())
    ours.send(None)
    agent.join(10)
    assert not agent.is_alive()


def collect(session, count):
    results = {}
    while len(results) < count:
        results.update(session.results())
    return results


def test_many_large_tasks_may_be_submitted_before_any_result_is_read(session):
    def submit():
        for i in range(200):
            session.submit("copy:copy", f"{i}" * 20_000)

    submitting = threading.Thread(target=submit, daemon=True)
    submitting.start()
    submitting.join(20)
    assert not submitting.is_alive()
    assert collect(session, 200) == {i + 1: f"{i}" * 20_000 for i in range(200)}


def test_failures_have_names_and_other_errors_their_text(session):
    errors = [MemoryError(), Died(), OSError()]
    for error in errors:
        session.submit("", error)
    assert list(dict(sorted(collect(session, 3).items())).values()) == list(Failure)
    session.submit("", ZeroDivisionError("by nothing"))
    with pytest.raises(RuntimeError, match="by nothing"):
        collect(session, 1)


def test_the_loss_of_the_drivers_own_node_is_reported(session, ray):
    ray.alive = False
    with pytest.raises(ClusterLost, match="raylet"):
        collect(session, 1)


def test_a_task_that_failed_with_the_drivers_own_node_is_no_result(session):
    session.submit("", ConnectionError())
    with pytest.raises(ClusterLost, match="raylet"):
        collect(session, 1)
