"""Products of two modalities' numbers: weak synergy, which a network does not learn from few examples."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, Of, as_numbers, check_of, check_unimodal
from synib.measure.combination import Predictions, best_additive, centred, fit, read
from synib.measure.interaction_gain import InteractionGain, cross_validation, gain_over
from synib.measure.stats import check_resampling, group_numbers, standardised

COMPONENTS, ROWS_EACH = 64, 50  # of a modality at most, and examples for each of them
FAR = 3.0  # standard deviations at which outliers are clipped


def product_gain(
    unimodal: Mapping[str, Predictions],
    modalities: Mapping[str, ArrayLike | Tensor],
    target: ArrayLike | Tensor,
    *,
    given: Of = "logits",
    groups: ArrayLike | None = None,
    folds: int = 5,
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
        seed: Seed for the fold assignment.

    Returns:
        The gain of all products, as "fusion", over the combination with those within modalities.
    """
    check_of(given, "given")
    check_resampling(seed)
    check_unimodal(unimodal)
    examples = read(unimodal, next(iter(unimodal.values())), target, given)
    y = examples.y
    group = None if groups is None else group_numbers(groups, len(y), least=3)
    part = cross_validation(y, group, folds, seed, least=3)
    components = principal_components(modalities, len(y))
    best, candidates, _ = best_additive(examples.unimodal, y, part)
    truth = np.eye(examples.classes)[y]
    additive, fused = np.empty_like(truth), np.empty_like(truth)
    for fold in np.unique(part):
        test, train = part == fold, part != fold
        combination = fit(best, examples.unimodal[:, train], y[train])
        fitted, predicted = (combination(examples.unimodal[:, rows]) for rows in (train, test))
        on_train, on_test = product_scores(components, truth[train] - np.exp(fitted), part, fold)
        on_train = np.concatenate([centred([fitted]), on_train])
        on_test = np.concatenate([centred([predicted]), on_test])
        for result, used in ((additive, 1 + len(components)), (fused, len(on_train))):
            result[test] = fit("weighted", on_train[:used], y[train])(on_test[:used])
    return gain_over(additive, fused, y, group, best, candidates)


def principal_components(modalities: Mapping[str, ArrayLike | Tensor], n: int) -> list[Array]:
    """The leading principal components of each modality, whitened, with outliers clipped at three standard deviations."""
    if not isinstance(modalities, Mapping) or len(modalities) < 2:
        raise ValueError("Products take at least 2 modalities, as a dictionary of name → (examples, width).")
    components = []
    for name, values in modalities.items():
        x = as_numbers(values, name)
        if x.ndim != 2 or len(x) != n or not x.shape[1] or not np.isfinite(x).all():
            raise ValueError(f"{name} needs finite numbers ({n}, width), a row for each label; got {x.shape}.")
        count = max(1, min(COMPONENTS, n // ROWS_EACH, x.shape[1]))
        components.append(_whitened(standardised(x), count).clip(-FAR, FAR))
    return components


def _whitened(x: Array, count: int) -> Array:
    """So many leading principal components of centred numbers, each of variance 1; those without variance are 0."""
    from scipy.linalg import eigh  # slow to import

    n, width = x.shape
    square = x.T @ x if width <= n else x @ x.T
    sizes, vectors = eigh(square, subset_by_index=(len(square) - min(count, n), len(square) - 1))
    varies = sizes > 1e-9 * sizes.max()
    if width <= n:
        vectors = x @ vectors / np.sqrt(np.where(varies, sizes, np.inf))
    return np.where(varies, vectors * np.sqrt(n), 0.0)


def product_scores(components: Sequence[Array], residual: Array, part: Array, fold: int) -> tuple[Array, Array]:
    """Products for the training rows of a fold, and for its test rows.

    Directions are fitted to the residual: for each part of the training rows on the other parts, for the test rows on all
    training rows.

    Args:
        components: Components of each modality, for all rows.
        residual: What is to be explained, ``(training rows, columns)``.
        part: The fold of each row.
        fold: Which is held out.

    Returns:
        Both as ``(pairs, rows, columns)``: each modality with itself, then with others.
    """
    train = part != fold
    of_train, inner = [c[train] for c in components], part[train]
    on_train = np.empty((len(_pairs(components)), *residual.shape))
    for inner_fold in np.unique(inner):
        rows = inner == inner_fold
        directions = _directions([c[~rows] for c in of_train], residual[~rows])
        on_train[:, rows] = _products([c[rows] for c in of_train], directions)
    return on_train, _products([c[~train] for c in components], _directions(of_train, residual))


def _pairs(components: Sequence[Array]) -> list[tuple[Array, Array]]:
    return [*zip(components, components, strict=True), *combinations(components, 2)]


def _directions(components: Sequence[Array], residual: Array) -> list[tuple[Array, Array]]:
    """For each pair a direction in each, for every column of the residual, ``(columns, components)``."""
    directions = []
    for a, b in _pairs(components):
        moments = np.stack([(a * column[:, None]).T @ b for column in residual.T])
        left, _, right = np.linalg.svd(moments, full_matrices=False)
        directions.append((left[:, :, 0], right[:, 0]))
    return directions


def _products(components: Sequence[Array], directions: Sequence[tuple[Array, Array]]) -> Array:
    return np.stack([(a @ u.T) * (b @ v.T) for (a, b), (u, v) in zip(_pairs(components), directions, strict=True)])
