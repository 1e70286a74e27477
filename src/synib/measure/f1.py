"""F1 of each class, and the threshold of a rare class that maximises macro F1."""

import math

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_whole
from synib.measure.arrays import Array, as_numbers, without_column


def f1_by_class(predicted: ArrayLike | Tensor, target: ArrayLike | Tensor, classes: int) -> Array:
    r"""The F1 of each class, :math:`2\,\mathrm{hits} / (\mathrm{true} + \mathrm{predicted})`; without intervals.

    Its mean over classes (``np.nanmean``) is the macro F1. :func:`scores` gives both with intervals.

    Args:
        predicted, target: Class indices of each example.
        classes: Number of classes.

    Returns:
        ``(classes,)``; NaN for a class that neither occurs nor is predicted.

    Example:
        >>> from synib.measure import f1_by_class
        >>> f1_by_class([0, 0, 1, 1], [0, 1, 1, 1], 3)
        array([0.66666667, 0.8       ,        nan])
    """
    check_whole("classes", classes)
    labels, true = _labels(predicted, "predicted", classes), _labels(target, "target", classes)
    if labels.shape != true.shape:
        raise ValueError(f"There must be as many predictions as targets; got {len(labels)} and {len(true)}.")
    return _f1(labels, true, classes)


def best_shift(log_probabilities: ArrayLike | Tensor, target: ArrayLike | Tensor, of: int) -> float:
    """The offset of one class's log-probability that maximises macro F1; the one closest to 0 if there are several.

    A rare class is hardly ever the most likely one, even if its examples are ranked well, so the threshold is a
    separate choice. Choose it on validation data, and add the offset to that column of new predictions before taking
    the most likely class.

    Args:
        log_probabilities: ``(examples, classes)``, or logits.
        target: Class indices.
        of: The class to shift.

    Example:
        >>> import numpy as np
        >>> from synib.measure import best_shift
        >>> ranked = np.log([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])  # ranked well, but class 1 is never predicted
        >>> round(best_shift(ranked, [0, 0, 1], of=1), 2)
        0.9
    """
    logs = as_numbers(log_probabilities, "log_probabilities")
    if logs.ndim != 2 or logs.shape[1] < 2 or not len(logs):
        raise ValueError(
            "log_probabilities must have shape (examples, classes) with at least one example and two classes; "
            f"got {logs.shape}."
        )
    if not np.isfinite(logs).all():
        raise ValueError(f"log_probabilities must be finite; {int((~np.isfinite(logs)).sum())} values are not.")
    classes = logs.shape[1]
    true = _labels(target, "target", classes)
    if len(true) != len(logs):
        raise ValueError(f"The target must have a class for each of the {len(logs)} examples; got {len(true)}.")
    if not 0 <= check_whole("of", of, least=0) < classes:
        raise ValueError(f"of must be a class, 0 to {classes - 1}; got {of}.")
    others = np.where(np.arange(classes) == of, -np.inf, logs)
    runner_up, needed_shift = others.argmax(1), others.max(1) - logs[:, of]  # a larger shift predicts this class
    steps = np.unique(needed_shift)
    shifts = np.concatenate([[0.0, steps[0] - 1.0, steps[-1] + 1.0], (steps[1:] + steps[:-1]) / 2])
    shifts = shifts[np.argsort(np.abs(shifts), kind="stable")]
    scores = [np.nanmean(_f1(np.where(shift > needed_shift, of, runner_up), true, classes)) for shift in shifts]
    return float(shifts[int(np.argmax(scores))])


def _f1(predicted: Array, true: Array, classes: int) -> Array:
    hits = np.bincount(true[predicted == true], minlength=classes)
    total = np.bincount(true, minlength=classes) + np.bincount(predicted, minlength=classes)
    f1: Array = np.where(total > 0, 2 * hits / np.maximum(total, 1), math.nan)
    return f1


def _labels(x: ArrayLike | Tensor, name: str, classes: int) -> Array:
    labels = without_column(x, name)
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise ValueError(
            f"{name} must be one integer class for each example; got shape {labels.shape} of {labels.dtype}."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"{name} must be classes 0 to {classes - 1}; got {labels.min()} to {labels.max()}.")
    return labels.astype(np.int64)
