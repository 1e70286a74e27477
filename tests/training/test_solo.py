"""One model on Lightning is the model of the plain loop; what Lightning adds is added exactly."""

import os
import sys
import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from synib.training.solo_state import load, save
from torch import nn

import synib
from synib import methods
from synib.data import Dataset, Split
from synib.files import read_csv
from synib.methods import METHODS
from synib.studies import SpuriousXOR, run
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import fleet, loop, solo
from synib.training.folder import Folder
from synib.training.plan import Plan
from synib.training.solo_data import Batches, read_ahead
from synib.training.sweep import sweep

TRAINING = ("lr", "weight_decay", "epochs", "batch_size")


@pytest.fixture
def made(tiny, cell):
    """``made(method)``: a fresh model and method of a cell, its data and its training settings."""

    def make(name="vanilla", dropout=0.0, **settings):
        one = cell(name, **settings)
        data = tiny().data(one)
        torch.manual_seed(one.seed)
        model = tiny(dropout).model(one, data)
        torch.manual_seed(one.seed)
        method = tiny().method(one, data)
        return SimpleNamespace(model=model, method=method, data=data, settings={k: one.settings[k] for k in TRAINING})

    return make


def fit(one, **options):
    return solo.fit(one.method, one.model, one.data, **{"device": "cpu", **one.settings, **options})


def state(one):
    return {
        f"{who}.{name}": t
        for who, part in (("model", one.model), ("method", one.method))
        for name, t in [*part.named_parameters(), *part.named_buffers()]
    }


def assert_same(one, other, **tolerance):
    a, b = state(one), state(other)
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], **tolerance, msg=name)


def exactly(one, other):
    assert_same(one, other, rtol=0, atol=0)


def differ(one, other):
    a, b = state(one), state(other)
    return any(not torch.allclose(a[name].double(), b[name].double(), atol=1e-4) for name in a)


@pytest.mark.parametrize(
    ("name", "dropout", "settings"),
    [
        *((m, 0.0, {}) for m in METHODS),
        ("synib-random", 0.3, {}),
        ("synib-random", 0.3, {"noise": "matched", "space": "latents"}),
        ("synib-random", 0.3, {"p": 1.0, "noise": "class-shuffled", "shares": {"x1": 0.5}}),
        ("experts", 0.0, {"space": "latents", "weight_schedule": "anneal", "weight_steps": 4}),
    ],
)
def test_every_method_trains_as_in_the_plain_loop(made, name, dropout, settings):
    by_hand, ours = made(name, dropout, **settings), made(name, dropout, **settings)
    loop.fit(by_hand.method, by_hand.model, by_hand.data, **by_hand.settings)
    fit(ours)
    assert_same(ours, by_hand, rtol=1e-5, atol=1e-6)
    assert not any(part.training for one in (ours.model, ours.method) for part in one.modules())


def test_cells_have_the_rows_and_curves_that_the_fleet_gives(tiny, cell):
    class Grouped(type(tiny())):
        def data(self, cell):
            data = super().data(cell)
            parts = (data.train, data.validation, data.test)
            return Dataset(*(Split(s.modalities, s.target, {"odd": torch.arange(len(s)) % 2 == 1}) for s in parts))

        def watch(self, predict, parameters, train, validation):
            changed = {k: 0 * v for k, v in parameters.items() if k.startswith("model.fusion")}
            return {
                "mean": predict({}, validation.modalities).mean() + train.groups["odd"].float().mean(),
                "nothing": predict(changed, validation.modalities).abs().sum(),
            }

        def examine(self, cell, learner, data):
            assert not learner.training
            return {"norm": float(sum(p.detach().norm() for p in learner.parameters()))}

    cells = [cell("experts", seed=s) for s in range(2)]
    epochs = []
    ours = solo.train(Grouped(), cells, on_epoch=lambda: epochs.append(1))
    theirs = fleet.train(Grouped(), cells)
    assert len(epochs) == cells[0].settings["epochs"]
    for a, b in zip(ours.metrics, theirs.metrics, strict=True):
        assert list(a) == list(b)
        assert a == pytest.approx(b, rel=1e-4)
    for a, b in zip(ours.curves, theirs.curves, strict=True):
        assert a.keys() == b.keys()
        assert all(a[name] == pytest.approx(b[name], rel=1e-4, abs=1e-6) for name in a)
    for a, b in zip(ours.learners, theirs.learners, strict=True):
        for name, p in b.named_parameters():
            torch.testing.assert_close(dict(a.named_parameters())[name], p, rtol=1e-4, atol=1e-5)


