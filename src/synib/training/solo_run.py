"""One training run with Lightning: its Trainer, resumed from a checkpoint if there is one, and the final model."""

import contextlib
import logging
import signal
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

from synib.checks import shown
from synib.data import Dataset
from synib.keys.generators import restored_generators
from synib.methods.hooks import FitsAtEnd
from synib.training import checkpoints
from synib.training.cells import Learner
from synib.training.loop import whole
from synib.training.plan import Plan
from synib.training.solo_measure import Outputs, measured
from synib.training.solo_module import CHECKPOINT, SoloModule
from synib.training.solo_step import obstacle

log = logging.getLogger(__name__)

# What Lightning and DDP warn of, and we know.
KNOWN = (
    r".*isinstance\(treespec, LeafSpec\)",
    ".*available but not used",
    ".*does not have many workers",
    ".*find_unused_parameters=True was specified",
    ".*Checkpoint directory .* exists and is not empty",
    ".*The number of training batches .* is smaller than the logging interval",
    ".*lr_scheduler.step",
    ".*sync_dist=True",  # all devices have measured the same
    ".*_get_pg_default_device",
    ".*Multiple backends are registered with this ProcessGroup",
)


def run(
    own: Learner, data: Dataset, plan: Plan, outputs: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, int | None]:
    """Train a learner, from its checkpoint if there is one; return its module and the best epoch, if monitored."""
    with _quiet():
        strategy = options.get("strategy", "auto")
        folder: Path | None = outputs.get("folder")
        sharded = strategy == "fsdp"
        world = options["devices"] if strategy != "auto" else 1
        config = checkpoints.config(plan, own, data, world, sharded)
        saved, resume = None, None
        if folder is not None and (saved := checkpoints.load(folder / CHECKPOINT)) is not None:
            checkpoints.check_same(saved["synib"]["config"], config, folder)
            resume = str(folder / CHECKPOINT)
        why, recorded = obstacle(data, plan, options), options.get("recorded", True)
        if why and recorded:
            log.info("Steps are not recorded: %s.", why)
        module = SoloModule(own, data, plan, Outputs(**outputs, config=config), sharded, why, recorded)
        trainer = _trainer(plan, module, options, folder)
        cuda = list(range(torch.cuda.device_count())) if options["accelerator"] in ("gpu", "cuda") else []
        own.train()
        with restored_generators(cuda), _interruptible():
            if saved is not None and saved["synib"]["finished"]:
                module.on_load_checkpoint(saved)
            else:
                try:
                    trainer.fit(module, ckpt_path=resume)
                except checkpoints.Diverged:
                    if module.learner is not own:  # what is sharded is a copy
                        checkpoints.put(own, checkpoints.tensors(module.learner))
                    raise
        best_epoch = plan.best(module.measured) if plan.monitored else None
        if module.best is not None:
            checkpoints.put(module.learner, module.best)
        _finish(own, module, data, plan, best_epoch)
    return module, best_epoch


