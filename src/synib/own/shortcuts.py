"""Shortcuts: what predicts the label and should not, and what predicts it only among acquaintances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.measure.stats import Estimate, mean
from synib.own.folds import Fold, folds
from synib.own.table import Table

NOTABLE = (
    0.05  # of accuracy (or of explained variance) above knowing nothing, from which on a nuisance is worth an alarm
)
PERFECT = 0.98  # from which on a modality alone is too good to be true
LEVELS = 50  # different values of a nuisance up to which it counts as a name, also where it is a number
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)  # of the regressions here, chosen by leaving out one training row at a time

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Shortcut:
    """An alarm.

    Args:
        what: The nuisance or the modality.
        kind: ``"nuisance"`` (it predicts the label), ``"perfect"`` (a modality alone is too good), ``"group"`` (a modality
            predicts the label among rows of known groups, and less among new ones).
        score: What it reaches: accuracy, or the share of variance explained.
        beyond: How far that is beyond knowing nothing, or for ``"group"`` beyond new groups.
        carried: Modality → how well it tells the nuisance, as an accuracy beyond guessing, for a nuisance.
        words: A sentence.
    """

    what: str
    kind: str
    score: Estimate
    beyond: Estimate
    carried: Mapping[str, float]
    words: str


def shortcuts(table: Table, parts: Sequence[Fold], seed: int = 0) -> list[Shortcut]:
    """All alarms. Regressions here are linear: they look for what is easy, as a network would."""
    return [*_nuisances(table, parts), *_modalities(table, parts, seed)]


def _nuisances(table: Table, parts: Sequence[Fold]) -> list[Shortcut]:
    found = []
    for name, column in table.nuisance.items():
        x = as_features(column)
        score, beyond = _score(table, x, parts)
        if not (beyond.low > 0 and beyond.value >= NOTABLE):
            continue
        carried = {m: told for m in table.modalities if (told := _tells(table, m, column, parts)) > NOTABLE}
        by = f"; {' and '.join(carried)} can tell it" if carried else ""
        words = (
            f"{name} alone predicts the target: {_said(table, score)}, {beyond.value:+.2f} [{beyond.low:+.2f}, "
            f"{beyond.high:+.2f}] beyond knowing nothing{by}. A model may have learned {name} instead of what you are after."
        )
        found.append(Shortcut(name, "nuisance", score, beyond, carried, words))
    return found


def _modalities(table: Table, parts: Sequence[Fold], seed: int) -> list[Shortcut]:
    found = []
    acquainted = None
    if table.group is not None and table.split is None and len(parts) > 1:
        # The same rows split without regard to groups: rows of one group are then on both sides.
        loose = Table(**{**vars(table), "group": None})
        acquainted = folds(loose, len(parts), seed)
    for name in table.modalities:
        x = _of(table, name)
        hits = _out_of_fold(table, x, parts)
        score, beyond = _against(table, hits, _out_of_fold(table, None, parts))
        if score.low >= PERFECT and table.classes:
            words = f"{name} alone is right in {score.value:.1%} of all rows: is the target, or what it was made from, in it?"
            found.append(Shortcut(name, "perfect", score, beyond, {}, words))
        if acquainted is None:
            continue
        known = _out_of_fold(table, x, acquainted)
        gap = _paired(table, known, hits)
        if gap.low > 0 and gap.value >= NOTABLE:
            words = (
                f"{name} predicts the target better in groups that the model knows ({_said(table, _mean(table, known))}) "
                f"than in new ones ({_said(table, score)}): it recognises the group."
            )
            found.append(Shortcut(name, "group", score, gap, {}, words))
    return found


def as_features(column: NDArray[Any]) -> Numbers:
    """A nuisance as numbers: names, and numbers of few values, as one column each."""
    values, which = np.unique(column.astype(str), return_inverse=True)
    if column.dtype.kind in "fiu" and len(values) > LEVELS:
        x = column.astype(np.float64)
        return np.stack([x, np.square((x - x.mean()) / (x.std() or 1.0))], 1)
    kept = np.argsort(-np.bincount(which), kind="stable")[:LEVELS]
    return (which[:, None] == kept).astype(np.float64)


def _of(table: Table, name: str) -> Numbers:
    x = np.asarray(table.modalities[name], dtype=np.float64)
    return x if table.present[name].all() else np.concatenate([x, table.present[name][:, None]], 1)


def _score(table: Table, x: Numbers, parts: Sequence[Fold]) -> tuple[Estimate, Estimate]:
    return _against(table, _out_of_fold(table, x, parts), _out_of_fold(table, None, parts))


def _out_of_fold(table: Table, x: Numbers | None, parts: Sequence[Fold]) -> Numbers:
    """How good a regression fitted on other folds is at each row, NaN for rows that are never tested.

    1 for a right class and 0 for a wrong one; minus the squared error for numbers, in units of their variance. Without
    features, the best that knows nothing: the commonest class, the mean.
    """
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
    from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

    y = table.target
    good = np.full(len(y), np.nan)
    for part in parts:
        known = np.concatenate([part.train, part.validation])
        if x is None:
            guess = np.bincount(y[known]).argmax() if table.classes else y[known].mean()
            said = np.full(len(part.test), guess)
        else:
            regression = (RidgeClassifierCV if table.classes else RidgeCV)(PENALTIES)
            said = make_pipeline(StandardScaler(), regression).fit(x[known], y[known]).predict(x[part.test])
        true = y[part.test]
        good[part.test] = said == true if table.classes else -np.square(said - true) / (y.var() or 1.0)
    return good


def _tells(table: Table, modality: str, nuisance: NDArray[Any], parts: Sequence[Fold]) -> float:
    """How well a modality tells a nuisance, beyond guessing."""
    values, which = np.unique(nuisance.astype(str), return_inverse=True)
    if nuisance.dtype.kind in "fiu" and len(values) > LEVELS:
        number = nuisance.astype(np.float64)
        other = Table(**{**vars(table), "target": number, "classes": ()})
    else:
        other = Table(**{**vars(table), "target": which.astype(np.int64), "classes": tuple(values)})
    there = [p for p in parts if len(np.unique(other.target[np.concatenate([p.train, p.validation])])) > 1]
    if not there:
        return 0.0
    _, beyond = _against(other, _out_of_fold(other, _of(table, modality), there), _out_of_fold(other, None, there))
    return beyond.value if beyond.low > 0 else 0.0


def _against(table: Table, ours: Numbers, theirs: Numbers) -> tuple[Estimate, Estimate]:
    return _mean(table, ours), _paired(table, ours, theirs)


def _mean(table: Table, good: Numbers) -> Estimate:
    offset = 0.0 if table.classes else 1.0
    return _interval(table, offset + good)


def _paired(table: Table, ours: Numbers, theirs: Numbers) -> Estimate:
    return _interval(table, ours - theirs)


def _interval(table: Table, x: Numbers) -> Estimate:
    """Mean over tested rows; where there are groups these are resampled, since rows of one are not independent."""
    tested = ~np.isnan(x)
    if table.group is not None:
        return mean(x[tested], table.group[tested])
    return mean(x[tested], lowest=-1.0 if table.classes and x[tested].min() < 0 else None)


def _said(table: Table, score: Estimate) -> str:
    return f"accuracy {score.value:.2f}" if table.classes else f"{score.value:.0%} of the variance"