def test_a_sweep_by_either_engine_has_the_same_table(tmp_path, tiny, cells):
    for engine in ("fleet", "solo"):
        sweep(tiny(), cells[1:4], Folder(tmp_path / engine, {}), engine=engine)
    ours, theirs = (read_csv(tmp_path / engine / "results.csv") for engine in ("solo", "fleet"))
    assert len(ours) == 3
    for a, b in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, abs=1e-6)
    assert len(list((tmp_path / "solo" / "shards").iterdir())) == 3  # each is kept as soon as it is trained


def test_an_experiment_says_which_engine_trains_it_and_keeps_to_it(tmp_path):
    small = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
    path = run(small, tmp_path, device="cpu", engine="solo")
    assert 0 <= read_csv(path / "results.csv")[0]["test_accuracy"] <= 1
    with pytest.raises(ValueError, match="a run with engine solo; continue it with engine solo"):
        run(small, tmp_path, device="cpu")
    with pytest.raises(ValueError, match="engine is fleet, solo or cluster; got 'duo'"):
        run(small, tmp_path, device="cpu", engine="duo")


@pytest.mark.parametrize("engine", ["fleet", "solo"])
def test_a_setting_that_cannot_be_is_said_before_a_folder_is_made(tmp_path, engine):
    given = {"solo": ("confidence", {"lr": 1e38}, "below 1e"), "fleet": ("vanilla", {"warmup": 3}, "--engine solo")}
    method, setting, said = given[engine]
    experiment = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla", "confidence"), overrides={method: setting})
    with pytest.raises(ValueError, match=said):
        run(experiment, tmp_path / "run", engine=engine)
    assert not (tmp_path / "run").exists()


def test_settings_that_only_solo_knows_reach_it_and_are_refused_by_the_fleet(tmp_path):
    warm = SpuriousXOR(
        seeds=1, beta=(1.0,), methods=("vanilla",), epochs=2, overrides={"vanilla": {"warmup": 4, "schedule": "cosine"}}
    )
    with pytest.raises(ValueError, match="these cells have warmup, schedule: train them with --engine solo"):
        run(warm, tmp_path / "fleet", device="cpu")
    assert run(warm, tmp_path / "solo", device="cpu", engine="solo").exists()
    bad = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1, overrides={"vanilla": {"select": "first"}})
    with pytest.raises(ValueError, match="select is 'last' or 'best'; got 'first'"):
        run(bad, tmp_path / "bad", device="cpu", engine="solo")


@pytest.mark.parametrize(
    ("name", "accumulate"),
    [("vanilla", 2), ("vanilla", 3), ("vanilla", 16), ("unimodal", 2), ("ensemble", 2), ("reconboost", 2), ("dnr", 2)],
)
def test_pieces_of_a_batch_add_up_to_the_batch_for_a_loss_that_is_a_mean(made, name, accumulate):
    whole, cut = made(name), made(name)
    want = fit(whole)
    got = fit(cut, accumulate=accumulate)  # batches of 16, and one of 8
    assert_same(cut, whole, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(got.history, want.history, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)


def test_each_piece_of_a_batch_has_draws_of_its_own(made, monkeypatch):
    one, seen = made("synib-random"), []
    backward = type(one.method).backward

    def spied(self, *arguments, key, examples):
        seen.append((int(key), len(examples)))
        return backward(self, *arguments, key=key, examples=examples)

    monkeypatch.setattr(type(one.method), "backward", spied)
    fit(one, accumulate=2, epochs=1)
    assert [n for _, n in seen] == [8, 8, 8, 8, 8]  # the last batch is half as large, and one piece
    assert len({key for key, _ in seen}) == 5


def test_a_clipped_gradient_is_no_longer_than_asked(made, monkeypatch):
    lengths, step = [], torch.optim.Adam.step

    def spied(self, *rest):
        grads = [p.grad.norm() for group in self.param_groups for p in group["params"] if p.grad is not None]
        lengths.append(float(torch.stack(grads).norm()))
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.Adam, "step", spied)
    fit(made(), clip=1e-3)
    fit(made())
    clipped, free = lengths[:6], lengths[6:]
    assert max(clipped) <= 1e-3 * (1 + 1e-4)
    assert min(free) > 1e-3


