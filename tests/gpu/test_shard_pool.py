"""Shards that share a GPU: graphs captured and replayed by several threads, and the same models as from one."""

import threading
from itertools import chain

import numpy as np
import pytest
import torch

from synib.own import sharing
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.sharing import ShardPool
from synib.own.table import Table
from synib.training.recorded import CudaGraphs, Recorded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

METHODS = ["unimodal-a", "unimodal-b", "additive", "vanilla", "synib-random", "experts"]


def xor(rows=600, width=40):
    """The sign of a product of two modalities, which a few numbers of each hold."""
    rng = np.random.default_rng(0)
    signs, present = rng.choice([-1.0, 1.0], (2, rows)), np.ones(rows, bool)
    modalities = {n: rng.normal(size=(rows, width)).astype(np.float32) for n in "ab"}
    for x, sign in zip(modalities.values(), signs, strict=True):
        x[:, :5] += sign[:, None]
    target = (signs[0] * signs[1] > 0).astype(np.int64)
    return Table(modalities, dict.fromkeys("ab", present), target, ("no", "yes"), source="xor.npz")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_several_threads_train_the_models_of_one(count, monkeypatch):
    table, used = xor(), set()
    run = {"parts": folds(table, 3), "methods": METHODS, "budget": 3, "seeds": 2, "device": "cuda"}
    monkeypatch.setattr(sharing, "THREADS", 1)
    alone = train(table, **run)
    monkeypatch.setattr(sharing, "THREADS", count)
    report = lambda done, total: used.add(threading.current_thread().name)  # noqa: E731
    for _ in range(2):  # a race need not show the first time
        together = train(table, **run, on_progress=report)
        for name in METHODS:
            ours, theirs = together.methods[name], alone.methods[name]
            assert ours.chosen == theirs.chosen
            assert np.array_equal(ours.losses, theirs.losses)
            assert np.array_equal(ours.predictions, theirs.predictions)
            for mine, other in zip(chain(*ours.learners), chain(*theirs.learners), strict=True):
                here, there = mine.state_dict(), other.state_dict()
                assert all(torch.equal(here[key], there[key]) for key in here)
    assert len(used - {"MainThread"}) == count


def test_two_threads_capture_at_the_same_time_and_replay_their_own_products():
    meeting = threading.Barrier(2)

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        x, w = (torch.randn(64, 64, generator=generator).cuda() for _ in range(2))
        out, w = torch.zeros(64, 64, device="cuda"), w.requires_grad_()
        recorded = Recorded(CudaGraphs(torch.device("cuda")))

        def step(x):
            (gradient,) = torch.autograd.grad((x @ w).square().mean(), w)
            out.add_(gradient)

        for number in range(200):
            if number < 3:
                meeting.wait(timeout=60)  # both launch, capture, and first replay at the same time
            recorded(step, x + number)
        assert recorded.works
        expected = torch.zeros_like(out)
        for number in range(200):
            expected += torch.autograd.grad(((x + number) @ w).square().mean(), w)[0]
        return out.cpu(), expected.cpu()

    with ShardPool("cuda") as pool:
        results = [pool.submit(lambda seed=seed: work(seed), True) for seed in range(2)]
        for result in results:
            out, expected = result()
            assert torch.equal(out, expected)


def test_recordings_that_are_discarded_in_one_thread_leave_those_of_others():
    def work(seed):
        recorded, total = Recorded(CudaGraphs(torch.device("cuda"))), torch.zeros(1000, device="cuda")
        for _ in range(20):
            for number in range(6):
                recorded(lambda x: total.add_(x * 2), torch.full((1000,), float(number), device="cuda"))
            assert recorded.works
            recorded.forget()
        return total.cpu()

    with ShardPool("cuda") as pool:
        results = [pool.submit(lambda seed=seed: work(seed), True) for seed in range(6)]
        assert all(torch.equal(result(), torch.full((1000,), 20 * 30.0)) for result in results)


def test_streams_are_used_again():
    def stream():
        return torch.cuda.current_stream().cuda_stream

    found = set()
    for _ in range(20):
        with ShardPool("cuda") as pool:
            found |= {result() for result in [pool.submit(stream, True) for _ in range(6)]}
    assert 0 not in found
    assert len(found) <= 2 * sharing.THREADS
