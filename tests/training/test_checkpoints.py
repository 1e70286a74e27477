"""One training on Lightning that is stopped goes on from its checkpoint and ends with the same bits."""

import os

import pytest
import torch
from lightning.pytorch.callbacks import Callback

import synib
from synib.training.checkpoints import Diverged, load


class Stop(BaseException):
    """What ends a training from outside."""


class StopAtStep(Callback):
    """Ends a training in the middle of an epoch."""

    def __init__(self, step):
        self.step = step

    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == self.step:
            raise Stop


def killed(one, at, **options):
    """A training that is ended before a step."""
    with pytest.raises(Stop):
        one.fit(callbacks=[StopAtStep(at)], **options)


RESUMED = [
    ("vanilla", 0.3, {}, {}),
    ("synib-amortized", 0.3, {}, {"warmup": 3, "schedule": "cosine", "accumulate": 2}),  # a network of its own
    ("agm", 0.0, {}, {}),  # it remembers
    ("reconboost", 0.0, {}, {}),  # it takes turns
    ("dnr", 0.0, {}, {}),  # it goes back to where it began
    ("experts", 0.3, {}, {"select": "best", "monitor": "validation_loss"}),  # it settles
    ("ogm", 0.0, {}, {"patience": 3, "accumulate": 2}),  # it weighs gradients
    ("synib-random", 0.3, {"noise": "matched", "weight_schedule": "anneal", "weight_steps": 9}, {}),
]


@pytest.mark.parametrize(("name", "dropout", "settings", "options"), RESUMED)
def test_a_training_that_is_resumed_ends_with_the_same_bits(made, tmp_path, name, dropout, settings, options):
    whole, stopped, resumed = (made(name, dropout, epochs=4, **settings) for _ in range(3))
    want = whole.fit(folder=tmp_path / "whole", **options)
    killed(stopped, 7, folder=tmp_path / "killed", **options)  # in the third epoch of three steps
    assert load(tmp_path / "killed" / "checkpoint.ckpt")["epoch"] == 1
    torch.manual_seed(12345)
    got = resumed.fit(folder=tmp_path / "killed", **options)
    resumed.same(whole)
    assert got == want
    assert (tmp_path / "killed" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def test_a_training_that_is_killed_between_epoch_and_checkpoint_repeats_that_epoch(made, tmp_path):
    def stop(epoch):
        if epoch == 1:
            raise Stop

    whole, resumed = made("dnr", epochs=4), made("dnr", epochs=4)
    want = whole.fit()
    with pytest.raises(Stop):
        made("dnr", epochs=4).fit(folder=tmp_path, on_epoch=stop)
    assert load(tmp_path / "checkpoint.ckpt")["epoch"] == 0
    assert resumed.fit(folder=tmp_path) == want
    resumed.same(whole)


def test_an_interrupted_training_interrupts_and_does_not_end_the_program(made, tmp_path):
    def press(epoch):
        if epoch:
            raise KeyboardInterrupt

    for _ in range(2):  # and it can be interrupted again
        with pytest.raises(KeyboardInterrupt):
            made(epochs=3).fit(on_epoch=press, folder=tmp_path)
    whole, resumed = made(epochs=3), made(epochs=3)
    whole.fit(), resumed.fit(folder=tmp_path)
    resumed.same(whole)


@pytest.mark.parametrize("options", [{}, {"select": "best", "monitor": "validation_loss"}, {"lr": 1e-9, "patience": 1}])
def test_a_finished_training_is_not_trained_again(made, tmp_path, monkeypatch, options):
    first, again = made("experts", epochs=5), made("experts", epochs=5)
    want = first.fit(folder=tmp_path, **options)
    assert want.stopped == ("patience" in options)
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *_, **__: pytest.fail("it was trained"))
    assert again.fit(folder=tmp_path, **options) == want
    again.same(first)


@pytest.mark.parametrize("change", ["lr", "model", "weight", "data"])
def test_a_training_with_other_settings_does_not_go_on_in_the_folder(made, tmp_path, change):
    killed(made("synib-random", epochs=3), 4, folder=tmp_path)
    before = (tmp_path / "checkpoint.ckpt").read_bytes()
    other = made("synib-random", epochs=3, **{"weight": {"weight": 50.0}, "lr": {"lr": 0.5}}.get(change, {}))
    if change == "model":
        other.model = synib.FusionModel.mlp(other.data.widths, hidden=[4], head_hidden=[])
    if change == "data":
        other.data = made("synib-random", seed=5).data
    with pytest.raises(ValueError, match=r"holds a training run with other settings .*, which was not changed"):
        other.fit(folder=tmp_path)
    assert (tmp_path / "checkpoint.ckpt").read_bytes() == before


def test_nothing_in_a_checkpoint_is_executed(made, tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    path = tmp_path / "checkpoint.ckpt"
    torch.save({"synib": 1, "state_dict": Trap()}, path)
    with pytest.raises(ValueError, match="is damaged or not a synib checkpoint"):
        made().fit(folder=tmp_path)
    assert not (tmp_path / "sprung").exists()
    torch.save({"other": 1}, path)
    with pytest.raises(ValueError, match="is not a synib checkpoint"):
        made().fit(folder=tmp_path)


@pytest.mark.parametrize("kept", [False, True])
def test_a_training_that_diverges_leaves_the_last_good_state(made, tmp_path, kept):
    class Poison(Callback):
        def on_train_batch_start(self, trainer, module, *_):
            if trainer.global_step == 7:
                next(iter(module.parameters())).data.fill_(float("nan"))

    good, failed = made(epochs=2), made(epochs=4)
    good.fit()
    with pytest.raises(
        Diverged, match=r"in epoch 3 of 4 at learning rate 0\.01, .* restored to its state after 2 epochs"
    ) as said:
        failed.fit(callbacks=[Poison()], folder=tmp_path if kept else None)
    assert said.value.good == 2
    failed.same(good)
    if kept:
        assert all(t.isfinite().all() for t in load(tmp_path / "checkpoint.ckpt")["synib"]["tensors"].values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_a_gpu_trains_in_mixed_precision_and_resumes_it_to_the_bit(made, tmp_path, precision):
    whole, stopped, resumed = (made("synib-random", 0.3, epochs=3) for _ in range(3))
    options = {"device": "cuda", "precision": precision, "clip": 1.0, "accumulate": 2}
    full = made("synib-random", 0.3, epochs=3).fit(accumulate=2, clip=1.0)
    mixed = whole.fit(folder=tmp_path / "a", **options)
    killed(stopped, 4, folder=tmp_path / "b", **options)
    resumed.fit(folder=tmp_path / "b", **options)
    resumed.same(whole)
    assert mixed.history[-1]["train_loss"] == pytest.approx(full.history[-1]["train_loss"], rel=0.1)
