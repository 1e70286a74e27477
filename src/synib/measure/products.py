"""Products of two modalities' numbers: weak synergy, which a network does not learn from few examples."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, Of, as_numbers, check_of, check_unimodal
from synib.measure.estimate import check_resampling
from synib.measure.gain import (
    InteractionGain,
    Predictions,
    best_additive,
    centred,
    compared,
    dealt,
    fit,
    group_numbers,
    read,
)

MOST, SHARE = 64, 50  # components of a modality: at most so many, and a fiftieth of the examples
FAR = 3.0  # standard deviations, from which on a number is taken as that far


def product_gain(
    unimodal: Mapping[str, Predictions],
    modalities: Mapping[str, ArrayLike | Tensor],
    target: ArrayLike | Tensor,
    *,
    given: Of = "logits",
    groups: ArrayLike | None = None,
    folds: int = 5,
    resamples: int = 2000,
    seed: int = 0,
) -> InteractionGain:
    r"""What products of two modalities' numbers add to the best additive combination, on held-out examples.

    :func:`~synib.measure.interaction_gain` asks a fusion model that was trained; this one needs none. Let r be what the
    additive combination leaves of the label (1 or 0 minus the probability) and a, b the leading principal components of two
    modalities, whitened. For each pair of modalities and each class the leading singular vectors u, v of the mean of
    :math:`r\,a\,b^\top` give one score, :math:`(u \cdot a)(v \cdot b)`, which a logistic regression adds to the combination.
    Few numbers are fitted, so that a product shows from far fewer examples than a network takes to find it; but what is no
    product of directions (the sign of a difference of lengths, a parity of three) does not.

    What it is compared with has the products within each modality, found in the same way: where two modalities hold the same
    thing, a product of both is a square of one, which a unimodal model may have missed.

    All of it is fitted on the other folds: the directions on part of them, the weights on the rest, in turn. Components alone
    are of all examples, without their labels.

    Args:
        unimodal: Modality → predictions of its own model for these examples, which it was not trained on, as
            :func:`~synib.measure.interaction_gain` takes them; an additive model's may be among them.
        modalities: Modality → numbers ``(n, width)``, at least two; 0 everywhere for a modality that an example lacks.
        target: The true labels, from 0.
        given: Whether predictions are ``"logits"`` or ``"probabilities"``.
        groups: The group of each example, where examples of one are not independent.
        folds: At least 3.
        resamples: For the intervals.
        seed: Of folds and resampling.

    Returns:
        The gain of all products, as "fusion", over the combination with those within modalities.
    """
    check_of(given, "given")
    check_resampling(seed, resamples=resamples)
    check_unimodal(unimodal)
    held = read(unimodal, next(iter(unimodal.values())), target, given)
    group = None if groups is None else group_numbers(groups, held.y)
    part = dealt(held.y, group, folds, seed, least=3)
    blocks = leading(modalities, len(held.y))
    best, candidates, _ = best_additive(held.own, held.y, part)
    truth = np.eye(held.classes)[held.y]
    additive, fused = np.empty_like(truth), np.empty_like(truth)
    for fold in np.unique(part):
        here, others = part == fold, part != fold
        combination = fit(best, held.own[:, others], held.y[others])
        known, new = (combination(held.own[:, rows]) for rows in (others, here))
        told, asked = scores(blocks, truth[others] - np.exp(known), part, fold)
        told, asked = np.concatenate([centred([known]), told]), np.concatenate([centred([new]), asked])
        for result, used in ((additive, 1 + len(blocks)), (fused, len(told))):
            result[here] = fit("weighted", told[:used], held.y[others])(asked[:used])
    return compared(additive, fused, held.y, group, best, candidates, resamples, seed)


def leading(modalities: Mapping[str, ArrayLike | Tensor], n: int) -> list[Array]:
    """The leading principal components of each modality, of variance 1 and without outliers."""
    if not isinstance(modalities, Mapping) or len(modalities) < 2:
        raise ValueError("Products take at least 2 modalities, as a dictionary of name → (examples, width).")
    made = []
    for name, given in modalities.items():
        x = as_numbers(given, name)
        if x.ndim != 2 or len(x) != n or not x.shape[1] or not np.isfinite(x).all():
            raise ValueError(f"{name} needs finite numbers ({n}, width), a row for each label; got {x.shape}.")
        spread = x.std(0)
        x = (x - x.mean(0)) / np.where(spread > 1e-6 * np.abs(x).max(0), spread, np.inf)  # constant columns are 0
        made.append(_whitened(x, max(1, min(MOST, n // SHARE, x.shape[1]))).clip(-FAR, FAR))
    return made


def _whitened(x: Array, most: int) -> Array:
    """So many leading principal components of centred numbers, each of variance 1; those without variance are 0."""
    from scipy.linalg import eigh  # slow to import

    n, width = x.shape
    square = x.T @ x if width <= n else x @ x.T
    sizes, vectors = eigh(square, subset_by_index=(len(square) - min(most, n), len(square) - 1))
    there = sizes > 1e-9 * sizes.max()
    if width <= n:
        vectors = x @ vectors / np.sqrt(np.where(there, sizes, np.inf))
    return np.where(there, vectors * np.sqrt(n), 0.0)


def scores(blocks: Sequence[Array], rest: Array, part: Array, fold: int) -> tuple[Array, Array]:
    """Products for all rows but a fold's, directions each from other parts than its own; and for the fold's, from all of these.

    Args:
        blocks: Components of each modality, for all rows.
        rest: What is to be explained, ``(rows outside the fold, columns)``.
        part: The fold of each row.
        fold: Which is held out.

    Returns:
        Both as ``(pairs, rows, columns)``: each modality with itself, then with others.
    """
    others = part != fold
    known, inner = [b[others] for b in blocks], part[others]
    told = np.empty((len(_pairs(blocks)), *rest.shape))
    for one in np.unique(inner):
        rows = inner == one
        told[:, rows] = _products([b[rows] for b in known], _directions([b[~rows] for b in known], rest[~rows]))
    return told, _products([b[~others] for b in blocks], _directions(known, rest))


def _pairs(blocks: Sequence[Array]) -> list[tuple[Array, Array]]:
    return [*zip(blocks, blocks, strict=True), *combinations(blocks, 2)]


def _directions(blocks: Sequence[Array], rest: Array) -> list[tuple[Array, Array]]:
    """For each pair a direction in each, for every column of the rest, ``(columns, components)``."""
    found = []
    for a, b in _pairs(blocks):
        left, _, right = np.linalg.svd(np.stack([(a * one[:, None]).T @ b for one in rest.T]), full_matrices=False)
        found.append((left[:, :, 0], right[:, 0]))
    return found


def _products(blocks: Sequence[Array], directions: Sequence[tuple[Array, Array]]) -> Array:
    return np.stack([(a @ u.T) * (b @ v.T) for (a, b), (u, v) in zip(_pairs(blocks), directions, strict=True)])
