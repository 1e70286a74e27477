"""Additive combinations of predictions: a weighted sum of log-odds, fitted by penalised maximum likelihood."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import logistic
from synib.measure.arrays import Array, Of, as_numbers, check_unimodal, true_labels

Predictions = ArrayLike | Tensor
Kind = Literal["sum", "weighted", "stacked"]
RIDGE = 1.0  # on slopes of standardised scores, relative to the loss summed over examples
CLIP = 1e-6  # a probability of exactly 0 or 1 has no log-odds


class Examples(NamedTuple):
    """Labels and scores; scores are log-probabilities centred over the classes (softmax is invariant to the shift).

    Args:
        names: The modalities, in the order of their scores.
        unimodal: ``(modalities, n, classes)``.
        fusion: ``(1, n, classes)``.
        y: The labels.
    """

    names: list[str]
    unimodal: Array
    fusion: Array
    y: Array

    @property
    def classes(self) -> int:
        return self.fusion.shape[2]


def read(unimodal: Mapping[str, Predictions], fusion: Predictions, target: ArrayLike | Tensor, given: Of) -> Examples:
    """Check predictions and labels and convert them to one form."""
    check_unimodal(unimodal)
    y = true_labels(target)
    single = {name: log_probabilities(p, given, f"unimodal[{name!r}]") for name, p in sorted(unimodal.items())}
    joint = log_probabilities(fusion, given, "fusion")
    shapes = {p.shape for p in (*single.values(), joint)}
    if shapes != {(len(y), joint.shape[1])}:
        raise ValueError(
            f"All predictions need one row for each of {len(y)} labels and the same classes; got shapes "
            f"(examples, classes) {', '.join(map(str, sorted(shapes)))}."
        )
    if y.min() < 0 or y.max() >= joint.shape[1]:
        raise ValueError(f"Labels must be classes 0 to {joint.shape[1] - 1}, as predicted; got {y.min()} to {y.max()}.")
    return Examples(list(single), centred([*single.values()]), centred([joint]), y)


def log_probabilities(prediction: Predictions, given: Of, name: str) -> Array:
    """Predictions of any accepted shape as log-probabilities ``(n, classes)``, in double precision."""
    numbers = as_numbers(prediction, name)
    x = numbers[:, None] if numbers.ndim == 1 else numbers
    if x.ndim != 2 or not x.shape[1] or not np.isfinite(x).all():
        raise ValueError(
            f"{name} must be finite predictions of shape (n,), (n, 1) or (n, classes); got shape "
            f"{numbers.shape}{'.' if np.isfinite(x).all() else ' with NaN or infinite values.'}"
        )
    if given == "probabilities":
        if x.min(initial=0.0) < 0 or x.max(initial=1.0) > 1 or (x.shape[1] > 1 and abs(x.sum(1) - 1).max() > 1e-3):
            raise ValueError(
                f"{name} does not hold probabilities: pass given='logits', or rows in [0, 1] that sum to 1."
            )
        x = np.concatenate([1 - x, x], 1) if x.shape[1] == 1 else x
        scores = np.log(x.clip(CLIP, 1 - CLIP))
    else:
        scores = np.concatenate([np.zeros_like(x), x], 1) if x.shape[1] == 1 else x
    from scipy.special import log_softmax  # slow to import

    result: Array = log_softmax(scores, 1)
    return result


def centred(log_probabilities: Sequence[Array]) -> Array:
    """Log-probabilities of several predictions, stacked, with mean 0 over the classes."""
    x = np.stack(log_probabilities)
    return x - x.mean(-1, keepdims=True)


def best_additive(scores: Array, target: Array, part: Array) -> tuple[Kind, dict[str, float], Array]:
    """The additive combination with the lowest cross-validated log-loss, the loss of each candidate, and its
    log-probabilities.
    """
    kinds: tuple[Kind, ...] = ("sum", "stacked") if scores.shape[2] == 2 else ("sum", "weighted", "stacked")
    predictions = {kind: cross_fit(kind, scores, target, part) for kind in kinds}
    losses: dict[str, float] = {kind: float(log_loss(p, target).mean()) for kind, p in predictions.items()}
    best = min(kinds, key=lambda kind: losses[kind])
    return best, losses, predictions[best]


def cross_fit(kind: Kind, scores: Array, target: Array, part: Array) -> Array:
    """Out-of-fold log-probabilities: each example is predicted by a combination fitted on the other folds."""
    result = np.empty(scores.shape[1:])
    for fold in np.unique(part):
        test = part == fold
        result[test] = fit(kind, scores[:, ~test], target[~test])(scores[:, test])
    return result


def fit(kind: Kind, scores: Array, target: Array) -> Callable[[Array], Array]:
    """A combination of ``(modalities, n, classes)`` scores, fitted by penalised maximum likelihood (convex).

    Slopes apply to scores with mean 0 and unit scale, and biases start from the class frequencies. The ridge therefore
    neither penalises a model with small or shifted logits (a fusion trained to be uncertain) nor gives a class that is
    absent here an unbounded loss.

    Returns:
        A function from new scores to their log-probabilities, ``(n, classes)``.
    """
    _, n, classes = scores.shape

    def combined(scores: Array) -> Tensor:
        return torch.from_numpy(scores.sum(0, keepdims=True) if kind == "sum" else scores)

    fitted_scores, y = combined(scores), torch.from_numpy(target)
    centre = fitted_scores.mean(1, keepdim=True)
    size = (fitted_scores - centre).square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-12)
    prior = ((torch.bincount(y, minlength=classes) + 1).double() / (n + classes)).log()
    x = (fitted_scores - centre) / size
    if kind == "stacked" and classes > 2:
        matrix, bias = logistic.fit_matrix(_side_by_side(x), y, classes, ridge=RIDGE / n, offset=prior)
        return lambda new: _read(_side_by_side((combined(new) - centre) / size) @ matrix + bias + prior)
    slopes, bias = logistic.fit(x, y, ridge=RIDGE / n, bias_ridge=RIDGE / n, offset=prior)
    if kind == "sum" and slopes[0] < 0:
        # The problem is convex: if the optimal slope is negative, the best non-negative slope is 0.
        slopes, bias = torch.zeros_like(slopes), torch.zeros_like(bias)
    return lambda new: _read(torch.tensordot(slopes, (combined(new) - centre) / size, 1) + bias + prior)


def log_loss(log_probability: Array, target: Array) -> Array:
    """Negative log-likelihood of each label."""
    return -np.take_along_axis(log_probability, target[:, None], 1)[:, 0]


def _side_by_side(x: Tensor) -> Tensor:
    """``(modalities, n, classes)`` as ``(n, modalities * classes)``."""
    return x.movedim(0, 1).flatten(1)


def _read(logits: Tensor) -> Array:
    result: Array = logits.log_softmax(-1).numpy()
    return result
