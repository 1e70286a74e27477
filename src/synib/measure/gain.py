"""Interaction gain: how much better the fusion model is than the best additive combination of the unimodal ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys
from synib.checks import is_whole, shown
from synib.measure.arrays import Array, Of, as_numbers, check_of, check_unimodal, true_labels
from synib.measure.estimate import Estimate, bootstrap, check_resampling, difference, proportion, ratio

Predictions = ArrayLike | Tensor
RIDGE = 1.0  # on slopes of standardised scores, against the loss summed over examples
CLIP = 1e-6  # a probability of exactly 0 or 1 has no log-odds


@dataclass(frozen=True)
class InteractionGain:
    """What :func:`interaction_gain` tells; log-losses are in nats per example.

    Attributes:
        log_loss: Log-loss of the additive combination minus that of the fusion: above 0 the fusion is better.
        accuracy: Accuracy of the fusion minus that of the additive combination: above 0 the fusion is better.
        additive_log_loss, additive_accuracy: Of the additive combination.
        fusion_log_loss, fusion_accuracy: Of the calibrated fusion.
        combination: Which additive combination is the best: ``"sum"``, ``"weighted"`` or ``"stacked"``.
        candidates: Cross-validated log-loss of each of them, by which it was chosen.
        additive_right: Which examples the additive combination is right on, 1 or 0.
    """

    log_loss: Estimate
    accuracy: Estimate
    additive_log_loss: Estimate
    additive_accuracy: Estimate
    fusion_log_loss: Estimate
    fusion_accuracy: Estimate
    combination: str
    candidates: Mapping[str, float]
    additive_right: Array = field(repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"interaction gain   log-loss {self.log_loss} nats, accuracy {self.accuracy}\n"
            f"  fusion           log-loss {self.fusion_log_loss} nats, accuracy {self.fusion_accuracy}\n"
            f"  best additive    log-loss {self.additive_log_loss} nats, accuracy {self.additive_accuracy}"
            f"  ({self.combination}, n = {self.log_loss.n})"
        )


def interaction_gain(
    unimodal: Mapping[str, Predictions],
    fusion: Predictions,
    target: ArrayLike | Tensor,
    *,
    given: Of = "logits",
    calibration: tuple[Mapping[str, Predictions], Predictions, ArrayLike | Tensor] | None = None,
    groups: ArrayLike | None = None,
    folds: int = 5,
    resamples: int = 2000,
    seed: int = 0,
) -> InteractionGain:
    r"""Held-out log-loss and accuracy of the fusion model over the best additive combination of unimodal log-odds.

    Views that are independent given the label combine by adding their log-odds, so whatever an additive combination
    reaches is pooling and not interaction. With :math:`\ell_m(x_m)` the log-probabilities of modality m's own model the
    combinations are :math:`\mathrm{softmax}(s)` with

    - ``"sum"``: :math:`s = a \sum_m \ell_m + b`, a sum calibrated by one temperature and a bias for each class;
    - ``"weighted"``: :math:`s = \sum_m a_m \ell_m + b` (for two classes this is ``"stacked"``, and is called so);
    - ``"stacked"``: :math:`s = \sum_m A_m \ell_m + b`, logistic regression on all log-probabilities.

    The one with the lowest cross-validated log-loss is *the* additive one. The fusion is calibrated on the same examples
    by :math:`a\,\ell + b`, so that the gain is no difference of calibration. All fits are convex, with a small ridge.
    Calibration never turns a model round: :math:`a \ge 0`, here and in ``"sum"``, so a fusion that is wrong more often than
    chance gets no credit for it and counts as one that knows only the class frequencies.

    Predictions must come from models that were not trained on these examples. The interval resamples examples; it does
    not know how the models would differ if trained again. Below 0 the fusion is worse than simple pooling: train it
    better before asking for interaction. Unimodal models that are weaker than they could be make the gain too large: what they
    miss alone looks like interaction.

    Args:
        unimodal: Modality → predictions of its own model: ``(n,)`` or ``(n, 1)`` for two classes, ``(n, classes)``.
        fusion: Predictions of the fusion model, likewise.
        target: The true labels, from 0.
        given: Whether all predictions are ``"logits"`` (parameters of ``Bernoulli`` or ``Categorical``) or
            ``"probabilities"``.
        calibration: Other examples to fit combinations and calibration on, ``(unimodal, fusion, target)``, such as the
            validation part. Without it they are fitted on all folds but one and evaluated on that one.
        groups: The group of each example (a speaker, a patient), where examples of one are not independent: folds keep groups
            together, and intervals resample groups.
        folds: For choosing the combination, and for cross-fitting.
        resamples: For the intervals.
        seed: Of folds and resampling.
    """
    check_of(given, "given")
    check_resampling(seed, resamples=resamples)
    held = read(unimodal, fusion, target, given)
    fitted = held
    if calibration is not None:
        if not isinstance(calibration, tuple | list) or len(calibration) != 3:
            got = f"{len(calibration)} parts" if isinstance(calibration, tuple | list) else type(calibration).__name__
            raise ValueError(f"calibration has three parts, (unimodal, fusion, target); got {got}.")
        fitted = read(*calibration, given)
        if (fitted.names, fitted.classes) != (held.names, held.classes):
            raise ValueError(
                f"The calibration part needs the same modalities and classes: got {', '.join(fitted.names)} with "
                f"{fitted.classes} classes, expected {', '.join(held.names)} with {held.classes}."
            )
    of_group = None if groups is None else group_numbers(groups, held.y)
    part = dealt(fitted.y, None if calibration is not None else of_group, folds, seed)
    best, candidates, cross_fitted = best_additive(fitted.own, fitted.y, part)
    if calibration is None:
        additive, fused = cross_fitted, _cross_fit("sum", held.joint, held.y, part)
    else:
        additive = fit(best, fitted.own, fitted.y)(held.own)
        fused = fit("sum", fitted.joint, fitted.y)(held.joint)
    return compared(additive, fused, held.y, of_group, best, candidates, resamples, seed)


def dealt(target: Array, group: Array | None, folds: int, seed: int, least: int = 2) -> Array:
    """Which fold each example belongs to: classes are dealt out evenly, or groups stay together."""
    half = len(target) // 2
    if half < least:
        raise ValueError(f"{('Two', 'Three')[least - 2]} folds need at least {2 * least} examples; got {len(target)}.")
    if not is_whole(folds) or not least <= folds <= half:
        raise ValueError(f"folds is a whole number between {least} and half the examples, {half}; got {shown(folds)}.")
    return _folds(target, folds, seed) if group is None else _folds_of(group, folds, seed)


def best_additive(scores: Array, target: Array, part: Array) -> tuple[str, dict[str, float], Array]:
    """The additive combination with the lowest cross-validated log-loss, that of each, and its log-probabilities."""
    kinds = ("sum", "stacked") if scores.shape[2] == 2 else ("sum", "weighted", "stacked")
    found = {kind: _cross_fit(kind, scores, target, part) for kind in kinds}
    losses = {kind: float(_loss(p, target).mean()) for kind, p in found.items()}
    best = min(losses, key=lambda kind: losses[kind])
    return best, losses, found[best]


def compared(
    additive: Array,
    fused: Array,
    target: Array,
    group: Array | None,
    combination: str,
    candidates: Mapping[str, float],
    resamples: int,
    seed: int,
) -> InteractionGain:
    """What held-out log-probabilities of a fusion have over those of an additive combination."""
    losses = [_loss(p, target) for p in (additive, fused)]
    hits = [(p.argmax(1) == target).astype(float) for p in (additive, fused)]

    def mean(x: Array) -> Estimate:
        if group is None:
            return bootstrap(np.mean, x, draws=resamples, seed=seed)
        found = bootstrap(ratio, np.bincount(group, x), np.bincount(group).astype(float), draws=resamples, seed=seed)
        return replace(found, n=len(x))

    def of_hits(x: Array) -> Estimate:
        return proportion(x, draws=resamples, seed=seed) if group is None else mean(x)

    def of_difference(ours: Array, theirs: Array) -> Estimate:
        return difference(ours, theirs, draws=resamples, seed=seed) if group is None else mean(ours - theirs)

    # Two fits of one problem agree to about 1e-7: rounded, so that no interval excludes 0 by this alone.
    gain = np.round(losses[0] - losses[1], 6) + 0.0
    return InteractionGain(
        mean(gain), of_difference(hits[1], hits[0]), mean(losses[0]), of_hits(hits[0]),
        mean(losses[1]), of_hits(hits[1]), combination, candidates, hits[0],
    )  # fmt: skip


def log_probabilities(prediction: Predictions, given: Of, name: str) -> Array:
    """Predictions of any accepted shape as log-probabilities ``(n, classes)``, in double precision."""
    numbers = as_numbers(prediction, name)
    x = numbers[:, None] if numbers.ndim == 1 else numbers
    if x.ndim != 2 or not x.shape[1] or not np.isfinite(x).all():
        raise ValueError(
            f"{name} needs finite predictions (n,), (n, 1) or (n, classes); got shape {numbers.shape}"
            f"{'.' if np.isfinite(x).all() else ' with others among them.'}"
        )
    if given == "probabilities":
        if x.min(initial=0.0) < 0 or x.max(initial=1.0) > 1 or (x.shape[1] > 1 and abs(x.sum(1) - 1).max() > 1e-3):
            raise ValueError(f"{name} has no probabilities: pass given='logits', or rows in [0, 1] that sum to 1.")
        x = np.concatenate([1 - x, x], 1) if x.shape[1] == 1 else x
        scores = np.log(x.clip(CLIP, 1 - CLIP))
    else:
        scores = np.concatenate([np.zeros_like(x), x], 1) if x.shape[1] == 1 else x
    from scipy.special import log_softmax  # slow to import

    result: Array = log_softmax(scores, 1)
    return result


class _Examples(NamedTuple):
    """Labels, and scores ``(modalities, n, classes)``: log-probabilities centred, which a softmax does not notice."""

    names: list[str]
    own: Array
    joint: Array
    y: Array

    @property
    def classes(self) -> int:
        return self.joint.shape[2]


def read(unimodal: Mapping[str, Predictions], fusion: Predictions, target: ArrayLike | Tensor, given: Of) -> _Examples:
    check_unimodal(unimodal)
    y = true_labels(target)
    own = {name: log_probabilities(p, given, f"unimodal[{name!r}]") for name, p in sorted(unimodal.items())}
    joint = log_probabilities(fusion, given, "fusion")
    shapes = {p.shape for p in (*own.values(), joint)}
    if shapes != {(len(y), joint.shape[1])}:
        raise ValueError(
            f"All predictions need one row for each of {len(y)} labels, and the same classes; got (examples, classes) of "
            f"{', '.join(map(str, sorted(shapes)))}."
        )
    if y.min() < 0 or y.max() >= joint.shape[1]:
        raise ValueError(f"Labels are classes 0 to {joint.shape[1] - 1}, as predicted; got {y.min()} to {y.max()}.")
    return _Examples(list(own), centred([*own.values()]), centred([joint]), y)


def _folds(target: Array, folds: int, seed: int) -> Array:
    """Which fold each example belongs to; every class is dealt out evenly."""
    order = keys.permutation(keys.fold(keys.key(seed), "folds"), len(target)).numpy()
    part = np.empty(len(target), dtype=np.int64)
    part[order[np.argsort(target[order], kind="stable")]] = np.arange(len(target)) % folds
    return part


def group_numbers(groups: ArrayLike, target: Array) -> Array:
    """The number of each example's group."""
    names = np.asarray(groups)
    if names.shape != target.shape:
        raise ValueError(f"groups names the group of each of {len(target)} examples; got shape {names.shape}.")
    _, which = np.unique(names.astype(str), return_inverse=True)
    if which.max() < 3:
        raise ValueError(f"Intervals resample groups, which takes at least 4 of them; got {which.max() + 1}.")
    return cast(Array, which)


