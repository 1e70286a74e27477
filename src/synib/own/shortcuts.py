"""Shortcuts: nuisances that predict the target, and modalities that predict it too well or only in known groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.measure.stats import Estimate, difference, holm, mean, proportion, simultaneous
from synib.own.folds import Fold, folds
from synib.own.linear import ridge_predictions
from synib.own.table import Table

NOTABLE = 0.05  # accuracy (or explained variance) above the baseline from which on an alarm is raised
LEVEL = 0.025  # one-sided level for all alarms of a table together
PERFECT = 0.98  # accuracy from which on a single modality is suspicious
LEVELS = 50  # a nuisance with at most this many values is categorical, even if numeric

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Shortcut:
    """A possible shortcut.

    Args:
        what: The nuisance or the modality.
        kind: ``"nuisance"`` (it predicts the target), ``"perfect"`` (a single modality is suspiciously accurate),
            ``"group"`` (a modality predicts the target better in known groups than in new ones).
        score: Its accuracy, or its explained variance.
        beyond: Its gain over the baseline, or for ``"group"`` over new groups.
        carried: Modality → its accuracy above the baseline in predicting the nuisance.
        words: A sentence.
    """

    what: str
    kind: str
    score: Estimate
    beyond: Estimate
    carried: Mapping[str, float]
    words: str


def shortcuts(table: Table, parts: Sequence[Fold], seed: int = 0) -> list[Shortcut]:
    """All alarms, from linear regressions, since shortcuts are easy to learn.

    Holm's procedure bounds the chance of any false alarm by ``LEVEL``, separately for nuisances and for modalities.
    """
    return [*_nuisances(table, parts), *_modalities(table, parts, seed)]


def _nuisances(table: Table, parts: Sequence[Fold]) -> list[Shortcut]:
    baseline = _out_of_fold(table, None, parts)
    scores = {name: _out_of_fold(table, as_features(column), parts) for name, column in table.nuisance.items()}
    alarms = []
    for name, beyond in _notable(table, {name: x - baseline for name, x in scores.items()}).items():
        score = _mean_score(table, scores[name])
        gains = {m: _predicts(table, m, table.nuisance[name], parts) for m in table.modalities}
        carried = {m: gain for m, gain in gains.items() if gain > NOTABLE}
        by = f"; {' and '.join(carried)} can predict it" if carried else ""
        words = (
            f"{name} alone predicts the target: {_in_words(table, score)}, {beyond.value:+.2f} "
            f"[{beyond.low:+.2f}, {beyond.high:+.2f}] above the baseline{by}. A model may have learned {name} "
            "instead of the intended signal."
        )
        alarms.append(Shortcut(name, "nuisance", score, beyond, carried, words))
    return alarms


def _modalities(table: Table, parts: Sequence[Fold], seed: int) -> list[Shortcut]:
    alarms = []
    features = {name: _features(table, name) for name in table.modalities}
    scores = {name: _out_of_fold(table, x, parts) for name, x in features.items()}
    for name, x in scores.items():
        score = _mean_score(table, x)
        if score.low >= PERFECT and table.classes:
            words = (
                f"{name} alone is correct in {score.value:.1%} of all rows: check whether it contains the target, or "
                "the source of the target."
            )
            beyond = _mean(table, x - _out_of_fold(table, None, parts))
            alarms.append(Shortcut(name, "perfect", score, beyond, {}, words))
    if table.group is None or table.split is not None or len(parts) < 2:
        return alarms
    # The same rows split without groups, so that rows of one group are in training and test.
    known_groups = folds(replace(table, group=None), len(parts), seed)
    in_known = {name: _out_of_fold(table, x, known_groups) for name, x in features.items()}
    for name, gap in _notable(table, {name: x - scores[name] for name, x in in_known.items()}).items():
        score = _mean_score(table, scores[name])
        words = (
            f"{name} predicts the target better in known groups "
            f"({_in_words(table, _mean_score(table, in_known[name]))}) than in new ones "
            f"({_in_words(table, score)}): it identifies the group."
        )
        alarms.append(Shortcut(name, "group", score, gap, {}, words))
    return alarms


def _notable(table: Table, gains: Mapping[str, Numbers]) -> dict[str, Estimate]:
    """The gains that are large enough for an alarm and significantly positive after Holm's correction."""
    tested = {name: ~np.isnan(gain) for name, gain in gains.items()}
    p_values = [
        simultaneous(gain[None, tested[name]], None if table.group is None else table.group[tested[name]]).p_values[0]
        for name, gain in gains.items()
    ]
    estimates = {name: _mean(table, gain) for name, gain in gains.items()}
    certain = dict(zip(gains, holm(p_values) <= LEVEL, strict=True)) if gains else {}
    return {name: gain for name, gain in estimates.items() if certain[name] and gain.low > 0 and gain.value >= NOTABLE}


