"""Interaction gain: how much better the fusion model is than the best additive combination of the unimodal ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.checks import check_choice
from synib.measure.arrays import Array, Of
from synib.measure.combination import Predictions, best_additive, cross_fit, fit, log_loss, read
from synib.measure.stats import (
    Estimate,
    assign,
    check_folds,
    check_resampling,
    difference,
    group_numbers,
    mean,
    proportion,
)


@dataclass(frozen=True)
class InteractionGain:
    """The result of :func:`interaction_gain`; log-losses are in nats per example.

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
            together, and intervals are over groups.
        folds: For choosing the combination, and for cross-fitting.
        seed: Seed for the fold assignment.
    """
    check_choice("given", given, Of)
    check_resampling(seed)
    examples = read(unimodal, fusion, target, given)
    fitted = examples
    if calibration is not None:
        if not isinstance(calibration, tuple | list) or len(calibration) != 3:
            got = f"{len(calibration)} parts" if isinstance(calibration, tuple | list) else type(calibration).__name__
            raise ValueError(f"calibration has three parts, (unimodal, fusion, target); got {got}.")
        fitted = read(*calibration, given)
        if (fitted.names, fitted.classes) != (examples.names, examples.classes):
            raise ValueError(
                f"The calibration part needs the same modalities and classes: got {', '.join(fitted.names)} with "
                f"{fitted.classes} classes, expected {', '.join(examples.names)} with {examples.classes}."
            )
    group = None if groups is None else group_numbers(groups, len(examples.y), least=2 if calibration is None else 1)
    part = cross_validation(fitted.y, None if calibration is not None else group, folds, seed)
    best, candidates, cross_fitted = best_additive(fitted.unimodal, fitted.y, part)
    if calibration is None:
        additive, fused = cross_fitted, cross_fit("sum", examples.fusion, examples.y, part)
    else:
        additive = fit(best, fitted.unimodal, fitted.y)(examples.unimodal)
        fused = fit("sum", fitted.fusion, fitted.y)(examples.fusion)
    return gain_over(additive, fused, examples.y, group, best, candidates)


def cross_validation(target: Array, group: Array | None, folds: int, seed: int, least: int = 2) -> Array:
    """The fold of each example: classes are spread evenly, or groups are kept together."""
    check_folds(len(target), folds, least)
    if group is None:
        return assign(len(target), folds, seed, strata=target)
    return assign(len(target), min(folds, int(group.max()) + 1), seed, groups=group)


def gain_over(
    additive: Array,
    fused: Array,
    target: Array,
    group: Array | None,
    combination: str,
    candidates: Mapping[str, float],
) -> InteractionGain:
    """The gain of a fusion's held-out log-probabilities over those of an additive combination."""
    additive_loss, fusion_loss = log_loss(additive, target), log_loss(fused, target)
    additive_hits, fusion_hits = ((p.argmax(1) == target).astype(float) for p in (additive, fused))

    # Two fits of one problem agree to about 1e-7: rounded, so that no interval excludes 0 by this alone.
    gain = np.round(additive_loss - fusion_loss, 6) + 0.0
    return InteractionGain(
        log_loss=mean(gain, group),
        accuracy=difference(fusion_hits, additive_hits, groups=group),
        additive_log_loss=mean(additive_loss, group),
        additive_accuracy=proportion(additive_hits, groups=group),
        fusion_log_loss=mean(fusion_loss, group),
        fusion_accuracy=proportion(fusion_hits, groups=group),
        combination=combination,
        candidates=candidates,
        additive_right=additive_hits,
    )