def _finish(own: Learner, module: Any, data: Dataset, plan: Plan, best_epoch: int | None) -> None:
    """Put the final model on the CPU, with what its method fits at the end, and measure it again if that changed."""
    if module.learner is not own:
        checkpoints.put(own, checkpoints.tensors(module.learner))
    own.cpu().eval()
    moved = module.best is not None and best_epoch != len(module.history) - 1
    if not moved and not isinstance(own.method, FitsAtEnd):
        return
    if isinstance(own.method, FitsAtEnd):
        with torch.no_grad():
            own.method.settle(own.model, whole(data.validation))
    metrics = measured(own, data, module.outputs, 4 * plan.batch_size, torch.device("cpu"))
    # Another epoch's weights have a row of their own; what the method fitted belongs to the last epoch.
    last = module.measured[-1] if moved else module.measured.pop()
    module.measured.append({**last, **metrics})


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Prevent Lightning from ending the whole program when a user interrupts the fit."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as e:
        if not isinstance(e.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


class OwnCheckpoint(ModelCheckpoint):
    """The checkpoint callback of synib, with a separate state next to those that a user adds."""

    @property
    def state_key(self) -> str:
        return f"synib-{self.filename}"


class Patience(EarlyStopping):
    """Early stopping that does not stop on weights that the method has just changed."""

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not pl_module.revised:
            super().on_train_epoch_end(trainer, pl_module)


def _trainer(plan: Plan, module: SoloModule, options: Mapping[str, Any], folder: Path | None) -> Trainer:
    """A trainer of one module.

    Args:
        plan: The training plan.
        module: The module to train.
        options: ``accelerator``, ``devices``, ``strategy``, ``loggers``, ``callbacks``, ``progress``, ``log_every``.
        folder: Folder for a checkpoint after every epoch; ``None`` for no checkpoints.
    """
    callbacks = list(options.get("callbacks", ()))
    mode = "min" if "loss" in str(plan.monitor) else "max"
    if plan.patience is not None:
        callbacks.append(
            Patience(
                str(plan.monitor), patience=plan.patience, mode=mode, check_finite=False, check_on_train_epoch_end=True
            )
        )
    if folder is not None:
        stem = Path(CHECKPOINT).stem
        callbacks.append(OwnCheckpoint(folder, stem, save_on_train_epoch_end=True, enable_version_counter=False))
    strategy = options.get("strategy", "auto")
    parallel: Any = "auto"
    if strategy == "ddp":
        parallel = DDPStrategy(
            find_unused_parameters=True
        )  # which heads and encoders a method trains is its own affair
    elif strategy == "fsdp":
        parallel = ModelParallelStrategy(
            data_parallel_size=options["devices"], tensor_parallel_size=1, save_distributed_checkpoint=False
        )
    automatic = module.automatic_optimization
    return Trainer(
        accelerator=options["accelerator"],
        devices=options["devices"],
        strategy=parallel,
        precision=plan.precision,
        max_epochs=plan.epochs,
        min_epochs=0,
        accumulate_grad_batches=plan.accumulate if automatic else 1,
        gradient_clip_val=plan.clip if automatic else None,
        log_every_n_steps=options.get("log_every", 50),
        logger=_loggers(options.get("loggers", ()), folder) or False,
        callbacks=callbacks,
        plugins=[checkpoints.AtomicCheckpoints()],
        enable_progress_bar=options.get("progress", False),
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        enable_model_summary=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )


def _loggers(names: Any, folder: Path | None) -> list[Any]:
    """Lightning loggers by name, or as given."""
    from lightning.pytorch import loggers

    known = ("tensorboard", "wandb", "mlflow")
    chosen: list[Any] = []
    for name in [names] if isinstance(names, str | Logger) else names:
        if isinstance(name, Logger):
            chosen.append(name)
            continue
        if name not in known:
            raise ValueError(
                f"A logger must be {', '.join(map(repr, known))} or a Lightning logger; got {shown(name)}."
            )
        where = str(folder if folder is not None else Path("runs") / "solo")
        try:
            if name == "tensorboard":
                chosen.append(loggers.TensorBoardLogger(where, name=None, version="tensorboard"))
            elif name == "wandb":
                chosen.append(loggers.WandbLogger(save_dir=where))
            else:
                chosen.append(loggers.MLFlowLogger(save_dir=str(Path(where) / "mlflow")))
        except ModuleNotFoundError as e:
            raise ValueError(f"The logger {name!r} needs {name}: pip install {name}.") from e
    return chosen


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Lightning's informational messages; its errors are still shown."""
    chatty = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    before = [(log, log.level) for log in chatty]
    with warnings.catch_warnings():
        for message in KNOWN:
            warnings.filterwarnings("ignore", message=message)
        for log in chatty:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in before:
                log.setLevel(level)
