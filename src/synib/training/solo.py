"""The solo engine: one model of any size on Lightning, with the same methods, masks and draws as the fleet."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from synib.checks import check_choice, check_flag, check_kind, check_whole
from synib.data import Dataset
from synib.files import check_writable
from synib.methods.hooks import RevisesWeights, TrainsInStages, WeighsGradients, needs_trainer
from synib.models import FusionModel
from synib.objective import Objective
from synib.tokens import values
from synib.training.cells import NEEDED, Cell, Examining, Learner, Recipe, Watching, check_settings, learner, prepared
from synib.training.device import Precision, choose_device, matrix_products
from synib.training.fleet import not_finite
from synib.training.plan import DEFAULTS, MixedPrecision, Plan, Schedule, Select
from synib.training.solo_measure import accuracies_of

Strategy = Literal["auto", "ddp", "fsdp"]
READ_AHEAD = 1 << 20  # bytes of a batch from which on a worker reads ahead (benchmarks/lightning_recorded.py: 30 kB)


@dataclass(frozen=True)
class Trained:
    """The result of training cells one after the other, in their order; as :class:`synib.training.fleet.Trained`.

    Args:
        metrics: For each cell, metric → value after training; empty for a failed cell.
        curves: For each cell, metric → value after each epoch; constant after early stopping, empty for a failed cell.
        learners: The trained models with their methods, on the CPU; a failed one in its last finite state.
        failures: Index of a failed cell → reason.
    """

    metrics: list[dict[str, float]]
    curves: list[dict[str, list[float]]]
    learners: list[Learner]
    failures: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """The result of training one model.

    Args:
        metrics: Loss and accuracy of the final model on validation data.
        history: The logged values of each epoch: learning rate, mean losses of its steps, metrics on validation data.
        best_epoch: The epoch of the best monitored metric, counted from 0; ``None`` if no metric was monitored.
        stopped: Whether training stopped before its last epoch.
        not_recorded: Why steps were not replayed as CUDA graphs; empty if they were.
    """

    metrics: dict[str, float]
    history: list[dict[str, float]]
    best_epoch: int | None
    stopped: bool
    not_recorded: str = ""


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
    precision: Precision = "float32",
) -> Trained:
    """Train cells one after the other with Lightning; without dropout the results equal those of the fleet up to rounding.

    Besides the settings of the fleet, a cell may have ``accumulate``, ``warmup``, ``schedule``, ``patience``,
    ``monitor``, ``select`` and ``clip``, as in :func:`fit`.

    Args:
        recipe: Provides each cell's data, model and method.
        cells: The cells to train.
        device: Device to train on.
        on_epoch: Called as often as by the fleet: each time all cells together have completed another epoch.
        precision: Precision of matrix products in training: full, or on CUDA TensorFloat-32 or bfloat16 autocast.
            Evaluation is always in full precision.
    """
    run = _lightning()
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
        outputs = {"train": True, "curves": recipe.curves, "watching": watching, "on_epoch": pass_epoch}
        options = {"accelerator": device.type, "devices": [device.index or 0] if device.type == "cuda" else 1}
        results.learners.append(own)
        _check_monitor(own, data, plan)
        try:
            with matrix_products("tf32" if precision == "tf32" else "float32", device):
                module, _ = run.run(own, data, plan, outputs, options)
        except run.checkpoints.Diverged as e:
            results.failures[i] = not_finite(cell, e.good)
            results.metrics.append({})
            results.curves.append({})
            continue
        after = [{k: v for k, v in m.items() if not k.endswith("_loss")} for m in module.measured]
        final = after[-1]
        if data.test is not None:
            with torch.no_grad():
                final = final | accuracies_of(own, data.test, "test", 4 * plan.batch_size, torch.device("cpu"))
        metrics = {k: v for k, v in final.items() if "accuracy_" not in k or k.startswith("test_")}
        metrics.pop("test_loss", None)
        if isinstance(recipe, Examining):
            metrics |= recipe.examine(cell, own.eval(), data)
        results.metrics.append(metrics)
        after = after[: len(module.history)]
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
    recorded: bool = True,
    on_epoch: Callable[[int], None] = lambda epoch: None,
) -> Fitted:
    """Train one model in place, with any method; the model ends on the CPU in evaluation mode.

    The same seed draws the same batches, masks and noise here, in :func:`synib.training.loop.fit` and in the fleet.
    Dropout draws from torch's generators, which every step seeds. Test data are not used.

    Args:
        method: The training method.
        model: The model to train. The method may add modules made from its parts
            (:class:`~synib.methods.hooks.AddsModules`).
        data: Training data, which may be memory-mapped; validation data, measured after every epoch.
        lr, weight_decay: Settings of Adam.
        epochs: Maximum number of passes over the training data.
        batch_size: Number of examples per update, for any ``accumulate`` and ``devices``.
        seed: Determines all random draws, including those from torch's generators.
        precision: Training precision, ``"32-true"``, ``"bf16-mixed"``, or on CUDA ``"16-mixed"``; evaluation is in full
            precision.
        accumulate: Number of micro-batches into which each device splits its part of a batch, to save memory.
        warmup: Number of steps in which the learning rate rises to ``lr``.
        schedule: Learning rate after the warmup: ``"constant"``, or ``"cosine"`` down to 0 at the last step.
        clip: Maximum norm of the gradient.
        patience: Stop after so many epochs without improvement of ``monitor``.
        monitor: A metric on validation data, ``"validation_accuracy"`` (for a group ``"validation_accuracy_<group>"``)
            or ``"validation_loss"``; the first by default for class targets.
        select: Return the model of the ``"last"`` epoch, or of the ``"best"`` epoch by ``monitor``.
        folder: Folder for ``checkpoint.ckpt`` after every epoch, the previous checkpoint, and ``metrics.csv``. An
            interrupted run resumes from its last finished epoch and ends with bit-identical weights.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        devices: Number of devices.
        strategy: ``"ddp"`` for a replica of the model on each device, ``"fsdp"`` to shard parameters over devices.
        loggers: ``"tensorboard"``, ``"wandb"``, ``"mlflow"``, or Lightning loggers, in addition to ``metrics.csv``.
        callbacks: Lightning callbacks, such as a ``ModelCheckpoint``.
        log_every: Number of steps between logged losses.
        progress: Whether to show a progress bar; by default on a terminal.
        read_ahead: Number of micro-batches that a worker prefetches; by default 2 on CUDA for batches of a megabyte or
            more (handing over smaller ones takes longer than reading them), and none on a CPU.
        recorded: Whether a GPU replays steps as CUDA graphs (:func:`synib.recorded`), with the same results: in 32-bit
            precision on one device, without ``accumulate``, and with no callbacks besides checkpoints, early stopping
            and progress. ``not_recorded`` of the result says why it did not.
        on_epoch: Called after each epoch with its index, counted from 0.

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
    device = choose_device(check_choice("device", device, ("auto", "cpu", "cuda")))
    if precision == "16-mixed" and device == "cpu":
        raise ValueError("precision '16-mixed' is for CUDA devices; on a CPU use 'bf16-mixed' or '32-true'.")
    if devices > 1 and strategy == "auto":
        strategy = "ddp"
    _check_method(method, strategy, precision)
    if batch_size < accumulate * devices:
        raise ValueError(
            f"A batch of {batch_size} cannot be split into {accumulate} parts on each of {devices} devices: "
            "use a larger batch_size."
        )
    if read_ahead is None:
        read_ahead = 2 if device == "cuda" and batch_size * _bytes_of_example(data) >= READ_AHEAD else 0
    ahead = check_whole("read_ahead", read_ahead, 0)
    outputs = {"folder": _checked_folder(folder), "ahead": ahead, "on_epoch": on_epoch}
    options = {
        "accelerator": "gpu" if device == "cuda" else "cpu",
        "devices": devices,
        "strategy": strategy,
        "loggers": loggers,
        "callbacks": callbacks,
        "progress": sys.stdout.isatty() if progress is None else progress,
        "log_every": log_every,
        "recorded": check_flag("recorded", recorded),
    }
    own = prepared(method, model, data)
    _check_monitor(own, data, plan)
    module, best_epoch = _lightning().run(own, data, plan, outputs, options)
    return Fitted(module.measured[-1], module.history, best_epoch, len(module.history) < epochs, module.not_recorded)


