"""The solo engine: one model of any size on Lightning, with the same methods, masks and draws as the fleet."""

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch

from synib.checks import check_kind, check_whole, shown
from synib.data import Dataset
from synib.methods.hooks import FitsAtEnd, WeighsGradients, needs_trainer
from synib.models import FusionModel
from synib.objective import Objective
from synib.training.cells import Cell
from synib.training.device import Precision, matrix_products
from synib.training.fleet import not_finite
from synib.training.learner import Examining, Learner, Recipe, Watching, learner, prepared
from synib.training.plan import DEFAULTS, MixedPrecision, Plan, Schedule, Select, check_choice

Strategy = Literal["auto", "ddp", "fsdp"]
NEEDED = ("lr", "weight_decay", "epochs", "batch_size")


@dataclass(frozen=True)
class Trained:
    """What training cells one after the other gave, in their order; as :class:`synib.training.fleet.Trained`.

    Args:
        metrics: For each cell, metric → value at the end of training; none for one that failed.
        curves: For each cell, metric → value after each epoch; a cell that stopped early stays where it stopped, one that
            failed has none.
        learners: The trained models with their methods, on the CPU; one that failed as its last good epoch left it.
        failures: Number of a cell that failed → why.
    """

    metrics: list[dict[str, float]]
    curves: list[dict[str, list[float]]]
    learners: list[Learner]
    failures: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """What training one model gave.

    Args:
        metrics: Loss and accuracy on validation data of the model as it was left.
        history: For each epoch what was logged: learning rate, mean losses of its steps, metrics on validation data.
        best_epoch: The epoch of the best monitored metric, counted from 0; ``None`` if none was monitored.
        stopped: Whether training stopped before its last epoch.
    """

    metrics: dict[str, float]
    history: list[dict[str, float]]
    best_epoch: int | None
    stopped: bool


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
    precision: Precision = "float32",
) -> Trained:
    """Train cells one after the other, each on Lightning; without dropout the results are those of the fleet up to rounding.

    Besides what the fleet knows, a cell's settings may have ``accumulate``, ``warmup``, ``schedule``, ``patience``,
    ``monitor``, ``select`` and ``clip``, with the meaning they have for :func:`fit`.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: What to train.
        device: Where to train.
        on_epoch: Called as often as the fleet would: when all cells together have passed one more epoch.
        precision: Of matrix products in training: full, or on CUDA TensorFloat-32 or bfloat16 autocast. Evaluation is
            always in full precision.
    """
    from synib.training.checkpoints import Diverged
    from synib.training.solo_measure import accuracies_of

    device, passed = torch.device(device), 0
    results = Trained([], [], [])

    def pass_epoch(epoch: int) -> None:
        nonlocal passed
        passed += 1
        if passed % len(cells) == 0:
            on_epoch()

    for i, cell in enumerate(cells):
        plan = plan_of(cell, precision)
        data = recipe.data(cell)
        own = learner(recipe, cell, data, keyed_dropout=False)
        watching = recipe if isinstance(recipe, Watching) and recipe.curves else None
        wanted = {"train": True, "curves": recipe.curves, "watching": watching, "on_epoch": pass_epoch}
        options = {"accelerator": device.type, "devices": [device.index or 0] if device.type == "cuda" else 1}
        results.learners.append(own)
        try:
            with matrix_products("tf32" if precision == "tf32" else "float32", device):
                module, _ = _run(own, data, plan, wanted, options)
        except Diverged as e:
            results.failures[i] = not_finite(cell, e.good)
            results.metrics.append({})
            results.curves.append({})
            continue
        final = dict(module.measured[-1])
        if data.test is not None:
            with torch.no_grad():
                final |= accuracies_of(own, data.test, "test", 4 * plan.batch_size, torch.device("cpu"))
        final = {k: v for k, v in final.items() if not k.endswith("_loss")}
        metrics = {k: v for k, v in final.items() if "accuracy_" not in k or k.startswith("test_")}
        if isinstance(recipe, Examining):
            metrics |= recipe.examine(cell, own.eval(), data)
        results.metrics.append(metrics)
        after = [
            {k: v for k, v in m.items() if not k.endswith("_loss")} for m in module.measured[: len(module.history)]
        ]
        after += after[-1:] * (plan.epochs - len(after))
        results.curves.append({name: [m[name] for m in after] for name in after[0]} if recipe.curves else {})
    return results


