"""Checkpoints: plain tensors in one file, whole or not at all, read without executing anything."""

import errno
import hashlib
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from synib.data import Dataset
from synib.files import atomic_file
from synib.tokens import take, values
from synib.training.learner import Learner
from synib.training.solo_plan import Place, Plan

VERSION = 1
LOOKED_AT = 64  # examples of each split that a checkpoint knows its data by, besides all targets
_damaged: set[Path] = set()  # files that were found so and are still there


@dataclass
class Progress:
    """Where training stands.

    Args:
        step: Updates so far; learning rates and keys follow from it.
        epoch: Whole passes over the data so far.
        at: Batches of the present pass that are done.
        history: What was logged after each epoch.
        measured: What was measured after each epoch.
        sums: Losses of the present epoch: names → their sums, and of how many updates.
        best, best_epoch: The best value of the monitored metric, and after which epoch, counted from 0.
        finished: Whether training is over.
        metrics: What was measured then.
        scale, calm: Of losses in 16-bit floats: what they are multiplied by, and updates since it changed.
    """

    step: int = 0
    epoch: int = 0
    at: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    measured: list[dict[str, float]] = field(default_factory=list)
    sums: dict[str, list[float]] = field(default_factory=dict)
    best: float | None = None
    best_epoch: int | None = None
    finished: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    scale: float = 2.0**16
    calm: int = 0


class Tally:
    """Sums of losses, of which a checkpoint's progress keeps what was read.

    Args:
        progress: Where they are kept.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._noted: dict[tuple[str, ...], tuple[Tensor, float]] = {}

    def note(self, parts: Mapping[str, Tensor], share: float) -> None:
        """Add the losses of a piece that is so large a share of an update; nothing waits for the device."""
        names = tuple(parts)
        now = torch.stack([p.detach().double() for p in parts.values()]) * share
        before, steps = self._noted.get(names, (None, 0.0))
        self._noted[names] = now if before is None else before + now, steps + share

    def sums(self, world: int = 1) -> dict[str, list[float]]:
        """Loss → its sum and of how many updates; of all devices, if there are several."""
        for names, (sums, steps) in self._noted.items():
            for name, value in zip(names, sums.tolist(), strict=True):
                total, of = self.progress.sums.get(name, (0.0, 0.0))
                self.progress.sums[name] = [total + value, of + steps]
        self._noted = {}
        if world == 1:
            return self.progress.sums
        everyones: list[dict[str, list[float]]] = [{} for _ in range(world)]
        dist.all_gather_object(everyones, self.progress.sums)
        known = dict.fromkeys(name for one in everyones for name in one)
        return {name: [sum(one[name][i] for one in everyones if name in one) for i in (0, 1)] for name in known}

    def means(self, world: int) -> dict[str, float]:
        """Means over the epoch's updates, of all devices; the next epoch begins anew."""
        sums = self.sums(world)
        self.progress.sums = {}
        return {f"train_{name}": total / of for name, (total, of) in sums.items()}


def config(plan: Plan, data: Dataset, world: int, place: Place) -> dict[str, Any]:
    """What must be equal for a training to go on as it began."""
    rest = {"examples": len(data.train), "devices": world, "sharded": place.sharded}
    return {**plan.config(), **rest, **place.identity}


def identity(own: Learner, data: Dataset) -> dict[str, str]:
    """What is trained, and on what: the method in words, the model's shapes, and a hash of targets and some of the inputs."""
    shapes = [(name, tuple(p.shape)) for name, p in own.model.named_parameters()]
    seen = hashlib.sha256()
    for split in (data.train, data.validation):
        seen.update(split.target.cpu().contiguous().numpy().tobytes())
        rows = torch.linspace(0, len(split) - 1, min(len(split), LOOKED_AT)).long()
        for name, x in sorted(split.modalities.items()):
            few = values(take(x, rows)).cpu()
            seen.update(f"{name} {tuple(values(x).shape)} {few.dtype}".encode() + few.contiguous().numpy().tobytes())
    model = hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]
    return {"method": " ".join(repr(own.method).split()), "model": model, "data": seen.hexdigest()[:16]}


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter and buffer on the CPU, those included that a ``state_dict`` leaves out; whole if sharded."""
    return {name: whole(t) for name, t in [*module.named_parameters(), *module.named_buffers()]}


def put(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Give a module the parameters and buffers that :func:`tensors` copied."""
    # Buffers that only the first batch brings are made by the module's own loading.
    module.load_state_dict({name: t for name, t in values.items() if name not in _own(module)}, strict=False)
    own = _own(module)
    missing = sorted(own.keys() ^ values.keys())
    if missing:
        raise ValueError(f"The checkpoint is of another model or method: only one of them has {missing[0]!r}.")
    with torch.no_grad():
        for name, tensor in own.items():
            value = values[name]
            if tensor.shape != value.shape:
                raise ValueError(
                    f"The checkpoint is of another model or method: {name!r} is shaped {tuple(value.shape)} there and "
                    f"{tuple(tensor.shape)} here."
                )
            tensor.copy_(_like(tensor, value))


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """An optimiser's state with whole tensors on the CPU."""
    found = optimiser.state_dict()
    state = {i: {k: whole(v) if isinstance(v, Tensor) else v for k, v in s.items()} for i, s in found["state"].items()}
    return {"state": state, "param_groups": found["param_groups"]}