def as_features(column: NDArray[Any]) -> Numbers:
    """A nuisance as numeric features; categories, and numbers with few values, are one-hot encoded."""
    values, which = np.unique(column.astype(str), return_inverse=True)
    if column.dtype.kind in "fiu" and len(values) > LEVELS:
        x = column.astype(np.float64)
        return np.stack([x, np.square((x - x.mean()) / (x.std() or 1.0))], 1)
    kept = np.argsort(-np.bincount(which), kind="stable")[:LEVELS]
    return (which[:, None] == kept).astype(np.float64)


def _features(table: Table, name: str) -> NDArray[Any]:
    x = table.modalities[name]
    return x if table.present[name].all() else np.concatenate([x, table.present[name][:, None]], 1)


def _out_of_fold(table: Table, x: NDArray[Any] | None, parts: Sequence[Fold]) -> Numbers:
    """The score of each row by a regression fitted on other folds; NaN for rows that are never tested.

    1 for a correct class and 0 for a wrong one; minus the squared error for real targets, in units of their variance.
    Without features, the baseline: the most common class, or the mean.
    """
    y = table.target
    scores = np.full(len(y), np.nan)
    for part in parts:
        fitted = np.concatenate([part.train, part.validation])
        if x is None:
            constant = np.bincount(y[fitted]).argmax() if table.classes else y[fitted].mean()
            predicted = np.full(len(part.test), constant)
        else:
            columns = 2.0 * (y[:, None] == np.arange(len(table.classes))) - 1 if table.classes else y[:, None]
            predictions = ridge_predictions(x, columns, fitted, part.test)
            predicted = predictions.argmax(1) if table.classes else predictions[:, 0]
        true = y[part.test]
        scores[part.test] = predicted == true if table.classes else -np.square(predicted - true) / (y.var() or 1.0)
    return scores


def _predicts(table: Table, modality: str, nuisance: NDArray[Any], parts: Sequence[Fold]) -> float:
    """How well a modality predicts a nuisance, relative to the baseline."""
    values, which = np.unique(nuisance.astype(str), return_inverse=True)
    if nuisance.dtype.kind in "fiu" and len(values) > LEVELS:
        nuisance_table = replace(table, target=nuisance.astype(np.float64), classes=())
    else:
        nuisance_table = replace(table, target=which.astype(np.int64), classes=tuple(values))
    varying = [p for p in parts if len(np.unique(nuisance_table.target[np.concatenate([p.train, p.validation])])) > 1]
    if not varying:
        return 0.0
    scores = _out_of_fold(nuisance_table, _features(table, modality), varying)
    beyond = _mean(nuisance_table, scores - _out_of_fold(nuisance_table, None, varying))
    return beyond.value if beyond.low > 0 else 0.0


def _mean_score(table: Table, scores: Numbers) -> Estimate:
    return _mean(table, scores if table.classes else 1.0 + scores)


def _mean(table: Table, x: Numbers) -> Estimate:
    """The mean over test rows, with an interval over groups if there are any, since rows of one group are dependent."""
    tested = ~np.isnan(x)
    values, groups = x[tested], None if table.group is None else table.group[tested]
    if not table.classes:
        return mean(values, groups)
    if values.min() >= 0:
        return proportion(values, groups=groups)
    return difference(np.maximum(values, 0), np.maximum(-values, 0), groups=groups)


def _in_words(table: Table, score: Estimate) -> str:
    return f"accuracy {score.value:.2f}" if table.classes else f"{score.value:.0%} of the variance"