def fit(
    method: Objective,
    model: FusionModel,
    data: Dataset,
    *,
    lr: float,
    weight_decay: float = 0.0,
    epochs: int,
    batch_size: int,
    seed: int = 0,
    precision: MixedPrecision = "32-true",
    accumulate: int = 1,
    warmup: int = 0,
    schedule: Schedule = "constant",
    clip: float | None = None,
    patience: int | None = None,
    monitor: str | None = None,
    select: Select = "last",
    folder: Path | str | None = None,
    device: str = "auto",
    devices: int = 1,
    strategy: Strategy = "auto",
    loggers: Sequence[Any] = (),
    callbacks: Sequence[Any] = (),
    log_every: int = 50,
    progress: bool | None = None,
    read_ahead: int | None = None,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> Fitted:
    """Train one model in place, with any method; it ends on the CPU and in evaluation mode.

    The same seed draws the same batches, masks and noise here, in :func:`synib.training.loop.fit` and in the fleet. Dropout
    draws from torch's generators, which every step seeds. Test data are not looked at.

    Args:
        method: How a step learns.
        model: What learns. The method may add modules of its own made from it (:class:`~synib.methods.hooks.AddsModules`).
        data: Training data, which may be memory-mapped; validation data to measure after every epoch.
        lr, weight_decay: Of Adam.
        epochs: Passes over the training data, at most.
        batch_size: Examples that one update learns from, whatever ``accumulate`` and ``devices`` are.
        seed: Decides every draw, also those from torch's generators.
        precision: ``"32-true"``, ``"bf16-mixed"``, or on CUDA ``"16-mixed"``, of training; evaluation is in full precision.
        accumulate: Pieces into which each device cuts its part of a batch, to need less memory.
        warmup: Steps in which the learning rate rises to ``lr``.
        schedule: Then ``"constant"``, or ``"cosine"`` down to 0 at the last step.
        clip: The largest norm of a gradient.
        patience: Stop after so many epochs without a better ``monitor``.
        monitor: A metric on validation data, ``"validation_accuracy"`` (of a group: ``"validation_accuracy_<group>"``) or
            ``"validation_loss"``; by default the first where classes are predicted.
        select: Leave the model of the ``"last"`` epoch, or of the ``"best"`` by ``monitor``.
        folder: For ``checkpoint.ckpt`` after every epoch, the one before it, and ``metrics.csv``. A training that was stopped
            goes on from its last finished epoch and ends with the same weights, bit for bit.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        devices: How many.
        strategy: ``"ddp"`` for a copy of the model on each device, ``"fsdp"`` for parameters spread over them.
        loggers: ``"tensorboard"``, ``"wandb"``, ``"mlflow"``, or loggers of Lightning, besides ``metrics.csv``.
        callbacks: Callbacks of Lightning, such as a ``ModelCheckpoint`` of your own.
        log_every: Steps between entries of losses in the loggers.
        progress: Whether to show a progress bar; by default on a terminal.
        read_ahead: How many pieces of batches a worker reads ahead; by default 2 on CUDA, and none on a CPU.
        on_epoch: Called after each epoch with its number, counted from 0.

    Example:
        >>> import synib
        >>> from synib.studies.spurious_xor.data import spurious_xor
        >>> from synib.training.solo import fit
        >>> data = spurious_xor(beta=0.0, train=100, test=200)
        >>> model = synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[])
        >>> method = synib.SynIB(synib.RandomMask(0.4), family=synib.Bernoulli(), weight=1.0)
        >>> fitted = fit(method, model, data, lr=1e-2, epochs=2, batch_size=50, warmup=2, schedule="cosine", device="cpu")
        >>> [row["epoch"] for row in fitted.history]
        [1, 2]
    """
    check_kind("method", method, Objective, "SynIB()")
    check_kind("data", data, Dataset, "spurious_xor()")
    if monitor is None and (patience is not None or select == "best"):
        monitor = "validation_accuracy" if method.family.discrete else "validation_loss"
    plan = Plan(lr, weight_decay, epochs, batch_size, seed, precision, accumulate, warmup, schedule, patience, monitor, select,
                clip)  # fmt: skip
    check_choice("strategy", strategy, Strategy)
    for name, value in (("devices", devices), ("log_every", log_every)):
        check_whole(name, value)
    device = _device(device, precision)
    if devices > 1 and strategy == "auto":
        strategy = "ddp"
    _check_method(method, strategy, precision)
    if batch_size < accumulate * devices:
        raise ValueError(
            f"A batch of {batch_size} cannot be cut into {accumulate} pieces on each of {devices} devices: take a larger "
            "batch_size."
        )
    ahead = check_whole("read_ahead", read_ahead, 0) if read_ahead is not None else 2 * (device == "cuda")
    wanted = {"folder": _folder(folder), "ahead": ahead, "on_epoch": on_epoch}
    options = {
        "accelerator": "gpu" if device == "cuda" else "cpu",
        "devices": devices,
        "strategy": strategy,
        "loggers": loggers,
        "callbacks": callbacks,
        "progress": sys.stdout.isatty() if progress is None else progress,
        "log_every": log_every,
    }
    module, best_epoch = _run(prepared(method, model, data), data, plan, wanted, options)
    return Fitted(module.measured[-1], module.history, best_epoch, len(module.history) < epochs)


def plan_of(cell: Cell, precision: Precision = "float32") -> Plan:
    """How a cell is trained."""
    missing = [name for name in NEEDED if name not in cell.settings]
    if missing:
        raise ValueError(f"A cell's settings need {', '.join(missing)}; it has {', '.join(cell.settings) or 'none'}.")
    chosen = {name: cell.settings.get(name, default) for name, default in DEFAULTS.items()}
    chosen["monitor"] = chosen["monitor"] or "validation_accuracy"
    mixed: MixedPrecision = "bf16-mixed" if precision == "bf16" else "32-true"
    return Plan(**{name: cell.settings[name] for name in NEEDED}, seed=cell.seed, precision=mixed, **chosen)


def _run(
    own: Learner, data: Dataset, plan: Plan, wanted: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, int | None]:
    """Train a learner, from its checkpoint if there is one; returns its module and the best epoch, if one was monitored."""
    trainers = _lightning()
    _check_monitor(own, data, plan)
    with trainers.quiet(), tempfile.TemporaryDirectory() as temporary:
        strategy = options.get("strategy", "auto")
        folder, sharded = wanted.get("folder"), strategy == "fsdp"
        world = options["devices"] if strategy != "auto" else 1
        config = trainers.checkpoints.config(plan, own, data, world, sharded)
        saved = trainers.checkpoints.load(folder / trainers.CHECKPOINT) if folder is not None else None
        if saved is not None:
            trainers.checkpoints.check_same(saved["synib"]["config"], config, folder)
        made = trainers.Wanted(**wanted, config=config)
        module = trainers.SoloModule(own, data, plan, made, sharded)
        kept = folder if folder is not None else Path(temporary)
        trainer, best = trainers.trainer(
            plan, module, options, folder, kept, trainers.loggers_of(options.get("loggers", ()), folder)
        )
        finished = saved is not None and len(saved["synib"]["history"]) and saved.get("epoch", 0) + 1 >= plan.epochs
        resume = str(folder / trainers.CHECKPOINT) if saved is not None else None
        cuda = list(range(torch.cuda.device_count())) if options["accelerator"] in ("gpu", "cuda") else []
        own.train()
        with torch.random.fork_rng(devices=cuda), _interruptible():
            if finished:
                module.on_load_checkpoint(saved)
            else:
                trainer.fit(module, ckpt_path=resume)
        best_epoch = None
        if best is not None and best.best_model_path:
            content = cast(dict[str, Any], trainers.checkpoints.load(Path(best.best_model_path)))
            best_epoch = content["epoch"]
            if plan.select == "best":
                trainers.checkpoints.put(module.learner, content["synib"]["tensors"])
        elif plan.monitored:
            best_epoch = _best(module.measured, plan)
        _finish(own, module, data, plan, best_epoch)
    return module, best_epoch


def _finish(own: Learner, module: Any, data: Dataset, plan: Plan, best_epoch: int | None) -> None:
    """Leave the model on the CPU as it is to be, with what its method fits at the end, and measure what that changed."""
    from synib.training.checkpoints import put, tensors
    from synib.training.loop import whole
    from synib.training.solo_measure import accuracies_of

    if module.learner is not own:
        put(own, tensors(module.learner))
    own.cpu().eval()
    moved = plan.select == "best" and best_epoch != len(module.history) - 1
    if not moved and not isinstance(own.method, FitsAtEnd):
        return
    with torch.no_grad():
        if isinstance(own.method, FitsAtEnd):
            own.method.settle(own.model, whole(data.validation))
        found: dict[str, float] = {}
        parts = {"train": data.train} if module.wanted.train else {}
        for name, split in {**parts, "validation": data.validation}.items():
            found |= accuracies_of(own, split, name, 4 * plan.batch_size, torch.device("cpu"))
    module.measured.append({**module.measured[-1], **found})


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


def _check_method(method: Objective, strategy: str, precision: str) -> None:
    if strategy == "fsdp" and (more := needs_trainer(method)):
        raise ValueError(
            f"strategy='fsdp' trains methods that are all in their loss; {type(method).__name__} also {more}: use "
            "strategy='ddp'."
        )
    if precision == "16-mixed" and (strategy == "fsdp" or isinstance(method, WeighsGradients)):
        who = "strategy='fsdp'" if strategy == "fsdp" else f"{type(method).__name__}, which weighs gradients,"
        raise ValueError(f"{who} takes precision '32-true' or 'bf16-mixed'; got '16-mixed'.")


def _check_monitor(own: Learner, data: Dataset, plan: Plan) -> None:
    known = ["validation_loss"]
    if own.method.family.discrete:
        known += ["validation_accuracy", *(f"validation_accuracy_{group}" for group in data.validation.groups)]
    if plan.monitored and plan.monitor not in known:
        raise ValueError(f"monitor is one of {', '.join(known)}; got {plan.monitor!r}.")


def _device(device: str, precision: str) -> str:
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device is 'auto', 'cpu' or 'cuda'; got {shown(device)}.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' was asked for, but torch finds no CUDA device here; use device='cpu'.")
    if precision == "16-mixed" and device == "cpu":
        raise ValueError("precision '16-mixed' is for CUDA devices; on a CPU use 'bf16-mixed' or '32-true'.")
    return device


def _folder(folder: Path | str | None) -> Path | None:
    if folder is None:
        return None
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ValueError(f"Cannot make the folder {path}: {e.strerror}; choose another.") from e
    if not os.access(path, os.W_OK):
        raise ValueError(f"Cannot write to the folder {path}; choose another.")
    if (path / "metrics.csv").exists() and not (path / "checkpoint.ckpt").exists():
        raise ValueError(f"{path} holds a metrics.csv and no checkpoint of ours; choose another folder.")
    return path


def _lightning() -> Any:
    try:
        from synib.training import solo_trainer
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("lightning"):
            raise
        raise ValueError('The solo engine needs Lightning: pip install "synib[solo]".') from e
    return solo_trainer
