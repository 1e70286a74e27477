"""Training steps on Lightning, recorded as CUDA graphs or launched kernel by kernel: milliseconds, and equal losses.

The network and the data are those of PID-XOR. Each method is trained in four ways: by the solo engine and by a LightningModule
with ``SynIBMixin``, both with and without recorded steps. The first epoch is not counted (libraries are loaded, steps are
recorded); the time of the others is from the first step to the last, with the device's work. On a CPU, steps are recorded
as tapes, so that this can be tried before it is sent to a GPU.

    python benchmarks/lightning_recorded.py [--device cuda] [--width 1024] [--rows 12000] [--epochs 4] [--out FILE.csv]
"""

import argparse
import csv
import logging
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Timer
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import synib
from synib.data import Dataset
from synib.integrations import lightning as mixin
from synib.models import FusionModel
from synib.models.fusion import pid_xor_model
from synib.objective import Objective
from synib.studies.pid_xor.data import pid_xor
from synib.tokens import values
from synib.training import solo, solo_step
from synib.training.device import choose_device, device_name
from synib.training.tape import Tapes

METHODS: dict[str, Callable[[], Objective]] = {
    "vanilla": lambda: synib.Vanilla(family=synib.Bernoulli(), check=False),
    "random masks": lambda: synib.SynIB(
        synib.RandomMask(0.5), synib.StandardNoise(), family=synib.Bernoulli(), weight=3.0, check=False
    ),
}
BATCH = 120


class Clock(Timer):
    """Seconds of the steps of each epoch, with the device's work."""

    def __init__(self) -> None:
        super().__init__(duration=None, verbose=False)
        self.seconds: list[float] = []

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.started = now(pl_module.device)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.seconds.append(now(pl_module.device) - self.started)


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def by_solo(
    method: str, model: FusionModel, data: Dataset, device: str, epochs: int, recorded: bool, ahead: int | None
) -> tuple[Clock, list[float], str]:
    """The solo engine: its clock, the mean loss of each epoch, and why it did not record."""
    clock = Clock()
    fitted = solo.fit(
        METHODS[method](), model, data, lr=3e-4, weight_decay=1e-5, epochs=epochs, batch_size=BATCH, device=device,
        schedule="cosine", clip=1.0, callbacks=[clock], recorded=recorded, read_ahead=ahead, progress=False,
    )  # fmt: skip
    return clock, [row["train_loss"] for row in fitted.history], fitted.not_recorded


class Module(mixin.SynIBMixin, LightningModule):
    """A LightningModule as in the guide, by ``synib_step`` or by ``synib_loss`` with Lightning's own step."""

    def __init__(self, objective: Objective, model: FusionModel, recorded: bool) -> None:
        super().__init__()
        self.automatic_optimization = not recorded
        self.objective, self.model = objective, model
        self.total, self.losses = torch.zeros(()), list[float]()

    def training_step(self, batch: Any, index: int) -> Any:
        arguments = {"x1": batch[0], "x2": batch[1]}, batch[2], self.model
        if self.automatic_optimization:
            loss, _ = self.synib_loss(*arguments)
        else:
            loss, _ = self.synib_step(*arguments)
        self.total = self.total.to(loss.device) + loss.detach()
        return loss if self.automatic_optimization else None

    def on_train_epoch_end(self) -> None:
        self.losses.append(float(self.total) / int(self.trainer.num_training_batches))
        self.total = torch.zeros(())

    def configure_optimizers(self) -> Any:
        lr = torch.tensor(3e-4, device=self.device)
        return torch.optim.Adam(self.model.parameters(), lr=lr, weight_decay=1e-5, fused=True)


def by_module(
    method: str, model: FusionModel, data: Dataset, device: str, epochs: int, recorded: bool
) -> tuple[Clock, list[float], str]:
    """A user's module; the rest as :func:`by_solo`."""
    clock, module = Clock(), Module(METHODS[method](), model, recorded)
    rows = TensorDataset(*(values(data.train.modalities[name]) for name in ("x1", "x2")), data.train.target)
    torch.manual_seed(0)
    order = BatchSampler(RandomSampler(rows), BATCH, drop_last=False)
    trainer = Trainer(
        accelerator="gpu" if device == "cuda" else "cpu", devices=1, max_epochs=epochs, logger=False, callbacks=[clock],
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(rows, batch_size=None, sampler=order, pin_memory=device == "cuda"))
    return clock, module.losses, module.synib_not_recorded if recorded else "recorded=False"


def tapes() -> None:
    """Let a CPU record steps too."""
    solo_step.RECORDERS["cpu"] = lambda device: Tapes()
    start = mixin._Step.__init__

    def begin(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        self.record(Tapes())

    vars(mixin)["_Step"].__init__ = begin


def compared(method: str, how: str, options: argparse.Namespace, device: str) -> dict[str, Any]:
    """A row: milliseconds of a step with and without recording, and the largest difference of an epoch's loss."""
    data = pid_xor(seed=1, train=options.rows, validation=200, test=200)
    per_epoch, found = -(-options.rows // BATCH), {}
    for recorded in (False, True):
        torch.manual_seed(0)
        model = pid_xor_model(data.widths, width=options.width, dropout=0.5, detach_heads=True)
        if how == "module":
            found[recorded] = by_module(method, model, data, device, options.epochs, recorded)
        else:
            ahead = 0 if how == "solo, no worker" else None
            found[recorded] = by_solo(method, model, data, device, options.epochs, recorded, ahead)
    (plain, theirs, _), (clock, ours, why) = found[False], found[True]
    launched, replayed = (1e3 * min(c.seconds[1:]) / per_epoch for c in (plain, clock))
    return {
        "method": method, "how": how, "width": options.width, "launched_ms_per_step": round(launched, 4),
        "recorded_ms_per_step": round(replayed, 4), "ratio": round(launched / replayed, 2),
        "loss": round(ours[-1], 6), "largest_difference_of_loss": max(abs(a - b) for a, b in zip(ours, theirs, strict=True)),
        "not_recorded": why, "steps": per_epoch * options.epochs, "device": device_name(device),
        "torch": torch.__version__, "python": platform.python_version(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*LeafSpec")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    device = choose_device(options.device)
    if device == "cpu":
        tapes()
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    for method in METHODS:
        for how in ("solo", "solo, no worker", "module"):
            row = compared(method, how, options, device)
            rows.append(row)
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            if options.out:
                with open(options.out, "w", newline="") as file:
                    writer = csv.DictWriter(file, list(row), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
