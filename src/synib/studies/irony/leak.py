"""What one modality alone says about irony, which should be nothing."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.checks import check_number
from synib.studies.irony.donors import Contradictions, Donors, check_contradictions


class Leak(NamedTuple):
    """What the true emotion of one modality alone says about irony.

    Args:
        f1: The best irony F1 of any rule that looks at this emotion only.
        always: The F1 of calling everything ironic: what a modality that says nothing reaches.
        auc: Area under its ROC curve; 0.5 says nothing.
        flagged: The emotions that the best rule calls ironic.
    """

    f1: float
    always: float
    auc: float
    flagged: tuple[str, ...]


def unimodal_leak(
    video_label: ArrayLike, audio_label: ArrayLike, ironic: ArrayLike, classes: Iterable[str]
) -> dict[str, Leak]:
    """Modality → what its true emotion alone says about irony in these examples.

    The best rule flags the emotions that are ironic most often; it is chosen on these very examples, so the F1 of a small
    split is a little optimistic.

    Args:
        video_label, audio_label: The true emotions of what is seen and of what is heard, as class numbers.
        ironic: Which examples are ironic.
        classes: The classes' names, in order.
    """
    names = tuple(classes)
    is_ironic = np.asarray(ironic, bool)
    found = {}
    for modality, labels in (("video", video_label), ("audio", audio_label)):
        y = np.asarray(labels)
        counts = [np.bincount(y[rows], minlength=len(names)).astype(float) for rows in (is_ironic, ~is_ironic)]
        found[modality] = _leak(counts[0], counts[1], names)
    return found


def expected_leak(
    alpha: float,
    contradictions: Contradictions,
    *,
    donors: Donors = "paper",
    sizes: Mapping[str, float] | None = None,
) -> dict[str, Leak]:
    """Modality → the leak of the construction itself, by its probabilities and without a draw.

    Args:
        alpha, contradictions, donors: As in :func:`make_ironic`.
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
        there = [j for j in others if n[j] > 0]
        heard[there] += share * n[k] / max(len(there), 1)
    seen, rest = share * n, (1 - share) * n
    return {"video": _leak(seen, rest, names), "audio": _leak(heard if donors == "paper" else seen, rest, names)}


def _leak(ironic: NDArray[np.float64], other: NDArray[np.float64], names: tuple[str, ...]) -> Leak:
    all_ironic, all_other = float(ironic.sum()), float(other.sum())
    if not all_ironic:
        return Leak(0.0, 0.0, 0.5, ())
    rate = ironic / np.maximum(ironic + other, 1e-300)
    order = np.argsort(-rate, kind="stable")
    hits, alarms = np.cumsum(ironic[order]), np.cumsum(other[order])
    # The rule of the best F1 is a threshold on the rate, so one of these prefixes is it.
    f1 = 2 * hits / (hits + alarms + all_ironic)
    best = int(np.argmax(f1))
    above = ironic[:, None] * other[None, :] * ((rate[:, None] > rate) + 0.5 * (rate[:, None] == rate))
    auc = float(above.sum()) / (all_ironic * all_other) if all_other else 0.5
    always = 2 * all_ironic / (2 * all_ironic + all_other)
    return Leak(float(f1[best]), always, auc, tuple(names[k] for k in order[: best + 1]))
