"""Interaction gain: the gain of the fusion model over the best additive combination of unimodal models."""

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
        log_loss: Log-loss of the additive combination minus that of the fusion: positive if the fusion is better.
        accuracy: Accuracy of the fusion minus that of the additive combination: positive if the fusion is better.
        additive_log_loss, additive_accuracy: Log-loss and accuracy of the additive combination.
        fusion_log_loss, fusion_accuracy: Log-loss and accuracy of the calibrated fusion.
        combination: The best additive combination: ``"sum"``, ``"weighted"`` or ``"stacked"``.
        candidates: Cross-validated log-loss of each combination, used for the choice.
        additive_right: Whether the additive combination is correct on each example, 1 or 0.
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
    r"""Held-out gain in log-loss and accuracy of the fusion model over the best additive combination of unimodal log-odds.

    Views that are conditionally independent given the label combine by adding their log-odds, so what an additive
    combination achieves is pooling, not interaction. With :math:`\ell_m(x_m)` the log-probabilities of the unimodal
    model of modality m, the combinations are :math:`\mathrm{softmax}(s)` with

    - ``"sum"``: :math:`s = a \sum_m \ell_m + b`, a sum calibrated by one temperature and one bias per class;
    - ``"weighted"``: :math:`s = \sum_m a_m \ell_m + b` (identical to ``"stacked"`` for two classes, and reported as
      such);
    - ``"stacked"``: :math:`s = \sum_m A_m \ell_m + b`, logistic regression on all log-probabilities.

    The combination with the lowest cross-validated log-loss is used. The fusion is calibrated on the same examples by
    :math:`a\,\ell + b`, so that the gain is not a difference in calibration. All fits are convex, with a small ridge.
    Calibration never inverts a model: :math:`a \ge 0`, here and in ``"sum"``, so a fusion that is worse than chance is
    treated as one that only knows the class frequencies.

    Predictions must come from models that were not trained on these examples. The interval resamples examples; it does
    not include the variation of training. A negative gain means that the fusion is worse than simple pooling: improve
    its training before looking for interaction. Unimodal models that are weaker than necessary inflate the gain: what
    they miss looks like interaction.

    Args:
        unimodal: Modality → predictions of its unimodal model: ``(n,)`` or ``(n, 1)`` for two classes, ``(n,
            classes)``.
        fusion: Predictions of the fusion model, in the same form.
        target: The true labels, from 0.
        given: Whether all predictions are ``"logits"`` (parameters of ``Bernoulli`` or ``Categorical``) or
            ``"probabilities"``.
        calibration: Other examples for fitting combinations and calibration, ``(unimodal, fusion, target)``, such as
            the validation split. Without them, cross-fitting is used: fitted on all folds but one and evaluated on that
            one.
        groups: The group of each example (a speaker, a patient) if examples of one group are dependent: folds keep
            groups together, and intervals are over groups.
        folds: Number of folds for choosing the combination and for cross-fitting.
        seed: Seed for the fold assignment.
    """
    check_choice("given", given, Of)
    check_resampling(seed)
    examples = read(unimodal, fusion, target, given)
    fitted = examples
    if calibration is not None:
        if not isinstance(calibration, tuple | list) or len(calibration) != 3:
            got = f"{len(calibration)} parts" if isinstance(calibration, tuple | list) else type(calibration).__name__
            raise ValueError(f"calibration must have three parts, (unimodal, fusion, target); got {got}.")
        fitted = read(*calibration, given)
        if (fitted.names, fitted.classes) != (examples.names, examples.classes):
            raise ValueError(
                f"The calibration part must have the same modalities and classes; got {', '.join(fitted.names)} "
                f"with {fitted.classes} classes, expected {', '.join(examples.names)} with {examples.classes}."
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
    """The fold of each example, stratified by class or with groups kept together."""
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

    # Two fits of the same problem agree to about 1e-7; rounding prevents intervals that exclude 0 for this reason only.
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