def _bytes_of_example(data: Dataset) -> int:
    modalities = [values(x) for x in data.train.modalities.values()]
    return sum(x.shape[1:].numel() * x.element_size() for x in modalities)


def train_learner(
    own: Learner, data: Dataset, plan: Plan, device: str = "cpu", on_epoch: Callable[[int], None] = lambda epoch: None
) -> None:
    """Train a learner that has all its modules, in place, from the weights that it has; it ends on the CPU.

    Args:
        own: The model and its method.
        data: Training data; validation data to measure at the end.
        plan: How to train.
        device: ``"cpu"`` or ``"cuda"``.
        on_epoch: Called after each epoch with its number, counted from 0.
    """
    run = _lightning()
    outputs = {"curves": False, "on_epoch": on_epoch}
    options = {
        "accelerator": "gpu" if device == "cuda" else "cpu",
        "devices": 1,
        "recorded": False,
    }  # of large encoders
    run.run(own, data, plan, outputs, options)


def plan_of(cell: Cell, precision: Precision = "float32") -> Plan:
    """The training plan of a cell."""
    check_settings(cell)
    chosen = {name: cell.settings.get(name, default) for name, default in DEFAULTS.items()}
    chosen["monitor"] = chosen["monitor"] or "validation_accuracy"
    mixed: MixedPrecision = "bf16-mixed" if precision == "bf16" else "32-true"
    return Plan(**{name: cell.settings[name] for name in NEEDED}, seed=cell.seed, precision=mixed, **chosen)


