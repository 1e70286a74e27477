"""What the solo engine refuses before it trains."""

import os
from pathlib import Path

import torch

from synib.checks import shown
from synib.data import Dataset
from synib.methods.hooks import RevisesWeights, TrainsInStages, WeighsGradients, needs_trainer
from synib.objective import Objective
from synib.training.learner import Learner
from synib.training.plan import Plan


def check_method(method: Objective, strategy: str, precision: str) -> None:
    """Refuse methods that a strategy or a precision cannot train."""
    if strategy == "fsdp" and isinstance(method, WeighsGradients | TrainsInStages | RevisesWeights):
        raise ValueError(
            f"strategy='fsdp' trains all parameters by one loss; {type(method).__name__} {needs_trainer(method)}: use "
            "strategy='ddp'."
        )
    if precision == "16-mixed" and (strategy == "fsdp" or isinstance(method, WeighsGradients)):
        who = "strategy='fsdp'" if strategy == "fsdp" else f"{type(method).__name__}, which weighs gradients,"
        raise ValueError(f"{who} takes precision '32-true' or 'bf16-mixed'; got '16-mixed'.")


def check_monitor(own: Learner, data: Dataset, plan: Plan) -> None:
    """Refuse a metric that is not measured."""
    known = ["validation_loss"]
    if own.method.family.discrete:
        known += ["validation_accuracy", *(f"validation_accuracy_{group}" for group in data.validation.groups)]
    if plan.monitored and plan.monitor not in known:
        raise ValueError(f"monitor is one of {', '.join(known)}; got {plan.monitor!r}.")


def check_device(device: str, precision: str) -> str:
    """``"cpu"`` or ``"cuda"``, if it is there and takes the precision."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device is 'auto', 'cpu' or 'cuda'; got {shown(device)}.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda' was asked for, but torch finds no CUDA device here; use device='cpu'.")
    if precision == "16-mixed" and device == "cpu":
        raise ValueError("precision '16-mixed' is for CUDA devices; on a CPU use 'bf16-mixed' or '32-true'.")
    return device


def check_folder(folder: Path | str | None) -> Path | None:
    """The folder, made and writable, and of no other program."""
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