def put_optimiser(optimiser: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Give an optimiser the state that :func:`optimiser_state` copied."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state = {
        i: {k: _like(parameters[i], v) if _shaped_like(v, parameters[i]) else v for k, v in s.items()}
        for i, s in saved["state"].items()
    }
    optimiser.load_state_dict({"state": state, "param_groups": saved["param_groups"]})


class Diverged(ValueError):
    """Training stopped because a parameter was no finite number any more.

    Args:
        good: After how many epochs the model, which is left as it was then, was last good.
        epochs: How many there should have been.
        rate: The learning rate of the epoch that failed.
        kept: Where the last good state is, in words.
    """

    def __init__(self, good: int, epochs: int, rate: float, kept: str = "") -> None:
        super().__init__(
            f"Training stopped in epoch {good + 1} of {epochs}, at learning rate {rate:g}: a loss or a parameter is no finite "
            f"number any more. The model is left as it was after {good} epochs{kept}. Try a smaller learning rate."
        )
        self.good = good


def save(path: Path, content: Mapping[str, Any], keep_before: bool = False) -> None:
    """Write a file of plain tensors and values, whole or not at all.

    Args:
        path: The file.
        content: Tensors and plain values.
        keep_before: Whether the file that was there is kept as the one before, for when this one is damaged.
    """
    before = _before(path) if keep_before else None
    if path in _damaged:
        _damaged.discard(path)
        before = path.with_name(f"{path.name}.damaged")
    with atomic_file(path, before) as file:
        torch.save({"synib": VERSION, **content}, file)


def load(path: Path) -> dict[str, Any] | None:
    """What :func:`save` wrote, on the CPU, or ``None`` if there is no such file. Nothing in it is executed.

    Where the file is damaged, it is the one before, or ``None`` if there is none, and a warning says so.
    """
    if _cut(path):
        _damaged.add(path)
        found = load(_before(path)) if path != _before(path) else None
        goes_on = "from the checkpoint before" if found is not None else "from the start"
        warnings.warn(
            f"{path} is damaged: it is kept as {path.name}.damaged when the next one is written, and training goes on "
            f"{goes_on}.",
            stacklevel=2,
        )
        return found
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError, OSError) as e:
        raise ValueError(f"{path} is damaged or no checkpoint of ours; remove it to train anew.") from e
    if not isinstance(content, dict) or content.get("synib") != VERSION:
        raise ValueError(f"{path} is no checkpoint of this version of synib; choose another folder.")
    return content


def _before(path: Path) -> Path:
    return path if path.suffix == ".before" else path.with_name(f"{path.name}.before")


def _cut(path: Path) -> bool:
    """Whether a file began as a checkpoint, a zip archive, and is none any more, or not the one that was written."""
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
        if e.errno != errno.EINVAL:  # a place that no file has
            raise
        return True


def progress_of(content: Mapping[str, Any]) -> Progress:
    """Where training stood when a checkpoint was written."""
    return Progress(**content["progress"])


def plain(progress: Progress) -> dict[str, Any]:
    """Progress as plain values."""
    return asdict(progress)


def whole(tensor: Tensor) -> Tensor:
    """A copy of a tensor on the CPU, gathered from all devices where it is spread over them."""
    found: Any = tensor.detach()
    return cast(Tensor, (found.full_tensor() if _sharded(found) else found).to("cpu", copy=True))


def _own(module: nn.Module) -> dict[str, Tensor]:
    return dict([*module.named_parameters(), *module.named_buffers()])


def _sharded(tensor: Any) -> bool:
    return hasattr(tensor, "full_tensor")


def _shaped_like(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and _sharded(parameter) and value.shape == parameter.shape and value.ndim > 0


def _like(tensor: Any, value: Tensor) -> Tensor:
    """A whole value as a tensor holds it: spread over the devices if that is."""
    if not _sharded(tensor):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(tensor.device), tensor.device_mesh, tensor.placements)
