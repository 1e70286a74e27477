"""One model on Lightning is the model of the plain loop; what Lightning adds is added exactly."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger
from torch import nn

import synib
from synib import methods
from synib.data import Dataset, Split
from synib.files import read_csv
from synib.studies import SpuriousXOR, run
from synib.training import fleet, loop, solo, solo_module
from synib.training.folder import Folder
from synib.training.plan import Plan
from synib.training.solo_data import Pieces
from synib.training.sweep import sweep

# The same models as the other trainers (every method: tests/properties/test_trainers.py)


FORMS = [
    ("synib-random", {"noise": "matched", "space": "latents"}),
    ("synib-random", {"p": 1.0, "noise": "class-shuffled"}),
    ("experts", {"space": "latents", "weight_schedule": "anneal", "weight_steps": 4}),
]


@pytest.mark.parametrize(("name", "settings"), FORMS)
def test_it_trains_as_the_plain_loop_does_and_ends_in_evaluation_mode(made, name, settings):
    by_hand, ours = made(name, **settings), made(name, **settings)
    loop.fit(by_hand.method, by_hand.model, by_hand.data, **by_hand.settings)
    ours.fit()
    ours.same(by_hand, rtol=1e-5, atol=1e-6)
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


def test_a_sweep_by_either_engine_has_the_same_table(tmp_path, tiny, cells):
    for engine in ("fleet", "solo"):
        sweep(tiny(), cells[1:4], Folder(tmp_path / engine, {}), engine=engine)
    ours, theirs = (read_csv(tmp_path / engine / "results.csv") for engine in ("solo", "fleet"))
    assert len(ours) == 3
    for a, b in zip(ours, theirs, strict=True):
        assert a == pytest.approx(b, abs=1e-6)
    assert len(list((tmp_path / "solo" / "shards").iterdir())) == 3  # each is kept as soon as it is trained


@pytest.mark.parametrize(
    ("engine", "setting", "refused"),
    [("solo", {"lr": 1e38}, "below 1e"), ("fleet", {"warmup": 3}, "warmup"), ("solo", {"select": "first"}, "'first'")],
)
def test_a_setting_that_cannot_be_is_refused_before_a_folder_is_made(tmp_path, engine, setting, refused):
    experiment = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), overrides={"vanilla": setting})
    with pytest.raises(ValueError, match=refused):
        run(experiment, tmp_path / "run", engine=engine)
    assert not (tmp_path / "run").exists()


# Pieces, clipping, learning rates


@pytest.mark.parametrize(
    ("name", "accumulate"), [("vanilla", 3), ("vanilla", 16), ("reconboost", 2), ("dnr", 2), ("unimodal", 2)]
)
def test_pieces_of_a_batch_add_up_to_the_batch_for_a_loss_that_is_a_mean(made, name, accumulate):
    whole, cut = made(name), made(name)
    want = whole.fit()
    got = cut.fit(accumulate=accumulate)  # batches of 16, and one of 8
    cut.same(whole, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(got.history, want.history, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)


def test_devices_share_a_batch_without_loss_and_take_as_many_turns():
    plan = Plan(1e-2, 0.0, 1, 16, accumulate=3)
    mine = [list(Pieces(torch.ones(40), plan, rank, 2)) for rank in range(2)]
    assert len(mine[0]) == len(mine[1]) == len(Pieces(torch.ones(40), plan, 0, 2))
    counted = [p for m in mine for p in m if p.share]
    assert sorted(int(r) for p in counted for r in p.rows) == list(range(40))
    assert sum(p.share for p in counted) == pytest.approx(3)  # batches


@pytest.mark.parametrize("name", ["vanilla", "ogm"])  # automatic and manual optimisation
def test_a_clipped_gradient_is_no_longer_than_asked(made, monkeypatch, name):
    lengths, step = [], torch.optim.Adam.step

    def spied(self, closure=None):
        out = closure() if closure is not None else None
        grads = [p.grad.norm() for group in self.param_groups for p in group["params"] if p.grad is not None]
        lengths.append(float(torch.stack(grads).norm()))
        step(self)
        return out

    monkeypatch.setattr(torch.optim.Adam, "step", spied)
    made(name).fit(clip=1e-3)
    made(name).fit()
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


@pytest.mark.parametrize("name", ["vanilla", "ogm"])
def test_every_step_has_the_learning_rate_of_the_plan(made, monkeypatch, name):
    seen, step = [], torch.optim.Adam.step

    def spied(self, *rest, **more):
        seen.append(self.param_groups[0]["lr"])
        return step(self, *rest, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", spied)
    result = made(name).fit(warmup=2, schedule="cosine", accumulate=2)
    plan = Plan(1e-2, 0.0, 2, 16, warmup=2, schedule="cosine")
    assert seen == pytest.approx([plan.rate(n, 6) for n in range(6)])
    assert [row["lr"] for row in result.history] == [plan.rate(2, 6), plan.rate(5, 6)]


# Stopping early, and the best epoch


def worse(monkeypatch, values):
    """Validation loss is as given, epoch after epoch."""
    given, measure = iter(values), solo_module.SoloModule.measure
    monkeypatch.setattr(
        solo_module.SoloModule, "measure", lambda self: measure(self) | {"validation_loss": next(given, float("nan"))}
    )


def test_the_last_epoch_may_be_the_best(made, monkeypatch):
    worse(monkeypatch, [3.0, 4.0, 1.0])
    assert made(epochs=3).fit(select="best", monitor="validation_loss").best_epoch == 2


@pytest.mark.parametrize("select", ["best", "last"])
def test_training_stops_when_patience_ends_and_leaves_the_epoch_that_is_selected(made, monkeypatch, select):
    worse(monkeypatch, [3.0, 2.0, 2.5, 2.0, 1.0])
    stopped, shorter = made(), made(epochs=2 if select == "best" else 4)
    result = stopped.fit(epochs=20, patience=2, monitor="validation_loss", select=select)
    assert (result.best_epoch, result.stopped, len(result.history)) == (1, True, 4)  # equal is no better
    shorter.fit()
    stopped.same(shorter)


def test_a_cell_that_stopped_early_has_a_curve_for_every_epoch(tiny, cell):
    class Patient(type(tiny())):
        def method(self, cell, data):
            return methods.build(cell.method, family=synib.Bernoulli())

    (curve,) = solo.train(Patient(), [cell(epochs=30, patience=1, lr=1e-5)]).curves
    assert {len(values) for values in curve.values()} == {30}
    assert curve["validation_accuracy"][-1] == curve["validation_accuracy"][-2]


def test_a_method_settles_on_the_weights_that_are_left(made):
    """The stack of experts is fitted to the best epoch's models, and not to the last one's."""
    best = made("experts", epochs=3)
    result = best.fit(select="best", monitor="validation_loss")
    settled = best.method.weights.clone()
    validation = best.data.validation
    with torch.no_grad():
        best.method.settle(best.model, synib.objective.Batch(validation.modalities, validation.target))
        loss = best.method.family.nll(best.method.predict(best.model, validation.modalities), validation.target).mean()
    torch.testing.assert_close(best.method.weights, settled)
    assert result.metrics["validation_loss"] == pytest.approx(float(loss), rel=1e-4)


# Precision, generators, data on disk, loggers


def test_mixed_precision_trains_close_to_full_precision_and_is_not_the_same(made):
    full, mixed = made(epochs=3), made(epochs=3)
    a, b = full.fit(), mixed.fit(precision="bf16-mixed")
    assert all(p.dtype == torch.float32 for p in mixed.model.parameters())
    assert b.history[-1]["train_loss"] == pytest.approx(a.history[-1]["train_loss"], rel=0.05)
    assert b.history[-1]["train_loss"] != a.history[-1]["train_loss"]


def test_torchs_generator_is_as_it_was_and_does_not_matter(made):
    def trained(generator, **options):
        torch.manual_seed(1)
        one = made(dropout=0.2)
        one.model.encoders["x1"].append(nn.Dropout(0.5))
        torch.manual_seed(generator)
        before = torch.get_rng_state()
        one.fit(**options)
        assert torch.equal(torch.get_rng_state(), before)
        return one

    trained(1).same(trained(2))
    with pytest.raises(AssertionError):
        trained(1).same(trained(1, seed=1), atol=1e-4)


def test_frames_that_lie_on_disk_are_read_ahead_in_the_right_order(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "frames.npy", rng.integers(0, 256, (48, 3, 2, 2), dtype=np.uint8))
    frames = torch.from_numpy(np.load(tmp_path / "frames.npy", mmap_mode="r+", allow_pickle=False))
    words = synib.Tokens(torch.randn(48, 5, 4), torch.zeros(48, 5, dtype=torch.bool))
    target = torch.randint(3, (48,))

    def split(rows):
        tokens = synib.Tokens(words.values[rows], words.padding[rows])
        return Split({"video": frames[rows], "text": tokens}, target[rows])

    data = Dataset(split(slice(0, 40)), split(slice(40, 48)), None)

    class Pooled(nn.Linear):
        def forward(self, x):
            return super().forward(x.values.mean(1) if isinstance(x, synib.Tokens) else x.flatten(1).float() / 255)

    def trained(fit, **options):
        torch.manual_seed(0)
        fusion = synib.models.ConcatFusion({"video": 8, "text": 8}, [8, 3])
        model = synib.FusionModel({"video": Pooled(12, 8), "text": Pooled(4, 8)}, fusion)
        fit(synib.Vanilla(synib.Categorical()), model, data, lr=1e-2, epochs=2, batch_size=16, **options)
        return model.state_dict()

    ahead, by_hand = trained(solo.fit, device="cpu", read_ahead=2), trained(loop.fit)
    torch.testing.assert_close(ahead, by_hand, rtol=1e-6, atol=1e-7)


class Kept(Logger):
    """A logger that keeps what it is given."""

    name, version = "kept", 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_hyperparams(self, *_):
        pass

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, metrics))


def test_loggers_of_lightning_get_every_epoch_and_steps_between(made, tmp_path):
    logger = Kept()
    result = made("synib-random").fit(loggers=[logger], log_every=2, folder=tmp_path)
    assert [step for step, m in logger.rows if "validation_accuracy" in m] == [3, 6]
    assert len([m for _, m in logger.rows if "loss" in m]) >= 3
    rows = read_csv(tmp_path / "metrics.csv")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert {"lr", "train_loss", "train_penalty/x1", "validation_loss", "validation_accuracy"} <= rows[0].keys()
    assert rows[1]["train_loss"] == pytest.approx(result.history[1]["train_loss"], abs=1e-6)


def test_nothing_is_printed_where_no_progress_is_wanted(made, capsys):
    made().fit(progress=False)
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
    made().fit(log_every=1, progress=True)
    assert "Epoch 1" in capsys.readouterr().out


# What is refused


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"name": "ogm", "strategy": "fsdp"}, "OGM weighs the gradients"),
        ({"lr": 0.0}, "lr must be a number above 0"),
        ({"accumulate": 17}, "accumulate must be at most batch_size, 16"),
        ({"schedule": "linear"}, "'linear'"),
        ({"precision": "16-mixed"}, "'16-mixed' is for CUDA devices"),
        ({"monitor": "test_accuracy"}, "monitor must be a metric on validation data"),
        (
            {"monitor": "validation_f1", "patience": 1},
            "monitor must be one of validation_loss, validation_accuracy; got",
        ),
        ({"strategy": "horovod"}, "strategy must be 'auto', 'ddp' or 'fsdp'"),
        ({"devices": 4, "accumulate": 5}, "A batch of 16 cannot be split into 5 parts on each of 4 devices"),
        ({"loggers": ["paper"]}, "A logger must be .*; got 'paper'"),
        ({"device": "tpu"}, "device must be 'auto', 'cpu' or 'cuda'; got 'tpu'"),
    ],
)
def test_what_cannot_be_is_one_sentence(made, options, refused):
    one = made(options.pop("name", "vanilla"))
    with pytest.raises(ValueError, match=refused):
        one.fit(**options)


def test_a_folder_with_another_table_in_it_is_refused(made, tmp_path):
    (tmp_path / "metrics.csv").write_text("mine\n")
    with pytest.raises(ValueError, match=r"contains a metrics.csv but no synib checkpoint"):
        made().fit(folder=tmp_path)
    with pytest.raises(ValueError, match="Cannot write to the output folder"):
        made().fit(folder=tmp_path / "metrics.csv")


def test_missing_lightning_is_named_with_the_way_to_get_it(made, monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] == "lightning" or "training.solo_" in n]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "synib.training.checkpoints")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("solo_run", "solo_module", "checkpoints"):
        monkeypatch.delattr(f"synib.training.{name}", raising=False)
    with pytest.raises(ValueError, match=r'pip install "synib\[solo\]"'):
        made().fit()


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")


@on_gpu
@pytest.mark.parametrize("name", ["vanilla", "synib-random", "synib-learned", "agm", "dnr", "experts", "ogm"])
def test_a_gpu_trains_the_model_that_a_cpu_trains(made, name):
    here, there = made(name), made(name)
    here.fit()
    there.fit(device="cuda")
    there.same(here, rtol=1e-2, atol=1e-3)


@on_gpu
def test_cells_train_on_a_gpu_in_every_precision(tiny, cell):
    for precision in ("float32", "tf32", "bf16"):
        trained = solo.train(tiny(), [cell("synib-random")], "cuda", precision=precision)
        assert 0 <= trained.metrics[0]["test_accuracy"] <= 1


def test_a_checkpoint_of_the_users_own_stands_beside_ours(made, tmp_path):
    made().fit(folder=tmp_path / "ours", select="best", callbacks=[ModelCheckpoint(tmp_path / "own", "mine")])
    assert (tmp_path / "own" / "mine.ckpt").exists()
    assert (tmp_path / "ours" / "checkpoint.ckpt").exists()
