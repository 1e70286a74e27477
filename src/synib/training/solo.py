"""The solo engine: one model of any size on Lightning, with the same methods, masks and draws as the fleet."""

import contextlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from synib.checks import check_kind, check_whole, shown
from synib.data import Dataset
from synib.models import FusionModel
from synib.objective import Objective
from synib.tokens import take
from synib.training.cells import Cell
from synib.training.device import Precision, matrix_products
from synib.training.fleet import not_finite
from synib.training.learner import Examining, Learner, Recipe, Watching, learner
from synib.training.solo_plan import DEFAULTS, MixedPrecision, Place, Plan, Schedule, Select, Wanted, check_choice
from synib.training.solo_state import Diverged, Progress, config, identity, load, progress_of, put

Strategy = Literal["auto", "ddp", "fsdp"]
# What Lightning warns of and we know: its use of torch's trees, and devices that were not asked for.
NOISE = (r".*isinstance\(treespec, LeafSpec\)", ".*available but not used")
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
    """Train cells one after the other, each on Lightning; the results are those of the fleet up to rounding.

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
    device, passed = torch.device(device), 0
    made = Trained([], [], [])

    def pass_epoch(epoch: int) -> None:
        nonlocal passed
        passed += 1
        if passed % len(cells) == 0:
            on_epoch()

    for i, cell in enumerate(cells):
        plan = plan_of(cell, precision)
        data = recipe.data(cell)
        own = learner(recipe, cell, data)
        place = {"products": lambda: matrix_products(precision if precision == "tf32" else "float32", device)}
        wanted: dict[str, Any] = {"train": True, "curves": recipe.curves, "test": True}
        if isinstance(recipe, Watching) and recipe.curves:
            wanted["watching"] = recipe
        where = {"accelerator": device.type, "devices": [device.index or 0] if device.type == "cuda" else 1}
        made.learners.append(own)
        try:
            progress = _run(own, data, plan, {**place, "on_epoch": pass_epoch}, wanted, where)
        except Diverged as e:
            made.failures[i] = not_finite(cell, e.good)
            made.metrics.append({})
            made.curves.append({})
            continue
        keep = [{k: v for k, v in m.items() if not k.endswith("_loss")} for m in progress.measured]
        final = {k: v for k, v in progress.metrics.items() if not k.endswith("_loss")}
        metrics = {k: v for k, v in final.items() if "accuracy_" not in k or k.startswith("test_")}
        if isinstance(recipe, Examining):
            metrics |= recipe.examine(cell, own.eval(), data)
        made.metrics.append(metrics)
        keep += keep[-1:] * (plan.epochs - len(keep))
        made.curves.append({name: [m[name] for m in keep] for name in keep[0]} if recipe.curves else {})
    return made


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
    checkpoint_every: int | None = None,
    device: str = "auto",
    devices: int = 1,
    strategy: Strategy = "auto",
    loggers: Sequence[Any] = (),
    log_every: int = 50,
    progress: bool | None = None,
    read_ahead: int | None = None,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> Fitted:
    """Train one model in place, with any method; it ends on the CPU and in evaluation mode.

    The same seed draws the same batches, masks and noise here, in :func:`synib.training.loop.fit` and in the fleet. Test data
    are not looked at.

    Args:
        method: How a step learns.
        model: What learns. The method may add modules of its own made from it (:meth:`Objective.attach`).
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
        folder: For ``checkpoint.pt``, the one before it, and ``metrics.csv``. A training that was stopped goes on from there
            and ends with the same weights, bit for bit; where the checkpoint is damaged, from the one before.
        checkpoint_every: Write a checkpoint after so many steps too, and not only after every epoch.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        devices: How many.
        strategy: ``"ddp"`` for a copy of the model on each device, ``"fsdp"`` for parameters spread over them.
        loggers: ``"tensorboard"``, ``"wandb"``, ``"mlflow"``, or loggers of Lightning, besides ``metrics.csv``.
        log_every: Steps between entries of losses in these.
        progress: Whether to show a progress bar; by default on a terminal.
        read_ahead: How many pieces of batches a thread reads ahead; by default 2 on CUDA, and none on a CPU.
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
    if checkpoint_every is not None:
        check_whole("checkpoint_every", checkpoint_every)
    device = _device(device, precision)
    if devices > 1 and strategy == "auto":
        strategy = "ddp"
    if strategy == "fsdp":
        _check_sharded(method, precision)
    if batch_size < accumulate * devices:
        raise ValueError(
            f"A batch of {batch_size} cannot be cut into {accumulate} pieces on each of {devices} devices: take a larger "
            "batch_size."
        )
    ahead = check_whole("read_ahead", read_ahead, 0) if read_ahead is not None else 2 * (device == "cuda")
    path = _folder(folder)
    place = {
        "folder": path,
        "checkpoint_every": checkpoint_every,
        "log_every": log_every,
        "ahead": ahead,
        "sharded": strategy == "fsdp",
        "on_epoch": on_epoch,
    }
    where = {
        "accelerator": "gpu" if device == "cuda" else "cpu",
        "devices": devices,
        "strategy": strategy,
        "loggers": loggers,
        "progress": sys.stdout.isatty() if progress is None else progress,
    }
    method.prepare(model, {name: take(x, slice(0, 2)) for name, x in data.train.modalities.items()})
    method.attach(model)
    done = _run(Learner(model, method), data, plan, place, {}, where)
    return Fitted(done.metrics, done.history, done.best_epoch, len(done.history) < epochs)


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
    own: Learner, data: Dataset, plan: Plan, place: dict[str, Any], wanted: dict[str, Any], where: dict[str, Any]
) -> Progress:
    """Train a learner, from its checkpoint if there is one; returns where training stands at its end."""
    module = _lightning()
    from lightning.pytorch import Trainer

    from synib.training.solo_parallel import strategy_of

    with _quiet():
        made = Place(**place, identity=identity(own, data))
        folder = made.folder
        saved = load(folder / module.CHECKPOINT) if folder is not None else None
        if folder is not None and saved is not None:
            world = where["devices"] if where.get("strategy", "auto") != "auto" else 1
            _check_same(saved["config"], config(plan, data, world, made), folder)
            if progress_of(saved).finished:
                put(own, saved["tensors"])
                own.eval()
                return progress_of(saved)
        solo = module.Solo(own, data, plan, made, Wanted(**wanted), saved)
        own.train()
        trainer = Trainer(
            accelerator=where["accelerator"],
            devices=where["devices"],
            strategy=strategy_of(where.get("strategy", "auto"), where["devices"]),
            max_epochs=plan.epochs - solo.progress.epoch,
            min_epochs=0,
            log_every_n_steps=1,
            logger=_loggers(where.get("loggers", ()), folder) or False,
            enable_progress_bar=where.get("progress", False),
            enable_checkpointing=False,
            enable_model_summary=False,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )
        cuda = list(range(torch.cuda.device_count())) if where["accelerator"] in ("gpu", "cuda") else []
        with torch.random.fork_rng(devices=cuda):
            _fit(trainer, solo)
        own.eval()
        return solo.progress


