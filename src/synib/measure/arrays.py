"""Conversion of numbers, labels and outputs to arrays; invalid input raises ``ValueError`` with one sentence."""

from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.checks import check_kind, shown
from synib.objective import Bernoulli, Categorical, Family

Array = NDArray[Any]


def as_array(x: ArrayLike | Tensor, name: str = "An array") -> Array:
    """A tensor (on any device) or array-like as a NumPy array; half precision becomes single precision."""
    if not isinstance(x, Tensor):
        try:
            return np.asarray(x)
        except ValueError:  # numpy's message is about its internals
            kind = type(x).__name__
            raise ValueError(
                f"{name} must have rows of equal length; got a {kind} with rows of several lengths."
            ) from None
    x = x.detach().cpu()
    # numpy has no bfloat16, and float16 sums overflow
    return (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()


def as_numbers(x: ArrayLike | Tensor, name: str) -> Array:
    """Convert to an array of float64."""
    array = as_array(x, name)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{name} must be an array of numbers; got a {type(x).__name__} ({e}).") from e


def as_tensor(x: ArrayLike | Tensor, device: torch.device | None = None) -> Tensor:
    """Convert to a tensor, also from pandas; non-numeric input raises an error of torch."""
    if isinstance(x, Tensor) or not hasattr(x, "__array__"):
        return torch.as_tensor(x, device=device)
    array = as_array(x)
    # torch rejects arrays with negative strides, and warns about read-only arrays such as those of pandas
    usable = array.flags.writeable and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if usable else array.copy()).to(device)


def described(x: object) -> str:
    """The description of a wrong input for an error message."""
    try:
        array = as_array(cast(ArrayLike, x))
    except ValueError:
        return f"a {type(x).__name__} with rows of several lengths"
    return f"shape {array.shape} of {array.dtype}" if array.ndim else type(x).__name__


def without_column(x: ArrayLike | Tensor, name: str = "An array") -> Array:
    """Convert to an array; ``(examples, 1)`` becomes ``(examples,)``."""
    array = as_array(x, name)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def check_unimodal(unimodal: Any) -> None:
    """Raise ``ValueError`` unless the value is a dict with at least one modality."""
    if not isinstance(unimodal, Mapping):
        raise ValueError(
            "unimodal must be a dict of modality → predictions, such as {'image': ..., 'text': ...}; got a "
            f"{type(unimodal).__name__}."
        )
    if not unimodal:
        raise ValueError("unimodal needs the predictions of at least one modality; got none.")


def true_labels(target: ArrayLike | Tensor) -> Array:
    """Labels of at least two classes as integers, ``(examples,)``."""
    y = without_column(target, "The target")
    if y.ndim != 1 or not _whole(y):
        raise ValueError(f"The target must be one integer class for each example; got shape {y.shape} of {y.dtype}.")
    classes = len(np.unique(y))
    if classes < 2:
        raise ValueError(f"The target needs examples of at least 2 classes; got {classes} in {len(y)} examples.")
    return y.astype(np.int64)


def are_right(labels: ArrayLike | Tensor, name: str, target: Array) -> Array:
    """Which predicted labels are correct, ``(seeds, examples)``."""
    array = as_array(labels, name)
    rows, n = np.atleast_2d(array), len(target)
    if rows.ndim != 2 or rows.shape[1] != n or not len(rows):
        raise ValueError(
            f"{name} must be predicted labels of shape ({n},) or (seeds, {n}), matching the target; got {array.shape}."
        )
    if not _whole(rows):
        raise ValueError(
            f"{name} must be predicted labels (integers), but has other values: pass family.predict(parameters)."
        )
    result: Array = rows == target
    return result


def all_are_right(labels: Mapping[str, ArrayLike | Tensor], target: Array) -> dict[str, Array]:
    """Name → which predicted labels are correct, ``(seeds, examples)``, with the same number of seeds for all."""
    are_correct = {name: are_right(p, name, target) for name, p in labels.items()}
    seeds = {len(p) for p in are_correct.values()} - {1}
    if len(seeds) > 1:
        counts = ", ".join(f"{name} {len(p)}" for name, p in are_correct.items())
        raise ValueError(f"All models need the same number of seeds, or a single one; got {counts}.")
    shape = (max(seeds, default=1), len(target))
    return {name: np.broadcast_to(p, shape) for name, p in are_correct.items()}


def check_class_numbers(y: Tensor) -> None:
    """Raise ``ValueError`` for soft targets, because measures count examples of classes."""
    if y.numel() != len(y) or (y.is_floating_point() and bool((y != y.round()).any())):
        raise ValueError(f"Measures need one integer class for each example; got shape {tuple(y.shape)} of {y.dtype}.")


def _whole(x: Array) -> bool:
    return x.dtype.kind in "biu" or (x.dtype.kind == "f" and bool((np.isfinite(x) & (x == np.round(x))).all()))


Of = Literal["logits", "probabilities"]


def family_of(family: Family | None) -> Family:
    """The given family, or ``Categorical()``."""
    return Categorical() if family is None else check_kind("family", family, Family, "Categorical()")


def class_family(family: Family | None) -> Bernoulli | Categorical:
    """The given family, which must have classes, or ``Categorical()``."""
    if family is None:
        return Categorical()
    if not isinstance(family, Bernoulli | Categorical):
        raise ValueError(
            f"Scores are defined for classes: family must be Bernoulli() or Categorical(); got {shown(family)}."
        )
    return family


def probabilities(family: Family, parameters: Tensor) -> Tensor:
    """The probability of each class, or only of class 1 for a Bernoulli family."""
    if not family.discrete:
        raise ValueError(f"Only Bernoulli and Categorical have class probabilities; got {family}. Use of='logits'.")
    return torch.sigmoid(parameters) if isinstance(family, Bernoulli) else torch.softmax(parameters, -1)


def class_probabilities(
    prediction: ArrayLike | Tensor, target: ArrayLike | Tensor, family: Family | None
) -> tuple[Array, Array]:
    """The probabilities of all classes, ``(n, classes)`` in double precision (two for a Bernoulli family), and the labels."""
    family = class_family(family)
    p = _numbers(prediction, "A prediction must be the family's parameters, numbers")
    y = _numbers(target, "The target must be one integer class")
    check_class_numbers(y)
    family.check_target(p, y)
    if not len(p):
        raise ValueError("Scores need at least one example; got none.")
    if not p.isfinite().all():
        raise ValueError(f"Predictions must be finite; {int((~p.isfinite()).sum())} values are not.")
    p = p.double().reshape(len(p), -1)
    logits = torch.cat([torch.zeros_like(p), p], 1) if isinstance(family, Bernoulli) else p
    return logits.softmax(1).numpy(), y.reshape(len(p)).long().numpy()


def _numbers(x: ArrayLike | Tensor, expected: str) -> Tensor:
    try:
        return as_tensor(as_array(x))
    except (TypeError, ValueError):
        raise ValueError(f"{expected} for each example; got {described(x)}.") from None
