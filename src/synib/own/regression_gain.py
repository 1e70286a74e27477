"""The interaction gain where the target is a number: linear regressions on predicted means, cross-fitted."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from synib.measure.product_gain import principal_components, product_scores
from synib.measure.stats import Estimate, deal
from synib.own.row_scores import Groups, Numbers, lead

Result = tuple[Estimate, Estimate, Numbers, Estimate]


def regression_gain(
    unimodal: Mapping[str, Numbers], fusion: Numbers, y: Numbers, group: Groups | None, folds: int, seed: int
) -> Result:
    """The fusion's recalibrated mean against a linear combination of the unimodal means.

    Args:
        unimodal: Model → mean and log-variance for each row.
        fusion: The same of the fusion.
        y: The target of each row.
        group: The group of each row, where groups are resampled.
        folds: Number of folds over which regressions are fitted.
        seed: Seed for the fold assignment and the bootstrap.

    Returns:
        Gain in log-likelihood, gain in the share of variance explained, the additive score of each row, the fusion's score.
    """
    part = _folds(len(y), group, folds, seed)
    features = {"additive": _means(unimodal), "fusion": fusion[:, :1]}
    by_fold = {who: [(x[part != fold], x[part == fold]) for fold in np.unique(part)] for who, x in features.items()}
    return _compare(by_fold, y, part, group, seed)


def regression_product_gain(
    unimodal: Mapping[str, Numbers],
    modalities: Mapping[str, Numbers],
    y: Numbers,
    group: Groups | None,
    folds: int,
    seed: int,
) -> Result:
    """Products of two modalities' features against squares within each; see :func:`regression_gain`.

    Args:
        unimodal, y, group, folds, seed: As there.
        modalities: Modality → features ``(rows, width)``.
    """
    part, components = _folds(len(y), group, folds, seed), principal_components(modalities, len(y))
    means = _means(unimodal)
    by_fold: dict[str, list[tuple[Numbers, Numbers]]] = {"additive": [], "fusion": []}
    for fold in np.unique(part):
        train = part != fold
        residual = y[train] - _linear(means[train], y[train])(means[train])
        on_train, on_test = (x[..., 0].T for x in product_scores(components, residual[:, None], part, fold))
        fitted, held_out = np.column_stack([means[train], on_train]), np.column_stack([means[~train], on_test])
        squares = means.shape[1] + len(components)
        by_fold["additive"].append((fitted[:, :squares], held_out[:, :squares]))
        by_fold["fusion"].append((fitted, held_out))
    return _compare(by_fold, y, part, group, seed)


def _compare(
    by_fold: Mapping[str, Sequence[tuple[Numbers, Numbers]]],
    y: Numbers,
    part: NDArray[np.int64],
    group: Groups | None,
    seed: int,
) -> Result:
    """How much better one regression is than an additive one, from each fold's features of training and test rows."""
    errors, losses = {}, {}
    for who, features in by_fold.items():
        error, loss = np.empty(len(y)), np.empty(len(y))
        for fold, (fitted, held_out) in zip(np.unique(part), features, strict=True):
            test = part == fold
            predict = _linear(fitted, y[~test])
            variance = np.square(predict(fitted) - y[~test]).mean()
            error[test] = np.square(predict(held_out) - y[test])
            loss[test] = 0.5 * np.log(variance) + 0.5 * error[test] / variance
        errors[who], losses[who] = error / (np.var(y) or 1.0), loss
    evidence = lead(losses["additive"], losses["fusion"], group, seed)
    explained = lead(errors["additive"], errors["fusion"], group, seed)
    return evidence, explained, 1 - errors["additive"], _score(1 - errors["fusion"], group, seed)


def _score(x: Numbers, group: Groups | None, seed: int) -> Estimate:
    return lead(x, np.zeros(len(x)), group, seed)


def _means(unimodal: Mapping[str, Numbers]) -> Numbers:
    return np.stack([x[:, 0] for x in unimodal.values()], 1)


def _linear(x: Numbers, y: Numbers) -> Callable[[Numbers], Numbers]:
    """A linear regression, by least squares."""
    slopes = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    return lambda new: np.column_stack([new, np.ones(len(new))]) @ slopes


def _folds(rows: int, group: Groups | None, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each row, drawn without regard to the target; groups stay together."""
    random = np.random.default_rng(seed)
    if group is None:
        return deal(np.argsort(random.permutation(rows)), folds)
    names, number = np.unique(group, return_inverse=True)
    return deal(np.argsort(random.permutation(len(names))), folds)[number]
