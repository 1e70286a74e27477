"""Area under the ROC curve."""

import math

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import as_numbers, without_column


def auc(score: ArrayLike | Tensor, positive: ArrayLike | Tensor) -> float:
    """Area under the ROC curve: how often a positive example scores higher than a negative one; ties count half.

    Args:
        score: A number for each example; infinite values are allowed.
        positive: Which examples are positive, one boolean each.

    Returns:
        A number in [0, 1], 0.5 for uninformative scores; NaN if all examples are of one class.

    Example:
        >>> from synib.measure import auc
        >>> auc([0.1, 0.4, 0.4, 0.8], [False, True, False, True])
        0.875
    """
    scores = as_numbers(without_column(score, "The score"), "The score")
    is_positive = without_column(positive, "positive")
    if is_positive.dtype != np.bool_:
        raise ValueError(
            f"positive must be a boolean for each example; got {is_positive.dtype}: pass target == one_class."
        )
    if scores.ndim != 1 or scores.shape != is_positive.shape:
        raise ValueError(
            f"The score must be one number for each example, shape {is_positive.shape}; got {scores.shape}."
        )
    if np.isnan(scores).any():
        raise ValueError(f"Scores must be numbers; {int(np.isnan(scores).sum())} of {len(scores)} are NaN.")
    of_positive, of_negative = scores[is_positive], np.sort(scores[~is_positive])
    if not (of_positive.size and of_negative.size):
        return math.nan
    below, below_or_equal = (np.searchsorted(of_negative, of_positive, side) for side in ("left", "right"))
    return float((below + below_or_equal).mean() / (2 * of_negative.size))
