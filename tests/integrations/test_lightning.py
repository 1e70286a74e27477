"""A LightningModule with the mixin trains as a plain loop does that calls the objective."""

import contextlib
import copy
import textwrap

import pytest
import pytorch_lightning
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import synib
from synib import keys, methods
from synib.integrations import lightning as lightning_mixin
from synib.integrations.lightning import SynIBMixin
from synib.training.tape import Tapes

OBJECTIVES = {
    "random": lambda: synib.SynIB(synib.RandomMask(0.5), synib.MatchedNoise(), weight=synib.LinearWarmup(2.0, steps=4)),
    "swapped": lambda: synib.SynIB(synib.RandomMask(1.0), synib.ShuffledNoise(), draws=2, weight=1.0),
    "latents": lambda: methods.OnLatents(synib.SynIB(synib.RandomMask(0.5), synib.MatchedNoise(), weight=1.0)),
    "learned": lambda: synib.SynIB(synib.LearnedMask(steps=2), synib.StandardNoise(), weight=1.0),
    "amortized": lambda: synib.SynIB(synib.AmortizedMask({"image": 4, "text": 3}), weight=1.0),
    "vanilla": synib.Vanilla,
}


def by_name(kind):
    """A module of that LightningModule with a plain forward; it notes the generator's state and the batch of every step."""

    class Mine(SynIBMixin, kind):
        def __init__(self, objective):
            super().__init__()
            self.image, self.text = nn.Linear(4, 8), nn.Linear(3, 8)
            self.both = nn.Linear(16, 2)
            self.objective = objective
            self.seen, self.parts = [], []

        def forward(self, image, text):
            return self.both(torch.cat([self.image(image).relu(), self.text(text).relu()], 1))

        def modalities(self, batch):
            return {"image": batch[0], "text": batch[1]}

        def training_step(self, batch, index):
            self.seen.append((torch.get_rng_state(), batch))
            loss, parts = self.synib_loss(self.modalities(batch), batch[2])
            self.parts.append({"loss": loss.detach(), **parts})
            self.log_dict(parts)
            return loss

        def plainly(self, batch):
            return self.objective(lambda m: self(m["image"], m["text"]), self.modalities(batch), batch[2])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    return Mine


class Fused(by_name(LightningModule)):
    """The same with a FusionModel inside."""

    def __init__(self, objective):
        super().__init__(objective)
        del self.image, self.text, self.both
        self.model = synib.FusionModel.mlp({"image": 4, "text": 3}, hidden=[8], classes=2, head_hidden=[])

    def synib_loss(self, modalities, target):
        return super().synib_loss(modalities, target, self.model)

    def plainly(self, batch):
        return self.objective(self.model, self.modalities(batch), batch[2])


Mine = by_name(LightningModule)


def data(rows=24, batch_size=8):
    made = torch.Generator().manual_seed(3)
    image, text = (torch.randn(rows, width, generator=made) for width in (4, 3))
    return DataLoader(TensorDataset(image, text, (image[:, 0] * text[:, 0] > 0).long()), batch_size)


def fit(module, loader=None, trainer=Trainer, validation=None, ckpt_path=None, **settings):
    settings = {"max_epochs": 1, "logger": False, "enable_checkpointing": False, **settings}
    made = trainer(accelerator="cpu", devices=1, enable_progress_bar=False, enable_model_summary=False, **settings)
    made.fit(module, loader or data(), validation, ckpt_path=ckpt_path)
    return made


def same(one, other, **tolerance):
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], msg=lambda m, name=name: f"{name}: {m}", **tolerance)


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*GPU available but not used"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
]


def replayed(start, trained, accumulate=1, precision=contextlib.nullcontext):
    """The plain loop over what the trained module noted."""
    optimiser = torch.optim.SGD(start.parameters(), lr=0.5)
    losses = []
    for step, (state, batch) in enumerate(trained.seen, 1):
        torch.set_rng_state(state)
        with precision():
            loss, _ = start.plainly(batch)
        (loss / accumulate).backward()
        losses.append(loss.detach())
        if step % accumulate == 0 or step == len(trained.seen):
            optimiser.step()
            optimiser.zero_grad()
    return losses


