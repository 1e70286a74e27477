"""What callers pass as numbers and labels, as arrays in order, or one sentence on what is wrong."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[Any]


def as_array(x: ArrayLike | Tensor, name: str = "An array") -> Array:
    """A tensor, on whatever device, or anything like an array, as an array; half precision becomes single."""
    if not isinstance(x, Tensor):
        try:
            return np.asarray(x)
        except ValueError:  # numpy's sentence is about its own inside
            kind = type(x).__name__
            raise ValueError(f"{name} has rows of one length; got a {kind} with rows of several lengths.") from None
    x = x.detach().cpu()
    # numpy has no bfloat16, and float16 sums overflow
    return (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()


def as_numbers(x: ArrayLike | Tensor, name: str) -> Array:
    """As an array of float64."""
    found = as_array(x, name)
    try:
        return found.astype(np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{name} is an array of numbers; got a {type(x).__name__} ({e}).") from e


def as_tensor(x: ArrayLike | Tensor, device: torch.device | None = None) -> Tensor:
    """As a tensor, a frame of pandas too; what holds no numbers raises one of torch's errors."""
    if isinstance(x, Tensor) or not hasattr(x, "__array__"):
        return torch.as_tensor(x, device=device)
    found = as_array(x)
    # torch takes no array that is read backwards, and warns of one that is read-only, as those of pandas are
    usable = found.flags.writeable and all(step >= 0 for step in found.strides)
    return torch.from_numpy(found if usable else found.copy()).to(device)


def described(x: object) -> str:
    """What came in the place of an array of numbers, for a sentence."""
    try:
        found = as_array(cast(ArrayLike, x))
    except ValueError:
        return f"a {type(x).__name__} with rows of several lengths"
    return f"shape {found.shape} of {found.dtype}" if found.ndim else type(x).__name__


def without_column(x: ArrayLike | Tensor, name: str = "An array") -> Array:
    """As an array, ``(examples, 1)`` as ``(examples,)``."""
    found = as_array(x, name)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def check_unimodal(unimodal: Any) -> None:
    """Raise ``ValueError`` if this is no dictionary with at least one modality."""
    if not isinstance(unimodal, Mapping):
        raise ValueError(
            f"unimodal is a dictionary of predictions by modality, such as {{'image': ..., 'text': ...}}; got a "
            f"{type(unimodal).__name__}."
        )
    if not unimodal:
        raise ValueError("unimodal needs the predictions of at least one modality; got none.")


def true_labels(target: ArrayLike | Tensor) -> Array:
    """Labels of at least two classes as whole numbers, ``(examples,)``."""
    y = without_column(target, "The target")
    if y.ndim != 1 or not _whole(y):
        raise ValueError(f"The target is one whole class number for each example; got shape {y.shape} of {y.dtype}.")
    classes = len(np.unique(y))
    if classes < 2:
        raise ValueError(f"The target needs examples of at least 2 classes; got {classes} in {len(y)} examples.")
    return y.astype(np.int64)


def are_right(labels: ArrayLike | Tensor, name: str, target: Array) -> Array:
    """Which predicted labels are right, ``(seeds, examples)``."""
    given = as_array(labels, name)
    found, n = np.atleast_2d(given), len(target)
    if found.ndim != 2 or found.shape[1] != n or not len(found):
        raise ValueError(
            f"{name} are predicted labels, ({n},) or (seeds, {n}), as many as the target has; got {given.shape}."
        )
    if not _whole(found):
        raise ValueError(f"{name} are predicted labels, whole numbers; got others: pass family.predict(parameters).")
    result: Array = found == target
    return result


def all_are_right(labels: Mapping[str, ArrayLike | Tensor], target: Array) -> dict[str, Array]:
    """Name → which predicted labels are right, ``(seeds, examples)``, the same number of seeds for all."""
    found = {name: are_right(p, name, target) for name, p in labels.items()}
    seeds = {len(p) for p in found.values()} - {1}
    if len(seeds) > 1:
        counts = ", ".join(f"{name} {len(p)}" for name, p in found.items())
        raise ValueError(f"All models need the same number of seeds, or a single one; got {counts}.")
    shape = (max(seeds, default=1), len(target))
    return {name: np.broadcast_to(p, shape) for name, p in found.items()}


def _whole(x: Array) -> bool:
    return x.dtype.kind in "biu" or (x.dtype.kind == "f" and bool((np.isfinite(x) & (x == np.round(x))).all()))
