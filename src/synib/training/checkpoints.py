"""Lightning checkpoints that are written atomically and read without executing code."""

import errno
import hashlib
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from torch import Tensor, nn

from synib.data import Dataset
from synib.files import atomic_file
from synib.tokens import take, values
from synib.training.cells import Learner
from synib.training.plan import Plan

LOOKED_AT = 64  # examples of each split that a checkpoint knows its data by, besides all targets


class AtomicCheckpoints(TorchCheckpointIO):
    """Atomic checkpoint files; the previous checkpoint is kept in case the current one is damaged."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.with_name(f"{file.name}.damaged") if is_damaged(file) else _before(file)
        with atomic_file(file, before) as out:
            torch.save(checkpoint, out)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        content = load(Path(path))
        assert content is not None, "the caller has checked that there is a checkpoint"
        return content


def load(path: Path) -> dict[str, Any] | None:
    """The contents of a checkpoint on the CPU, or ``None`` if there is none. No code in it is executed.

    If the file is damaged, the previous checkpoint is used with a warning, or ``None`` if there is none.
    """
    if is_damaged(path):
        content = load(_before(path)) if path != _before(path) else None
        goes_on = "from the previous checkpoint" if content is not None else "from the start"
        warnings.warn(
            f"{path} is damaged: it will be kept as {path.name}.damaged when the next checkpoint is written, "
            f"and training continues {goes_on}.",
            stacklevel=2,
        )
        return content
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError, OSError) as e:
        raise ValueError(f"{path} is damaged or not a synib checkpoint; remove it to train from the start.") from e
    if not isinstance(content, dict) or "synib" not in content:
        raise ValueError(f"{path} is not a synib checkpoint; choose another folder.")
    return content


def is_damaged(path: Path) -> bool:
    """Whether a file started as a checkpoint (a zip archive) but is no longer valid, or differs from what was written."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
        if begin not in (b"", b"\0\0\0\0", b"PK\x03\x04"):  # what was never a checkpoint is not ours to judge
            return False
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is not None
    except FileNotFoundError:
        return False
    except (zipfile.BadZipFile, NotImplementedError, EOFError):
        return True
    except OSError as e:
        if e.errno != errno.EINVAL:  # a position that no file has
            raise
        return True


def _before(path: Path) -> Path:
    return path if path.suffix == ".before" else path.with_name(f"{path.name}.before")


def config(plan: Plan, learner: Learner, data: Dataset, world: int, sharded: bool) -> dict[str, Any]:
    """What must be equal to resume a training run: settings, method, model shapes, and a hash of the data."""
    shapes = [(name, tuple(p.shape)) for name, p in learner.model.named_parameters()]
    seen = hashlib.sha256()
    for split in (data.train, data.validation):
        seen.update(split.target.cpu().contiguous().numpy().tobytes())
        rows = torch.linspace(0, len(split) - 1, min(len(split), LOOKED_AT)).long()
        for name, x in sorted(split.modalities.items()):
            few = values(take(x, rows)).cpu()
            seen.update(f"{name} {tuple(values(x).shape)} {few.dtype}".encode() + few.contiguous().numpy().tobytes())
    return {
        **asdict(plan),
        "examples": len(data.train),
        "devices": world,
        "sharded": sharded,
        "method": " ".join(repr(learner.method).split()),
        "model": hashlib.sha256(repr(shapes).encode()).hexdigest()[:16],
        "data": seen.hexdigest()[:16],
    }


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise ``ValueError`` if the folder holds a different training run."""
    other = [name for name in now if before.get(name) != now[name]]
    if other:
        changed = ", ".join(f"{name} was {before.get(name)!r}, now {now[name]!r}" for name in other)
        raise ValueError(
            f"{folder} holds a training run with other settings ({changed}), which was not changed: choose "
            "another folder."
        )


def count_steps(checkpoint: Mapping[str, Any]) -> None:
    """Let both kinds of optimisation of Lightning, automatic and manual, have counted the steps of a checkpoint.

    A run that resumes it may have another kind: steps are recorded on some devices only.
    """
    steps, loop = checkpoint["global_step"], checkpoint["loops"]["fit_loop"]
    manual = loop["epoch_loop.manual_optimization.optim_step_progress"]
    automatic = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]
    for progress in (manual, automatic):
        progress["total"].update(ready=steps, completed=steps)


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters and buffers on the CPU, including those not in ``state_dict``; gathered if sharded."""
    return {name: _whole(t) for name, t in [*module.named_parameters(), *module.named_buffers()]}


def put(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Restore the parameters and buffers of a module from the copy made by :func:`tensors`."""
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            tensor.copy_(_spread(tensor, state[name]))


def _whole(tensor: Tensor) -> Tensor:
    detached: Any = tensor.detach()
    return cast(Tensor, (detached.full_tensor() if hasattr(detached, "full_tensor") else detached).to("cpu", copy=True))


def _spread(tensor: Any, value: Tensor) -> Tensor:
    """A full value in the layout of a tensor: sharded over devices if the tensor is."""
    if not hasattr(tensor, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(tensor.device), tensor.device_mesh, tensor.placements)


class Diverged(ValueError):
    """Raised when training stops because a loss or parameter is not finite.

    Args:
        good: Number of epochs after which the model was last finite; the model is restored to that state.
        epochs: Total number of epochs.
        rate: The learning rate of the failed epoch.
    """

    def __init__(self, good: int, epochs: int, rate: float) -> None:
        super().__init__(
            f"Training stopped in epoch {good + 1} of {epochs} at learning rate {rate:g}, because a loss or a "
            f"parameter is not finite. The model is restored to its state after {good} epochs. Try a smaller "
            "learning rate."
        )
        self.good = good