def _check_method(method: Objective, strategy: str, precision: str) -> None:
    """Raise ``ValueError`` for methods that a strategy or a precision cannot train."""
    if strategy == "fsdp" and isinstance(method, WeighsGradients | TrainsInStages | RevisesWeights):
        raise ValueError(
            f"strategy='fsdp' supports methods with a single loss; {type(method).__name__} "
            f"{needs_trainer(method)}: use strategy='ddp'."
        )
    if precision == "16-mixed" and (strategy == "fsdp" or isinstance(method, WeighsGradients)):
        who = "strategy='fsdp'" if strategy == "fsdp" else f"{type(method).__name__}, which weighs gradients,"
        raise ValueError(f"{who} supports precision '32-true' or 'bf16-mixed'; got '16-mixed'.")


def _check_monitor(own: Learner, data: Dataset, plan: Plan) -> None:
    """Raise ``ValueError`` for a metric that is not measured."""
    known = ["validation_loss"]
    if own.method.family.discrete:
        known += ["validation_accuracy", *(f"validation_accuracy_{group}" for group in data.validation.groups)]
    if plan.monitored and plan.monitor not in known:
        raise ValueError(f"monitor must be one of {', '.join(known)}; got {plan.monitor!r}.")


def _checked_folder(folder: Path | str | None) -> Path | None:
    """Create the folder and check that it is writable and not used by another program."""
    if folder is None:
        return None
    path = Path(folder)
    check_writable(path)
    path.mkdir(parents=True, exist_ok=True)
    if (path / "metrics.csv").exists() and not (path / "checkpoint.ckpt").exists():
        raise ValueError(f"{path} contains a metrics.csv but no synib checkpoint: choose another folder.")
    return path


def _lightning() -> Any:
    try:
        from synib.training import solo_run
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("lightning"):
            raise
        raise ValueError('The solo engine needs Lightning: pip install "synib[solo]".') from e
    return solo_run
