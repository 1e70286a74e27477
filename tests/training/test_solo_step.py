"""Steps of the solo engine that are recorded: by tapes on a CPU, they give the bits of steps that Lightning takes."""

import logging

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

import synib
from synib.methods.hooks import TrainsInStages
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import solo, solo_step
from synib.training.checkpoints import load
from synib.training.tape import Tapes


@pytest.fixture
def tapes(monkeypatch):
    """CPUs record steps, as CUDA devices do; the fixture counts recordings."""
    made = []

    class Counted(Tapes):
        def __call__(self, run):
            made.append(super().__call__(run))
            return made[-1]

    monkeypatch.setitem(solo_step.RECORDERS, "cpu", lambda device: Counted())
    return made


@pytest.fixture
def pair(made):
    """Two equal learners whose methods do not check values, which would need the host."""

    def make(name, dropout=0.0, **settings):
        both = made(name, dropout, **settings), made(name, dropout, **settings)
        for one in both:
            one.method.check = False
        return both

    return make


EVERY = {"epochs": 5}
RUNS = [
    ("vanilla", 0.0, {}),
    ("vanilla", 0.3, {"warmup": 3, "schedule": "cosine", "clip": 0.05}),
    ("synib-random", 0.3, {"warmup": 3, "schedule": "cosine", "clip": 0.05}),
    ("synib-random", 0.0, {}),
    ("synib-learned", 0.3, {"schedule": "cosine"}),
    ("synib-learned", 0.0, {"clip": 0.05}),
    ("synib-amortized", 0.3, {}),  # a network of its own
    ("ogm", 0.0, {"clip": 0.05}),  # it weighs gradients
    ("mmpareto", 0.3, {}),
    ("dnr", 0.0, {}),  # it goes back to where it began
    ("experts", 0.0, {"select": "best", "monitor": "validation_loss"}),
]


@pytest.mark.parametrize(("name", "dropout", "options"), RUNS)
def test_recorded_steps_train_the_same_bits(tapes, pair, name, dropout, options):
    plain, recorded = pair(name, dropout, **EVERY)
    want = plain.fit(recorded=False, **options)
    assert not tapes
    got = recorded.fit(**options)
    recorded.same(plain)
    assert (got.metrics, got.history, got.best_epoch) == (want.metrics, want.history, want.best_epoch)
    assert want.not_recorded == "recorded=False"
    assert got.not_recorded == ""
    assert tapes
    assert all(tapes)


class Turns(synib.Vanilla, TrainsInStages):
    """Trains one encoder after the other, and keeps whose turn it is where nobody looks."""

    def __init__(self):
        super().__init__(family=synib.Bernoulli(), check=False)
        self.now = ["x1"]

    def begin(self, epoch):
        self.now = ["x1" if epoch < 2 else "x2"]

    def trains(self, parameter):
        return self.now[0] in parameter


@pytest.mark.parametrize("name", ["reconboost", "jtt", "turns"])
def test_a_method_that_changes_its_step_between_epochs_takes_plain_steps_from_then_on(tapes, pair, name):
    own = {"identify": 3} if name == "jtt" else {}
    plain, recorded = pair("vanilla" if name == "turns" else name, 0.3, **EVERY, **own)
    if name == "turns":
        plain.method, recorded.method = Turns(), Turns()
    want, got = plain.fit(recorded=False, clip=0.05), recorded.fit(clip=0.05)
    recorded.same(plain)
    assert got.history == want.history
    assert got.not_recorded == "the step changed after it was recorded"
    assert tapes


def test_its_adam_is_that_of_other_runs_up_to_rounding(tapes, pair, monkeypatch):
    recorded, ordinary = pair("synib-random", **EVERY)
    recorded.fit(warmup=3, clip=0.05)
    monkeypatch.delitem(solo_step.RECORDERS, "cpu")
    assert "CUDA" in ordinary.fit(warmup=3, clip=0.05).not_recorded
    recorded.same(ordinary, rtol=1e-4, atol=1e-6)


class Stop(BaseException):
    pass