@pytest.mark.parametrize(
    ("kind", "name", "accumulate"),
    [*((Fused, name, 1) for name in OBJECTIVES), (Mine, "random", 2), (Mine, "swapped", 1)],
)
def test_it_trains_as_the_plain_loop_does(kind, name, accumulate):
    module = kind(OBJECTIVES[name]())
    start = copy.deepcopy(module)
    trainer = fit(module, accumulate_grad_batches=accumulate)
    losses = replayed(start, module, accumulate)
    torch.testing.assert_close([p["loss"] for p in module.parts], losses, rtol=0, atol=0)
    same(module, start, rtol=0, atol=0)
    last = {name: value for name, value in module.parts[-1].items() if name != "loss"}
    assert {name: trainer.logged_metrics[name] for name in last} == last


def test_modules_of_the_other_package_train_too():
    module = by_name(pytorch_lightning.LightningModule)(OBJECTIVES["random"]())
    start = copy.deepcopy(module)
    fit(module, trainer=pytorch_lightning.Trainer)
    replayed(start, module)
    same(module, start, rtol=0, atol=0)


def test_a_plain_forward_is_called_once_and_once_for_each_modality():
    calls = []
    module = Mine(OBJECTIVES["random"]())
    module.both.register_forward_hook(lambda *_: calls.append(1))
    fit(module, max_steps=1)
    assert len(calls) == 3


def test_in_mixed_precision_layers_are_16_bit_and_the_loss_is_not():
    module, kinds = Fused(OBJECTIVES["random"]()), set()
    module.model.fusion.slices["image"].register_forward_hook(lambda *a: kinds.add(a[-1].dtype))
    start = copy.deepcopy(module)
    fit(module, precision="bf16-mixed")
    assert kinds == {torch.bfloat16}
    assert module.parts[0]["loss"].dtype == torch.float32
    replayed(start, module, precision=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    same(module, start, rtol=0, atol=0)
    assert module.objective.noise.mean_image.dtype == torch.float32


def test_validation_leaves_the_schedule_and_the_statistics_alone():
    class Validated(Mine):
        def validation_step(self, batch, index):
            self.log("val_loss", self.synib_loss(self.modalities(batch), batch[2])[0])

    module = Validated(OBJECTIVES["random"]())
    trainer = fit(module, max_epochs=2, validation=data(), num_sanity_val_steps=0)
    assert module.objective.step == 6
    assert module.objective.noise.seen_image == 6
    assert trainer.logged_metrics["val_loss"] > 0


def test_a_training_that_was_stopped_goes_on_with_its_schedule_and_statistics(tmp_path):
    def seeded():
        torch.manual_seed(0)
        return Mine(OBJECTIVES["random"]())

    class Seeded(Callback):
        def on_train_batch_start(self, trainer, *_):
            torch.manual_seed(trainer.global_step)

    whole, first, second = seeded(), seeded(), seeded()
    fit(whole, max_epochs=2, callbacks=[Seeded()])
    fit(first, callbacks=[Seeded()]).save_checkpoint(tmp_path / "half.ckpt")
    fit(second, max_epochs=2, callbacks=[Seeded()], ckpt_path=tmp_path / "half.ckpt")
    assert len(second.seen) == 3
    assert second.objective.step == 6
    same(second, whole, rtol=0, atol=0)
    read = Mine.load_from_checkpoint(tmp_path / "half.ckpt", objective=OBJECTIVES["random"](), weights_only=True)
    same(read, first, rtol=0, atol=0)


# Steps that are recorded


class Steps:
    """Takes whole steps by ``synib_step``, with a schedule and clipping."""

    def __init__(self, objective):
        super().__init__(objective)
        self.automatic_optimization = False
        self.dropout = nn.Dropout(0.2)

    def forward(self, image, text):
        return self.dropout(super().forward(image, text))

    def training_step(self, batch, index):
        loss, parts = self.synib_step(self.modalities(batch), batch[2], self._modules.get("model"), clip=0.1)
        self.lr_schedulers().step()
        self.parts.append({"loss": loss, **parts})
        self.log_dict(parts)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=torch.tensor(0.01), fused=True)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


