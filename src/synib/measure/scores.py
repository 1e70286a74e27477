"""Standard scores of predictions, with intervals: accuracy, F1, AUROC, calibration error, confidence."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, class_probabilities
from synib.measure.calibration import BINS
from synib.measure.stats import Estimate, bootstrap, check_resampling, mean, proportion, unknown
from synib.objective import Family


@dataclass(frozen=True)
class Scores:
    """The result of :func:`scores`, as fractions in [0, 1].

    Attributes:
        accuracy: Fraction of correct predictions.
        macro_f1: Mean of ``f1`` over the classes for which it is defined.
        f1: For each class; NaN for one that neither occurs nor is predicted.
        auroc: Mean of the one-versus-rest AUROC over classes; NaN if a class is absent.
        ece: Expected calibration error: mean of |accuracy − confidence| over bins, weighted by their number of
            examples.
        confidence: Mean probability of the predicted class.
        note: Why a value is NaN; empty if none is.
    """

    accuracy: Estimate
    macro_f1: Estimate
    f1: tuple[Estimate, ...]
    auroc: Estimate
    ece: Estimate
    confidence: Estimate
    note: str = ""

    def __str__(self) -> str:
        lines = [f"{name:10}  {getattr(self, name)}" for name in ("accuracy", "macro_f1", "auroc", "ece", "confidence")]
        lines += [f"f1 class {c:<2} {score}" for c, score in enumerate(self.f1)]
        return "\n".join(lines + [self.note] * bool(self.note))


def scores(
    prediction: ArrayLike | Tensor,
    target: ArrayLike | Tensor,
    family: Family | None = None,
    *,
    resamples: int = 200,
    seed: int = 0,
) -> Scores:
    """Accuracy, F1 of each class and their mean, AUROC, ECE (15 bins) and confidence, by torchmetrics.

    A Bernoulli prediction is scored as one of two classes: F1 and AUROC are means over both, and confidence is that of the
    predicted class.

    An ECE sums absolute differences, so sampling noise biases it upwards, and that of resamples even more. Its interval
    therefore reflects the resamples' percentiles about the value (basic bootstrap), clipped to [0, 1] and including the
    value. Some bias remains: for a perfectly calibrated model, the interval includes 0 in only about six of ten cases.

    Args:
        prediction: The family's parameters, as an array or tensor.
        target: The true labels.
        family: ``Bernoulli()`` or ``Categorical()`` (default).
        resamples: Number of bootstrap resamples.
        seed: Seed of the bootstrap.
    """
    check_resampling(seed, resamples=resamples)
    p, y = class_probabilities(prediction, target, family)
    return score(p[:, None], y, resamples, seed)


def score(p: Array, y: Array, resamples: int, seed: int) -> Scores:
    """Scores of predictions ``(n, draws, classes)``; intervals resample examples together with all their draws."""
    try:
        from torchmetrics.functional import classification as metrics
    except ImportError as error:
        raise ImportError("Scores need torchmetrics: pip install 'synib[audit]'") from error

    draws, classes = p.shape[1:]
    settings = {"num_classes": classes, "validate_args": False}
    predicted, top = p.argmax(2), p.max(2)
    missing = sorted(set(range(classes)) - set(y.tolist()))

    def estimate(
        metric: Callable[[Tensor, Tensor], Any], x: Array, method: Literal["percentile", "basic"] = "percentile"
    ) -> Estimate:
        def statistic(rows: Array) -> float:
            labels = torch.from_numpy(y[rows]).repeat_interleave(draws)
            return float(metric(torch.from_numpy(x[rows]).flatten(0, 1), labels))

        return bootstrap(statistic, np.arange(len(y)), draws=resamples, seed=seed, vectorized=False, method=method)

    def f1(labels: Tensor, y: Tensor) -> Tensor:
        by_class = metrics.multiclass_f1_score(labels, y, average=None, **settings)
        occurs = torch.bincount(torch.cat([labels, y]), minlength=classes) > 0
        return torch.where(occurs, by_class, math.nan)

    def auroc(x: Tensor, y: Tensor) -> Tensor:
        # A resample may lack a class; it is left out, as torchmetrics would warn. A single class has no ranking.
        present = y.unique()
        if len(present) == 1:
            return torch.tensor(0.5)
        chosen = present[1:] if classes == 2 else present  # with two classes both directions are equal
        return torch.stack([metrics.binary_auroc(x[:, c], (y == c).long(), validate_args=False) for c in chosen]).mean()

    def ece(x: Tensor, y: Tensor) -> Tensor:
        # A confidence of exactly 1 (in single precision, which torchmetrics uses) would get a bin of its own.
        return metrics.multiclass_calibration_error(x.clamp(max=1 - 1e-6), y, n_bins=BINS, **settings)

    def of_class(c: int) -> Estimate:
        if c in missing and not (predicted == c).any():
            return unknown(len(y))
        return estimate(lambda labels, y: f1(labels, y)[c].nan_to_num(0.0), predicted)

    gap = estimate(ece, p, "basic")
    low, high = np.clip([gap.low, gap.high], 0.0, 1.0)
    # If the error is small, noise can exceed it, and the mirrored interval then ends below the value.
    gap = replace(gap, low=float(np.minimum(low, gap.value)), high=float(np.maximum(high, gap.value)))
    note = f"AUROC is NaN: class {', '.join(map(str, missing))} has no examples." if missing else ""
    return Scores(
        accuracy=proportion(predicted == y[:, None]),
        macro_f1=estimate(lambda labels, y: f1(labels, y).nanmean(), predicted),
        f1=tuple(of_class(c) for c in range(classes)),
        auroc=unknown(len(y)) if missing else estimate(auroc, p),
        ece=gap,
        confidence=mean(top.mean(1)),
        note=note,
    )