def test_the_learning_rate_rises_and_falls_along_a_cosine(made):
    plan = Plan(1.0, 0.0, 1, 1, warmup=4, schedule="cosine")
    rates = [plan.rate(step, 12) for step in range(12)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert all(a > b for a, b in pairwise(rates[4:]))
    assert rates[8] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.05
    fitted = fit(made(), warmup=2, schedule="cosine", lr=1e-2, epochs=2)  # of three steps each
    plan = Plan(1e-2, 0.0, 2, 16, warmup=2, schedule="cosine")
    assert [row["lr"] for row in fitted.history] == [plan.rate(2, 6), plan.rate(5, 6)]
    assert differ(fit_(made(), warmup=6), fit_(made()))


def fit_(one, **options):
    fit(one, **options)
    return one


class Stop(BaseException):
    """What ends a training from outside."""


def killed(one, at, **options):
    """A training that is ended after an epoch, or in the middle of the one after it."""

    def on_epoch(epoch):
        if epoch == at:
            raise Stop

    with pytest.raises(Stop):
        fit(one, on_epoch=on_epoch, **options)


RESUMED = [
    ("vanilla", 0.0, {}),
    ("synib-amortized", 0.3, {"warmup": 3, "schedule": "cosine", "accumulate": 2}),  # a network of its own, dropout
    ("agm", 0.0, {}),  # it remembers
    ("reconboost", 0.0, {}),  # it takes turns
    ("dnr", 0.0, {}),  # it goes back to where it began
    ("experts", 0.3, {"select": "best", "monitor": "validation_loss"}),  # it settles
]


@pytest.mark.parametrize(("name", "dropout", "options"), RESUMED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_training_that_is_resumed_ends_with_the_same_bits(made, tmp_path, name, dropout, options):
    whole, stopped, resumed = (made(name, dropout, epochs=4) for _ in range(3))
    want = fit(whole, folder=tmp_path / "whole", **options)
    killed(stopped, 1, folder=tmp_path / "killed", **options)
    got = fit(resumed, folder=tmp_path / "killed", **options)
    exactly(resumed, whole)
    assert got == want
    for name in ("metrics.csv",):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    "settings", [{"noise": "standard"}, {"noise": "matched"}, {"noise": "matched", "space": "latents"}]
)
def test_a_training_that_is_resumed_in_the_middle_of_an_epoch_ends_with_the_same_bits(
    made, tmp_path, monkeypatch, settings
):
    def steps(n):
        left, step = iter(range(n)), torch.optim.Adam.step

        def counted(self, *rest):
            if next(left, None) is None:
                raise Stop
            return step(self, *rest)

        return counted

    whole, stopped, resumed = (made("synib-random", 0.3, epochs=3, **settings) for _ in range(3))
    for one in (whole, stopped, resumed):
        one.model.encoders["x1"].append(nn.Dropout(0.2))  # torch's own, which draws from torch's generator
    options = {"checkpoint_every": 2, "accumulate": 2}
    want = fit(whole, folder=tmp_path / "whole", **options)
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", steps(5))  # one and two thirds of an epoch
        with pytest.raises(Stop):
            fit(stopped, folder=tmp_path / "killed", **options)
    torch.manual_seed(12345)
    assert load(tmp_path / "killed" / "checkpoint.pt")["progress"]["step"] == 4
    got = fit(resumed, folder=tmp_path / "killed", **options)
    exactly(resumed, whole)
    assert got.history == want.history


def test_a_training_that_ended_between_its_last_step_and_the_epochs_end_goes_on_there(made, tmp_path, monkeypatch):
    from synib.training import solo_module

    def stop(self):
        raise Stop

    whole, resumed = made("synib-random", 0.3), made("synib-random", 0.3)
    want = fit(whole)
    with monkeypatch.context() as patch:
        patch.setattr(solo_module.Solo, "_measure", stop)
        with pytest.raises(Stop):
            fit(made("synib-random", 0.3), folder=tmp_path, checkpoint_every=3)  # an epoch has three steps
    assert load(tmp_path / "checkpoint.pt")["progress"]["at"] == 3
    assert fit(resumed, folder=tmp_path, checkpoint_every=3) == want
    exactly(resumed, whole)


def test_a_finished_training_is_not_trained_again(made, tmp_path, monkeypatch):
    first, again = made("experts"), made("experts")
    want = fit(first, folder=tmp_path)
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *_: pytest.fail("it was trained"))
    assert fit(again, folder=tmp_path) == want
    exactly(again, first)


