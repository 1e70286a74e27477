"""One training on Lightning: resumed from its checkpoint where there is one, and left as it is to be."""

import contextlib
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from synib.data import Dataset
from synib.methods.hooks import FitsAtEnd
from synib.training import checkpoints
from synib.training.learner import Learner
from synib.training.loop import whole
from synib.training.plan import Plan
from synib.training.solo_measure import accuracies_of, watched
from synib.training.solo_module import BEST, CHECKPOINT, Outputs, SoloModule
from synib.training.solo_trainer import loggers_of, quiet
from synib.training.solo_trainer import trainer as trainer_of


def run(
    own: Learner, data: Dataset, plan: Plan, outputs: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, int | None]:
    """Train a learner, from its checkpoint if there is one; returns its module and the best epoch, if one was monitored."""
    with quiet(), tempfile.TemporaryDirectory() as temporary:
        strategy = options.get("strategy", "auto")
        folder: Path | None = outputs.get("folder")
        sharded = strategy == "fsdp"
        world = options["devices"] if strategy != "auto" else 1
        config = checkpoints.config(plan, own, data, world, sharded)
        saved, resume = None, None
        if folder is not None and (saved := checkpoints.load(folder / CHECKPOINT)) is not None:
            checkpoints.check_same(saved["synib"]["config"], config, folder)
            resume = str(folder / CHECKPOINT)
        made = Outputs(**outputs, config=config)
        module = SoloModule(own, data, plan, made, sharded)
        kept = folder if folder is not None else Path(temporary)
        loggers = loggers_of(options.get("loggers", ()), folder)
        trainer, best = trainer_of(plan, module, options, folder, kept, loggers)
        cuda = list(range(torch.cuda.device_count())) if options["accelerator"] in ("gpu", "cuda") else []
        own.train()
        with torch.random.fork_rng(devices=cuda), _interruptible():
            if saved is not None and saved["synib"]["finished"]:
                module.on_load_checkpoint(saved)
            else:
                try:
                    trainer.fit(module, ckpt_path=resume)
                except checkpoints.Diverged:
                    if module.learner is not own:  # what is sharded is a copy
                        checkpoints.put(own, checkpoints.tensors(module.learner))
                    raise
        best_epoch = None
        if best is not None and (content := checkpoints.load(kept / BEST)) is not None:
            best_epoch = content["epoch"]
            checkpoints.put(module.learner, content["synib"]["tensors"])
        elif plan.monitored:
            best_epoch = _best(module.measured, plan)
        _finish(own, module, data, plan, best_epoch)
    return module, best_epoch


def _finish(own: Learner, module: Any, data: Dataset, plan: Plan, best_epoch: int | None) -> None:
    """Leave the model on the CPU as it is to be, with what its method fits at the end, and measure what that changed."""
    if module.learner is not own:
        checkpoints.put(own, checkpoints.tensors(module.learner))
    own.cpu().eval()
    moved = plan.select == "best" and best_epoch != len(module.history) - 1
    if not moved and not isinstance(own.method, FitsAtEnd):
        return
    with torch.no_grad():
        if isinstance(own.method, FitsAtEnd):
            own.method.settle(own.model, whole(data.validation))
        found: dict[str, float] = {}
        parts = {"train": data.train} if module.outputs.train else {}
        for name, split in {**parts, "validation": data.validation}.items():
            found |= accuracies_of(own, split, name, 4 * plan.batch_size, torch.device("cpu"))
        if module.outputs.watching is not None:
            found |= watched(module.outputs.watching, own, data, torch.device("cpu"))
    # Another epoch's weights have a row of their own; what the method fitted belongs to the last epoch.
    last = module.measured[-1] if moved else module.measured.pop()
    module.measured.append({**last, **found})


def _best(measured: Sequence[dict[str, float]], plan: Plan) -> int | None:
    values = [m[str(plan.monitor)] for m in measured]
    sign = 1 if "loss" in str(plan.monitor) else -1
    known = [i for i, value in enumerate(values) if value == value]
    return min(known, key=lambda i: sign * values[i]) if known else None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Lightning would end the whole program where a user only interrupts its fit."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as e:
        if not isinstance(e.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None