def _fit(trainer: Any, solo: Any) -> None:
    """Lightning's fit, which would end the whole program where a user only interrupts it."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(solo)
    except SystemExit as e:
        if not isinstance(e.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


def _check_sharded(method: Objective, precision: str) -> None:
    hooks = ("losses", "direction", "trains", "revises")
    more = [hook for hook in hooks if getattr(type(method), hook) is not getattr(Objective, hook)]
    if more:
        raise ValueError(
            f"strategy='fsdp' trains methods that say everything in their loss; {type(method).__name__} also has {more[0]}: "
            "use strategy='ddp'."
        )
    if precision == "16-mixed":
        raise ValueError("strategy='fsdp' takes precision '32-true' or 'bf16-mixed'; got '16-mixed'.")


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
    if (path / "metrics.csv").exists() and not (path / "checkpoint.pt").exists():
        raise ValueError(f"{path} holds a metrics.csv and no checkpoint of ours; choose another folder.")
    return path


def _check_same(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    other = [name for name in now if before.get(name) != now[name]]
    if other:
        changed = ", ".join(f"{name} {before.get(name)!r} there, {now[name]!r} now" for name in other)
        raise ValueError(
            f"{folder} holds a training with other settings ({changed}); nothing was touched: choose another folder."
        )


def _loggers(names: Sequence[Any], folder: Path | None) -> list[Any]:
    from lightning.pytorch import loggers
    from lightning.pytorch.loggers import Logger

    known = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
    made: list[Any] = []
    for name in [names] if isinstance(names, str | Logger) else names:
        if isinstance(name, Logger):
            made.append(name)
            continue
        if name not in known:
            raise ValueError(f"A logger is {', '.join(map(repr, known))} or one of Lightning's; got {shown(name)}.")
        where = str(folder if folder is not None else Path("runs") / "solo")
        try:
            if name == "tensorboard":
                made.append(loggers.TensorBoardLogger(where, name=None, version="tensorboard"))
            elif name == "wandb":
                made.append(loggers.WandbLogger(save_dir=where))
            else:
                made.append(loggers.MLFlowLogger(save_dir=str(Path(where) / "mlflow")))
        except ModuleNotFoundError as e:
            raise ValueError(f"The logger {name!r} needs {known[name]}: pip install {known[name]}.") from e
    return made


def _lightning() -> Any:
    try:
        from synib.training import solo_module
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("lightning"):
            raise
        raise ValueError('The solo engine needs Lightning: pip install "synib[solo]".') from e
    return solo_module


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what Lightning says about itself; what it says about mistakes still comes through."""
    chatty = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    before = [(log, log.level) for log in chatty]
    with warnings.catch_warnings():
        for said in NOISE:
            warnings.filterwarnings("ignore", message=said)
        for log in chatty:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in before:
                log.setLevel(level)