class Stepped(Steps, Mine):
    pass


class SteppedFused(Steps, Fused):
    pass


@pytest.fixture
def tapes(monkeypatch):
    """CPUs record steps too; the fixture counts recordings."""
    made, start = [], lightning_mixin._Step.__init__

    class Counted(Tapes):
        def __call__(self, run):
            made.append(super().__call__(run))
            return made[-1]

    def begin(self, *arguments):
        start(self, *arguments)
        self.record(Counted())

    monkeypatch.setattr(lightning_mixin._Step, "__init__", begin)
    return made


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Stepped, "random"),
        (Stepped, "swapped"),
        (Stepped, "vanilla"),
        (SteppedFused, "random"),
        (SteppedFused, "learned"),
    ],
)
def test_recorded_steps_train_the_same_bits(tapes, kind, name):
    recorded = kind(OBJECTIVES[name]())
    recorded.objective.check = False
    start, plain = copy.deepcopy(recorded), copy.deepcopy(recorded)
    torch.manual_seed(0)
    trainer = fit(recorded, max_epochs=2)
    assert trainer.global_step == 6
    assert recorded.synib_not_recorded == ""
    assert len(tapes) == 1
    assert tapes[0] is not None
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightning_mixin, "_obstacle", lambda module: "a test")
        assert fit(plain, max_epochs=2).global_step == 6
    assert plain.synib_not_recorded == "a test"
    same(recorded, plain, rtol=0, atol=0)
    assert recorded.parts == plain.parts
    assert any(not torch.equal(p, q) for p, q in zip(recorded.parameters(), start.parameters(), strict=True))


@pytest.mark.parametrize("name", ["random", "vanilla"])
def test_a_stopped_training_with_recorded_steps_goes_on_with_the_same_bits(tapes, tmp_path, name):
    def seeded():
        torch.manual_seed(0)
        module = Stepped(OBJECTIVES[name]())
        module.objective.check = False
        return module

    class Seeded(Callback):
        def on_train_batch_start(self, trainer, *_):
            torch.manual_seed(trainer.global_step)

    whole, first, second = seeded(), seeded(), seeded()
    fit(whole, max_epochs=2, callbacks=[Seeded()])
    fit(first, callbacks=[Seeded()]).save_checkpoint(tmp_path / "half.ckpt")
    fit(second, max_epochs=2, callbacks=[Seeded()], ckpt_path=tmp_path / "half.ckpt")
    same(second, whole, rtol=0, atol=0)


class Watches(Callback):
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        pass


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"precision": "bf16-mixed"}, "bf16-mixed"), ({"callbacks": [Watches()]}, "Watches has a hook")],
)
def test_lightning_takes_steps_that_cannot_be_recorded(tapes, settings, reason):
    module = Stepped(OBJECTIVES["random"]())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module.configure_optimizers = lambda: ([optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)])
    assert fit(module, **settings).global_step == 3
    assert reason in module.synib_not_recorded
    assert not tapes


def test_on_a_cpu_lightning_takes_the_steps():
    module = Stepped(OBJECTIVES["random"]())
    fit(module)
    assert "CUDA" in module.synib_not_recorded