def _folds_of(group: Array, folds: int, seed: int) -> Array:
    """Which fold each example belongs to; groups stay together, the largest are dealt first, to the smallest fold."""
    sizes = np.bincount(group)
    shuffled = keys.permutation(keys.fold(keys.key(seed), "folds"), len(sizes)).numpy()
    load, place = np.zeros(min(folds, len(sizes)), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    for one in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        place[one] = load.argmin()
        load[place[one]] += sizes[one]
    return cast(Array, place[group])


def centred(log_probabilities: Sequence[Array]) -> Array:
    x = np.stack(log_probabilities)
    return x - x.mean(-1, keepdims=True)


def _cross_fit(kind: str, scores: Array, target: Array, part: Array) -> Array:
    """Log-probabilities of every example from a combination fitted on the other folds."""
    result = np.empty(scores.shape[1:])
    for fold in np.unique(part):
        here = part == fold
        result[here] = fit(kind, scores[:, ~here], target[~here])(scores[:, here])
    return result


def fit(kind: str, scores: Array, target: Array) -> Callable[[Array], Array]:
    """A combination of ``(modalities, n, classes)`` scores, fitted by penalised maximum likelihood (convex).

    Slopes act on scores of mean 0 and unit size, and biases start from the class frequencies: the ridge then neither holds
    back a model whose logits are tiny or shifted (a fusion trained to be uncertain) nor gives a class unseen here a loss
    without bound.
    """
    from scipy.optimize import minimize  # slow to import
    from scipy.special import log_softmax

    _, n, classes = scores.shape

    def combined(scores: Array) -> Array:
        return scores.sum(0, keepdims=True) if kind == "sum" else scores

    used = combined(scores)
    centre = used.mean(1, keepdims=True)
    size = np.maximum(np.sqrt(np.square(used - centre).mean((1, 2), keepdims=True)), 1e-12)
    full = kind == "stacked" and classes > 2
    shape = (len(used), classes, classes) if full else (len(used), 1, 1)
    truth = np.eye(classes)[target]
    prior = np.log((truth.sum(0) + 1) / (n + classes))

    def predict(theta: Array, x: Array) -> Array:
        slopes, bias = theta[:-classes].reshape(shape), theta[-classes:]
        mixed: Array = (x @ slopes if full else x * slopes).sum(0)
        return log_softmax(mixed + prior + bias, -1)

    x = (used - centre) / size

    def objective(theta: Array) -> tuple[float, Array]:
        log_p = predict(theta, x)
        loss = -(truth * log_p).sum() + RIDGE / 2 * (theta @ theta)
        rest = np.exp(log_p) - truth
        slope = x.transpose(0, 2, 1) @ rest if full else (x * rest).sum((1, 2))
        return float(loss) / n, (np.concatenate([slope.ravel(), rest.sum(0)]) + RIDGE * theta) / n

    start = np.zeros(math.prod(shape) + classes)
    # Few numbers: not L-BFGS-B, whose tiny calls of a threaded BLAS make it ten times slower on a busy machine.
    method, rule = ("BFGS", {}) if len(start) < 50 else ("L-BFGS-B", {"ftol": 1e-13})
    found = minimize(objective, start, jac=True, method=method, options={"gtol": 1e-7, "maxiter": 1000, **rule})
    # The problem is convex: where the best slope is negative, the best that is not negative is 0.
    theta: Array = start if kind == "sum" and found.x[0] < 0 else found.x
    return lambda new: predict(theta, (combined(new) - centre) / size)


def _loss(log_probability: Array, target: Array) -> Array:
    return -np.take_along_axis(log_probability, target[:, None], 1)[:, 0]
