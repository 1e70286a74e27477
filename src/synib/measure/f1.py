"""F1 of each class, and the threshold at which a rare class has the best macro F1."""

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
        predicted, target: Class numbers of each example.
        classes: How many classes there are.

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
        raise ValueError(f"There are as many predictions as targets; got {len(labels)} and {len(true)}.")
    return _f1(labels, true, classes)


def best_shift(log_probabilities: ArrayLike | Tensor, target: ArrayLike | Tensor, of: int) -> float:
    """What to add to one class's log-probability for the best macro F1; of several such numbers the one nearest to 0.

    A rare class is hardly ever the likeliest, also where its examples are ranked well: where to draw the line is a choice of
    its own. Make it on validation data, and add the number to that column of new predictions before the likeliest class is
    taken.

    Args:
        log_probabilities: ``(examples, classes)``, or logits.
        target: Class numbers.
        of: The class that is shifted.

    Example:
        >>> import numpy as np
        >>> from synib.measure import best_shift
        >>> ranked = np.log([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])  # well, and never predicted
        >>> round(best_shift(ranked, [0, 0, 1], of=1), 2)
        0.9
    """
    logs = as_numbers(log_probabilities, "log_probabilities")
    if logs.ndim != 2 or logs.shape[1] < 2 or not len(logs):
        raise ValueError(
            f"log_probabilities are (examples, classes), with two classes at least and an example; got {logs.shape}."
        )
    if not np.isfinite(logs).all():
        raise ValueError(f"log_probabilities are finite; {int((~np.isfinite(logs)).sum())} numbers are not.")
    classes = logs.shape[1]
    true = _labels(target, "target", classes)
    if len(true) != len(logs):
        raise ValueError(f"The target has a class for each of the {len(logs)} examples; got {len(true)}.")
    if not 0 <= check_whole("of", of, least=0) < classes:
        raise ValueError(f"of is a class, 0 to {classes - 1}; got {of}.")
    others = np.where(np.arange(classes) == of, -np.inf, logs)
    rest, needed = others.argmax(1), others.max(1) - logs[:, of]  # shifted by more, an example is called of this class
    steps = np.unique(needed)
    tried = np.concatenate([[0.0, steps[0] - 1.0, steps[-1] + 1.0], (steps[1:] + steps[:-1]) / 2])
    tried = tried[np.argsort(np.abs(tried), kind="stable")]
    scores = [np.nanmean(_f1(np.where(shift > needed, of, rest), true, classes)) for shift in tried]
    return float(tried[int(np.argmax(scores))])


def _f1(predicted: Array, true: Array, classes: int) -> Array:
    hits = np.bincount(true[predicted == true], minlength=classes)
    total = np.bincount(true, minlength=classes) + np.bincount(predicted, minlength=classes)
    f1: Array = np.where(total > 0, 2 * hits / np.maximum(total, 1), math.nan)
    return f1


def _labels(x: ArrayLike | Tensor, name: str, classes: int) -> Array:
    labels = without_column(x, name)
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise ValueError(
            f"{name} is one whole class number for each example; got shape {labels.shape} of {labels.dtype}."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"{name} has classes from 0 to {classes - 1}; got {labels.min()} to {labels.max()}.")
    return labels.astype(np.int64)