def test_a_whole_step_needs_manual_optimisation():
    module = Stepped(OBJECTIVES["random"]())
    module.automatic_optimization = True
    with pytest.raises(ValueError, match="automatic_optimization = False"):
        fit(module)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: setattr(m, "objective", methods.MMPareto()), r"MMPareto weighs the gradients .*solo"),
        (lambda m: delattr(m, "objective"), r"self\.objective must be an Objective such as synib\.SynIB.*; got None"),
        (
            lambda m: setattr(m, "modalities", lambda b: {"picture": b[0], "text": b[1]}),
            r"as keyword arguments.*predict=",
        ),
    ],
)
def test_a_mistake_gets_a_sentence(change, message):
    module = Mine(OBJECTIVES["random"]())
    change(module)
    with pytest.raises(ValueError, match=message):
        fit(module)


def test_a_validation_loss_waits_for_no_other_process(monkeypatch):
    module = Mine(OBJECTIVES["random"]())
    image, text, label = data().dataset.tensors
    module.synib_loss({"image": image, "text": text}, label)

    def wait(*_, **__):
        raise InterruptedError

    monkeypatch.setattr("synib.integrations.lightning.processes", lambda: "everybody")
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", wait)
    module.eval().synib_loss({"image": image, "text": text}, label)
    with pytest.raises(InterruptedError):
        module.train().synib_loss({"image": image, "text": text}, label)


SCRIPT = """
    import os
    import torch, synib
    from lightning.pytorch import LightningModule, Trainer
    from synib.integrations.lightning import SynIBMixin
    from torch.utils.data import DataLoader, TensorDataset

    class Mine(SynIBMixin, LightningModule):
        def __init__(self):
            super().__init__()
            self.model = synib.FusionModel.mlp({"image": 4, "text": 3}, hidden=[8], classes=2)
            self.objective = synib.SynIB(synib.RandomMask(0.5), weight=synib.LinearWarmup(2.0, steps=4))
            self.seen = []

        def training_step(self, batch, index):
            self.seen.append((torch.get_rng_state(), *batch))
            return self.synib_loss({"image": batch[0], "text": batch[1]}, batch[2], self.model)[0]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    if __name__ == "__main__":
        torch.set_num_threads(1)
        os.environ.update(ENVIRONMENT)
        torch.manual_seed(0)
        module = Mine()
        start = {name: t.clone() for name, t in module.state_dict().items()}
        loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 3), torch.arange(24) % 2), 4)
        Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
                enable_progress_bar=False, enable_model_summary=False).fit(module, loader)
        torch.save({"start": start, "end": module.state_dict(), "seen": module.seen}, f"{FOLDER}/{RANK}.pt")
"""


def test_two_processes_train_by_the_mean_of_their_gradients_with_draws_of_their_own_and_common_statistics(together):
    ranks = together(SCRIPT, ["synib.integrations.lightning", "lightning.pytorch"])
    names = {"__name__": "script"}
    exec(textwrap.dedent(SCRIPT), names)
    alike = names["Mine"]()
    alike.load_state_dict(ranks[0]["start"])
    optimiser = torch.optim.SGD(alike.parameters(), lr=0.5)
    assert len(ranks[0]["seen"]) == 3
    for step in range(3):
        after = []
        for rank, found in enumerate(ranks):
            state, image, text, label = found["seen"][step]
            torch.set_rng_state(state)
            objective = copy.deepcopy(alike.objective)
            key = keys.fold(keys.fresh(), "rank", rank)
            loss, _ = objective(alike.model, {"image": image, "text": text}, label, key=key)
            (loss / 2).backward()
            after.append(objective.state_dict())
        optimiser.step()
        optimiser.zero_grad()
        mean = {name: (t + after[1][name]) / 2 if t.is_floating_point() else t for name, t in after[0].items()}
        alike.objective.load_state_dict(mean)
    assert alike.objective.step == 3
    for found in ranks:
        for name, value in alike.state_dict().items():
            torch.testing.assert_close(found["end"][name], value, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(ranks[0]["end"][name], value) for name, value in ranks[1]["end"].items())
    assert not torch.equal(ranks[0]["seen"][0][1], ranks[1]["seen"][0][1])