def test_a_training_with_other_settings_does_not_go_on_in_the_folder(made, tmp_path):
    killed(made(epochs=3), 0, folder=tmp_path)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=r"other settings \(lr 0.01 there, 0.5 now\); nothing was touched"):
        fit(made(epochs=3), folder=tmp_path, lr=0.5)
    other = made(epochs=3)
    other.model = synib.FusionModel.mlp(other.data.widths, hidden=[4], head_hidden=[])
    with pytest.raises(ValueError, match=r"other settings \(model .* there, .* now\); nothing was touched"):
        fit(other, folder=tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_a_checkpoint_executes_nothing_and_a_damaged_one_is_said_to_be(made, tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    path = tmp_path / "checkpoint.pt"
    for content in ({"synib": 1, "progress": Trap()}, None):
        torch.save(content, path) if content else path.write_bytes(b"PK nothing")
        with pytest.raises(ValueError, match="is damaged or no checkpoint of ours"):
            fit(made(), folder=tmp_path)
    assert not (tmp_path / "sprung").exists()
    torch.save({"other": 1}, path)
    with pytest.raises(ValueError, match="no checkpoint of this version"):
        fit(made(), folder=tmp_path)


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path):
    save(tmp_path / "c.pt", {"a": torch.ones(2)})
    with pytest.raises(Exception, match="pickle"):
        save(tmp_path / "c.pt", {"a": lambda: None})
    assert torch.equal(load(tmp_path / "c.pt")["a"], torch.ones(2))
    assert [p.name for p in tmp_path.iterdir()] == ["c.pt"]


def worse(monkeypatch, values):
    """Validation loss is as said, epoch after epoch."""
    from synib.training import solo_module

    said, measure = iter(values), solo_module.Solo._measure
    monkeypatch.setattr(
        solo_module.Solo, "_measure", lambda self: measure(self) | {"validation_loss": next(said, float("nan"))}
    )


def test_training_stops_when_patience_ends_and_leaves_the_best_epochs_weights(made, monkeypatch, tmp_path):
    options = {"epochs": 20, "patience": 2, "monitor": "validation_loss", "select": "best"}
    worse(monkeypatch, [3.0, 2.0, 2.5, 2.0, 1.0])
    stopped = made()
    fitted = fit(stopped, **options)
    assert (fitted.best_epoch, fitted.stopped, len(fitted.history)) == (1, True, 4)  # equal is no better
    worse(monkeypatch, [3.0, 2.0, 2.5, 2.0, 1.0])
    kept = made()
    fit(kept, **options, folder=tmp_path)
    exactly(stopped, kept)
    two, four = made(epochs=2), made(epochs=4)
    fit(two), fit(four)
    exactly(stopped, two)
    last = made()
    worse(monkeypatch, [3.0, 2.0, 2.5, 2.0, 1.0])
    fit(last, **options | {"select": "last"})
    exactly(last, four)


def test_the_last_epoch_may_be_the_best(made, monkeypatch):
    worse(monkeypatch, [3.0, 4.0, 1.0])
    best, last = made(epochs=3), made(epochs=3)
    assert fit(best, select="best", monitor="validation_loss").best_epoch == 2
    fit(last)
    exactly(best, last)


def test_a_cell_that_stopped_early_has_a_curve_for_every_epoch(tiny, cell):
    class Patient(type(tiny())):
        def method(self, cell, data):
            return methods.build(cell.method, family=synib.Bernoulli())

    cells = [cell(epochs=30, patience=1, lr=1e-5, seed=s) for s in range(2)]
    trained = solo.train(Patient(), cells)
    for curve in trained.curves:
        assert {len(values) for values in curve.values()} == {30}
        assert curve["validation_accuracy"][-1] == curve["validation_accuracy"][-2]


def test_a_method_settles_on_the_weights_that_are_left(made):
    """The stack of experts is fitted to the best epoch's models, and not to the last one's."""
    best = made("experts", epochs=3)
    fitted = fit(best, select="best", monitor="validation_loss")
    settled = best.method.weights.clone()
    validation = best.data.validation
    with torch.no_grad():
        best.method.settle(best.model, synib.objective.Batch(validation.modalities, validation.target))
        loss = best.method.family.nll(best.method.predict(best.model, validation.modalities), validation.target).mean()
    torch.testing.assert_close(best.method.weights, settled)
    assert fitted.metrics["validation_loss"] == pytest.approx(float(loss), rel=1e-4)


def test_mixed_precision_trains_close_to_full_precision_and_is_not_the_same(made):
    full, mixed = made(epochs=3), made(epochs=3)
    a, b = fit(full), fit(mixed, precision="bf16-mixed")
    assert all(p.dtype == torch.float32 for p in mixed.model.parameters())
    assert b.history[-1]["train_loss"] == pytest.approx(a.history[-1]["train_loss"], rel=0.05)
    assert b.history[-1]["train_loss"] != a.history[-1]["train_loss"]


@pytest.mark.parametrize("name", ["ogm", "mmpareto"])
def test_scaled_losses_give_the_gradients_of_the_losses_themselves(made, name):
    from synib.training.solo_module import scaled

    one, other = made(name), made(name)
    for it in (one, other):
        it.method.attach(it.model)
        it.method.begin(0)
    batch = one.data.train
    key = synib.keys.key(3)
    plain, _ = one.method.backward(one.model, batch.modalities, batch.target, key=key)
    with scaled(other.method, 1024.0):
        larger, _ = other.method.backward(other.model, batch.modalities, batch.target, key=key)
    assert float(larger) == pytest.approx(1024 * float(plain))
    for p, q in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    assert "losses" not in vars(other.method)


def test_torchs_generator_is_as_it_was_and_does_not_matter(made):
    def with_torchs_dropout():
        one = made()
        one.model.encoders["x1"].append(nn.Dropout(0.5))
        return one

    one, other = with_torchs_dropout(), with_torchs_dropout()
    torch.manual_seed(1)
    fit(one)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(1)))
    fit(other)
    exactly(one, other)
    assert differ(fit_(with_torchs_dropout(), seed=1), one)