def stop_after(epoch):
    def stop(at):
        if at == epoch + 1:
            raise Stop

    return stop


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("then", [True, False])
@pytest.mark.parametrize("name", ["synib-random", "ogm"])
def test_a_run_is_resumed_with_the_same_bits_recorded_or_not(tapes, pair, tmp_path, name, first, then):
    options = {"warmup": 3, "schedule": "cosine", "clip": 0.05}
    (whole, stopped), (resumed, _) = pair(name, 0.3, **EVERY), pair(name, 0.3, **EVERY)
    want = whole.fit(recorded=False, **options)
    with pytest.raises(Stop):
        stopped.fit(recorded=first, folder=tmp_path, on_epoch=stop_after(1), **options)
    assert load(tmp_path / "checkpoint.ckpt")["global_step"] == 6
    got = resumed.fit(recorded=then, folder=tmp_path, **options)
    resumed.same(whole)
    assert got.history == want.history
    assert load(tmp_path / "checkpoint.ckpt")["global_step"] == 15


def test_a_run_that_began_without_recordings_is_resumed_with_them(tapes, pair, tmp_path, monkeypatch):
    (whole, stopped), (resumed, _) = pair("synib-random", 0.3, **EVERY), pair("synib-random", 0.3, **EVERY)
    whole.fit(warmup=3)
    with monkeypatch.context() as patch:
        patch.delitem(solo_step.RECORDERS, "cpu")
        with pytest.raises(Stop):
            stopped.fit(folder=tmp_path, on_epoch=stop_after(1), warmup=3)
    resumed.fit(folder=tmp_path, warmup=3)
    resumed.same(whole, rtol=1e-4, atol=1e-6)


def test_cells_are_recorded_too(tapes, tiny, cell):
    class Unchecked(type(tiny())):
        def method(self, cell, data):
            method = super().method(cell, data)
            method.check = False
            return method

    with_tapes = solo.train(Unchecked(), [cell("synib-random", epochs=3)])
    assert tapes
    assert all(tapes)
    solo_step.RECORDERS.pop("cpu")
    without = solo.train(Unchecked(), [cell("synib-random", epochs=3)])
    assert with_tapes.metrics[0] == pytest.approx(without.metrics[0])


class Watches(Callback):
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        pass


class WatchesToo(ModelCheckpoint):
    def on_after_backward(self, trainer, pl_module):
        pass


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"accumulate": 2}, "micro-batches"),
        ({"precision": "bf16-mixed"}, "bf16-mixed"),
        ({"callbacks": [Watches()]}, "callback Watches"),
        ({"callbacks": [WatchesToo(save_top_k=0)]}, "callback WatchesToo"),
        ({"recorded": False}, "recorded=False"),
    ],
)
def test_what_is_not_recorded_says_why(tapes, pair, options, reason):
    one, _ = pair("vanilla")
    assert reason in one.fit(**options).not_recorded
    assert not tapes


def test_rows_without_weight_are_not_recorded(tapes, pair):
    one, _ = pair("vanilla")
    weight = torch.ones(len(one.data.train))
    weight[3] = 0.0
    train = synib.data.Split(one.data.train.modalities, one.data.train.target, sample_weight=weight)
    one.data = synib.data.Dataset(train, one.data.validation, None)
    assert "weight 0" in one.fit().not_recorded


def test_a_step_that_needs_the_host_goes_on_as_an_ordinary_one_and_is_logged_once(tapes, made, caplog):
    plain, checks = made("vanilla"), made("vanilla")
    plain.fit(recorded=False)
    with caplog.at_level(logging.INFO, logger="synib"):
        result = checks.fit()  # on a CPU, values of each batch are checked
    assert "depends on values" in result.not_recorded
    assert caplog.text.count("depends on values") == 1
    checks.same(plain)


def test_a_cpu_says_once_that_it_records_nothing(made, caplog):
    with caplog.at_level(logging.INFO, logger="synib"):
        made("vanilla").fit()
    assert caplog.text.count("CUDA graphs need a CUDA device") == 1


def test_a_worker_reads_ahead_where_batches_are_large():
    small = spurious_xor(beta=0.0, train=20, test=20)
    numbers = sum(x.shape[1] for x in small.train.modalities.values())
    assert solo._bytes_of_example(small) == 4 * numbers
    assert 32 * 4 * numbers < solo.READ_AHEAD < 32 * 4 * 3 * 224 * 224
