"""How well one modality alone predicts irony: ideally no better than chance."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.checks import check_number
from synib.studies.irony.donors import Contradictions, Donors, check_contradictions


class Leak(NamedTuple):
    """How well the true emotion of one modality alone predicts irony.

    Args:
        f1: The best irony F1 of any rule that knows only this emotion.
        always: The F1 of always predicting irony, which an uninformative modality achieves.
        auc: Area under its ROC curve; 0.5 is chance.
        flagged: The emotions for which the best rule predicts irony.
    """

    f1: float
    always: float
    auc: float
    flagged: tuple[str, ...]


def unimodal_leak(
    video_label: ArrayLike, audio_label: ArrayLike, ironic: ArrayLike, classes: Iterable[str]
) -> dict[str, Leak]:
    """Modality → how well its true emotion alone predicts irony in these examples.

    The best rule flags the emotions that are ironic most often. It is chosen on the examples on which it is scored, so
    the F1 of a small split is slightly optimistic.

    Args:
        video_label, audio_label: The true emotions seen and heard, as class indices.
        ironic: Which examples are ironic.
        classes: The classes' names, in order.
    """
    names = tuple(classes)
    is_ironic = np.asarray(ironic, bool)
    leaks = {}
    for modality, labels in (("video", video_label), ("audio", audio_label)):
        y = np.asarray(labels)
        counts = [np.bincount(y[rows], minlength=len(names)).astype(float) for rows in (is_ironic, ~is_ironic)]
        leaks[modality] = _leak(counts[0], counts[1], names)
    return leaks


def mismatch_leak(seen: ArrayLike, heard: ArrayLike, ironic: ArrayLike) -> float:
    """The AUC with which "face and voice differ in this property" predicts irony; 0.5 is chance.

    Args:
        seen, heard: The property (actor, statement, take) of the clip that is seen and of the clip that is heard.
        ironic: Which examples are ironic.
    """
    differs, is_ironic = np.asarray(seen) != np.asarray(heard), np.asarray(ironic, bool)
    if is_ironic.all() or not is_ironic.any():
        return 0.5
    return float(0.5 + (differs[is_ironic].mean() - differs[~is_ironic].mean()) / 2)


def expected_leak(
    alpha: float,
    contradictions: Contradictions,
    *,
    donors: Donors = "paper",
    sizes: Mapping[str, float] | None = None,
) -> dict[str, Leak]:
    """Modality → the expected leak of the construction, without drawing an assignment.

    Args:
        alpha, contradictions, donors: As in :func:`~synib.studies.irony.donors.make_ironic`.
        sizes: Base class → its number of examples; equal if not given.

    Example:
        >>> from synib.studies.irony.crema_d import CONTRADICTIONS
        >>> round(expected_leak(1.0, CONTRADICTIONS)["audio"].f1, 3)
        0.553
    """
    follows = check_contradictions(contradictions)
    names = tuple(contradictions)
    n = np.array([1.0 if sizes is None else sizes[name] for name in names])
    share = check_number("alpha", alpha, least=0, most=len(names)) / len(names)
    heard = np.zeros(len(names))
    for k, others in enumerate(follows):
        nonempty = [j for j in others if n[j] > 0]
        heard[nonempty] += share * n[k] / max(len(nonempty), 1)
    seen, rest = share * n, (1 - share) * n
    return {"video": _leak(seen, rest, names), "audio": _leak(heard if donors == "paper" else seen, rest, names)}


def _leak(ironic: NDArray[np.float64], other: NDArray[np.float64], names: tuple[str, ...]) -> Leak:
    all_ironic, all_other = float(ironic.sum()), float(other.sum())
    if not all_ironic:
        return Leak(0.0, 0.0, 0.5, ())
    rate = ironic / np.maximum(ironic + other, 1e-300)
    order = np.argsort(-rate, kind="stable")
    hits, alarms = np.cumsum(ironic[order]), np.cumsum(other[order])
    # The rule with the best F1 is a threshold on the rate, so it is one of these prefixes.
    f1 = 2 * hits / (hits + alarms + all_ironic)
    best = int(np.argmax(f1))
    above = ironic[:, None] * other[None, :] * ((rate[:, None] > rate) + 0.5 * (rate[:, None] == rate))
    auc = float(above.sum()) / (all_ironic * all_other) if all_other else 0.5
    always = 2 * all_ironic / (2 * all_ironic + all_other)
    return Leak(float(f1[best]), always, auc, tuple(names[k] for k in order[: best + 1]))