class Frames(nn.Module):
    """Numbers from 0 to 255 as an encoder of images takes them."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 8)

    def forward(self, x):
        return self.inner(x.flatten(1).float() / 255)


def test_frames_that_lie_on_disk_are_read_ahead_in_the_right_order(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "frames.npy", rng.integers(0, 256, (48, 3, 2, 2), dtype=np.uint8))
    frames = torch.from_numpy(np.load(tmp_path / "frames.npy", mmap_mode="r+", allow_pickle=False))
    words = synib.Tokens(torch.randn(48, 5, 4), torch.zeros(48, 5, dtype=torch.bool))
    target = torch.randint(3, (48,))

    def split(rows):
        return Split(
            {"video": frames[rows], "text": synib.Tokens(words.values[rows], words.padding[rows])}, target[rows]
        )

    data = Dataset(split(slice(0, 40)), split(slice(40, 48)), None)

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 8)

        def forward(self, x):
            return self.inner(x.values.mean(1))

    def trained(fit, **options):
        torch.manual_seed(0)
        fusion = synib.models.ConcatFusion({"video": 8, "text": 8}, [8, 3])
        model = synib.FusionModel({"video": Frames(), "text": Pooled()}, fusion)
        method = methods.build("vanilla", family=synib.Categorical())
        fit(method, model, data, lr=1e-2, epochs=2, batch_size=16, **options)
        return SimpleNamespace(model=model, method=method)

    exactly(trained(solo.fit, device="cpu", read_ahead=2), trained(loop.fit))
    assert not [t for t in threading.enumerate() if t.name.startswith("synib-read-ahead")]


def test_reading_ahead_keeps_the_order_and_hands_on_what_goes_wrong():
    assert list(read_ahead(lambda i: i * i, range(7), 3)) == [i * i for i in range(7)]

    def read(i):
        if i == 3:
            raise OSError("the disk is gone")
        return i

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(read_ahead(read, range(7), 2))


def test_devices_share_a_batch_without_loss_and_take_as_many_turns(made):
    split, plan = made().data.train, Plan(1e-2, 0.0, 1, 16, accumulate=3)
    mine = [list(Batches(split, plan, rank, 2, lambda: (0, 0), pin=False, ahead=0)) for rank in range(2)]
    assert len({len(m) for m in mine}) == 1
    assert len(mine[0]) == len(Batches(split, plan, 0, 2, lambda: (0, 0), pin=False, ahead=0))
    counted = [p for m in mine for p in m if p.share]
    assert sorted(int(r) for p in counted for r in p.rows) == list(range(40))
    assert sum(p.share for p in counted) == pytest.approx(3)  # batches
    assert sum(p.last for p in mine[0]) == 3


def test_loggers_of_lightning_get_every_epoch_and_steps_between(made, tmp_path):
    from lightning.pytorch.loggers import Logger

    class Kept(Logger):
        name, version = "kept", 0

        def __init__(self):
            super().__init__()
            self.rows = []

        def log_hyperparams(self, *_):
            pass

        def log_metrics(self, metrics, step=None):
            self.rows.append((step, metrics))

    logger = Kept()
    fitted = fit(made("synib-random"), loggers=[logger], log_every=2, folder=tmp_path)
    epochs = [(step, m) for step, m in logger.rows if "validation_accuracy" in m]
    assert [step for step, _ in epochs] == [3, 6]
    assert [step for step, m in logger.rows if "step/loss" in m] == [2, 4, 6]
    rows = read_csv(tmp_path / "metrics.csv")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert {"lr", "train_loss", "train_penalty/x1", "validation_loss", "validation_accuracy"} <= rows[0].keys()
    assert rows[1]["train_loss"] == pytest.approx(fitted.history[1]["train_loss"], abs=1e-6)


def test_a_progress_bar_is_shown_where_asked_for(made, capsys):
    fit(made(), log_every=1, progress=True)
    assert "Epoch 1" in capsys.readouterr().out
    fit(made(), progress=False)
    said = capsys.readouterr()
    assert said.out + said.err == ""


def test_an_interrupted_training_interrupts_and_does_not_end_the_program(made, tmp_path):
    def press(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(made(epochs=3), on_epoch=press, folder=tmp_path)
    with pytest.raises(KeyboardInterrupt):  # and it can be interrupted again
        fit(made(epochs=3), on_epoch=press, folder=tmp_path)
    assert load(tmp_path / "checkpoint.pt")["progress"]["epoch"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lr": 0.0}, "lr is a number above 0"),
        ({"lr": 1e38}, "below 1e\\+37; got 1e\\+38"),
        ({"accumulate": 17}, "accumulate is at most batch_size, 16"),
        ({"schedule": "linear"}, "schedule is 'constant' or 'cosine'; got 'linear'"),
        ({"precision": "16"}, "precision is '32-true' or 'bf16-mixed' or '16-mixed'; got '16'"),
        ({"precision": "16-mixed"}, "'16-mixed' is for CUDA devices"),
        ({"monitor": "test_accuracy"}, "monitor is a metric on validation data"),
        ({"monitor": "validation_f1", "patience": 1}, "monitor is one of validation_loss, validation_accuracy; got"),
        ({"strategy": "horovod"}, "strategy is 'auto' or 'ddp' or 'fsdp'"),
        ({"devices": 4, "accumulate": 5}, "A batch of 16 cannot be cut into 5 pieces on each of 4 devices"),
        ({"loggers": ["paper"]}, "A logger is 'tensorboard', 'wandb', 'mlflow' or one of Lightning's; got 'paper'"),
        ({"device": "tpu"}, "device is 'auto', 'cpu' or 'cuda'; got 'tpu'"),
    ],
)
def test_what_cannot_be_is_one_sentence(made, options, said):
    with pytest.raises(ValueError, match=said):
        fit(made(), **options)


def test_parameters_are_not_spread_over_devices_where_gradients_are_weighed(made):
    with pytest.raises(ValueError, match="methods that say everything in their loss; OGM also has direction"):
        fit(made("ogm"), strategy="fsdp")


def test_a_folder_with_another_table_in_it_is_refused(made, tmp_path):
    (tmp_path / "metrics.csv").write_text("mine\n")
    with pytest.raises(ValueError, match=r"holds a metrics.csv and no checkpoint of ours"):
        fit(made(), folder=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="Cannot make the folder"):
        fit(made(), folder=tmp_path / "file")


@pytest.mark.parametrize("missing", ["lightning", "tensorboard"])
def test_a_missing_package_is_named_with_the_way_to_get_it(made, monkeypatch, missing):
    if missing == "lightning":
        for name in [n for n in sys.modules if n.split(".")[0] == "lightning" or n.endswith("solo_module")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "lightning", None)
        monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
        monkeypatch.delattr("synib.training.solo_module", raising=False)
        with pytest.raises(ValueError, match=r'pip install "synib\[solo\]"'):
            fit(made())
    else:
        from lightning.pytorch import loggers

        def absent(*_, **__):
            raise ModuleNotFoundError("neither tensorboard nor tensorboardX")

        monkeypatch.setattr(loggers, "TensorBoardLogger", absent)
        with pytest.raises(ValueError, match="The logger 'tensorboard' needs tensorboard: pip install tensorboard"):
            fit(made(), loggers="tensorboard")


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")


@on_gpu
@pytest.mark.parametrize("name", ["vanilla", "synib-random", "synib-learned", "agm", "dnr", "experts", "ogm"])
def test_a_gpu_trains_the_model_that_a_cpu_trains(made, name):
    here, there = made(name), made(name)
    fit(here)
    fit(there, device="cuda")
    assert_same(there, here, rtol=1e-2, atol=1e-3)


@on_gpu
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_a_gpu_trains_in_mixed_precision_and_resumes_it_to_the_bit(made, tmp_path, precision):
    whole, stopped, resumed = (made("synib-random", 0.3, epochs=3) for _ in range(3))
    options = {"device": "cuda", "precision": precision, "clip": 1.0, "accumulate": 2}
    full, mixed = (
        fit(made("synib-random", 0.3, epochs=3), accumulate=2, clip=1.0),
        fit(whole, folder=tmp_path / "a", **options),
    )
    killed(stopped, 0, folder=tmp_path / "b", **options)
    fit(resumed, folder=tmp_path / "b", **options)
    exactly(resumed, whole)
    assert mixed.history[-1]["train_loss"] == pytest.approx(full.history[-1]["train_loss"], rel=0.1)


@on_gpu
def test_cells_train_on_a_gpu_in_every_precision(tiny, cell):
    for precision in ("float32", "tf32", "bf16"):
        trained = solo.train(tiny(), [cell("synib-random")], "cuda", precision=precision)
        assert 0 <= trained.metrics[0]["test_accuracy"] <= 1


@pytest.mark.parametrize("change", ["weight", "mask", "data"])
def test_a_folder_of_another_method_or_of_other_data_is_refused_and_touches_nothing(tmp_path, change):
    def fitted(weight=1.0, p=0.4, seed=0):
        data = spurious_xor(0.0, seed, train=32, validation=16, test=16)
        torch.manual_seed(0)
        model = synib.FusionModel.mlp(data.widths, hidden=[4], head_hidden=[])
        method = synib.SynIB(synib.RandomMask(p), family=synib.Bernoulli(), weight=weight)
        solo.fit(method, model, data, lr=1e-2, epochs=1, batch_size=16, folder=tmp_path / "run", progress=False)
        return method

    fitted()
    fitted()  # the same again is the finished training
    other = {"weight": {"weight": 50.0}, "mask": {"p": 0.9}, "data": {"seed": 5}}[change]
    with pytest.raises(ValueError, match=r"holds a training with other settings .* nothing was touched"):
        fitted(**other)
