"""Training, validation and test rows: disjoint, stratified by class, and with every group in one part."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.checks import check_whole
from synib.measure.stats import assign

if TYPE_CHECKING:
    from synib.own.table import Table

Rows = NDArray[np.int64]
VALIDATION = 5  # one fifth of the rows that are not tested become validation rows
LEAST = 3  # folds: one each to test, choose and train on
FOLDS = 5  # folds of a fit
BANDS = 5  # quantile bands of a numeric target, stratified like classes
NAMES = ("train", "validation", "test")


class Fold(NamedTuple):
    """Row numbers, in ascending order.

    Args:
        train: Rows to fit parameters on.
        validation: Rows to choose settings on.
        test: Rows to predict once everything else is fixed.
    """

    train: Rows
    validation: Rows
    test: Rows


def folds(table: "Table", k: int = 5, seed: int = 0) -> list[Fold]:
    """Folds of a table in which every row is tested once; or the single fold of its split column.

    Without a split column, rows are divided into ``k`` parts. Each part is tested once; one fifth of the other rows are
    validation rows, and the rest are training rows. Rows of one group stay together. Parts are stratified by class (a numeric
    target by five quantile bands): exactly, up to one row, without groups; greedily, largest group first, with groups.

    With a split column there is one fold. If the column names no validation rows, one ``k``-th of the training rows
    become validation rows.

    Args:
        table: The data.
        k: Number of folds.
        seed: Seed for the assignment of rows.
    """
    k, seed = check_whole("k", k, LEAST), check_whole("seed", seed, None)
    if table.split is not None:
        return [_split_by_column(table, k, seed)]
    every = np.arange(len(table.target))
    part = _assign(table, every, k, seed)
    result = []
    for i in range(k):
        rest = every[part != i]
        units = rest if table.group is None else np.asarray(table.group)[rest]
        train, validation = held_out(table, rest, min(VALIDATION, len(np.unique(units))), seed + i)
        result.append(Fold(train, validation, every[part == i]))
    for i, fold in enumerate(result):
        _check(table, fold, f"fold {i + 1} of {k}")
    return result


def final(table: "Table", k: int = 5, seed: int = 0) -> Fold:
    """The fold of a final fit: all rows except test rows of a split column, one ``k``-th of them for validation."""
    if table.split is not None:
        return _split_by_column(table, k, seed, needed=("train",))
    train, validation = held_out(table, np.arange(len(table.target)), k, seed)
    fold = Fold(train, validation, np.arange(0))
    _check(table, fold, "a fit")
    return fold


def cross_validation(table: "Table", seed: int = 0) -> tuple[list[Fold], Rows, Rows]:
    """The folds of a fit, the rows that they test, and the part of each of these rows.

    The parts are for cross-fitting: a calibration, for example, is fitted to all parts but one and evaluated on that one.

    All rows except test rows of a split column are divided into 5 parts, or as many as there are groups. A fold tests one
    part and trains on all others; its validation rows are one of the training parts. If the split column names validation
    rows, there is one fold, which tests these, and they are divided into parts instead.

    Args:
        table: The data.
        seed: Seed for the assignment of rows.
    """
    every = np.arange(len(table.target))
    if table.split is None:
        return _k_folds(table, every, seed)
    train, validation, test = (np.flatnonzero(np.asarray(table.split) == name) for name in NAMES)
    _check_named(table, ("train",))
    if table.group is not None:
        _check_groups(table.group, Fold(train, validation, test))
    if not len(validation):
        return _k_folds(table, train, seed)
    fold = Fold(train, validation, validation)
    _check(table, fold, "the split column")
    if len(validation) < LEAST:
        raise ValueError(
            f"The split column needs at least {LEAST} validation rows to choose on; it names {len(validation)}."
        )
    groups = None if table.group is None else np.unique(table.group[validation], return_inverse=True)[1]
    enough = groups is not None and groups.max() + 1 >= LEAST
    parts = min(FOLDS, len(validation) if not enough or groups is None else int(groups.max()) + 1)
    return (
        [fold],
        validation,
        assign(len(validation), parts, seed, strata(table)[validation], groups if enough else None),
    )


def _k_folds(table: "Table", rows: Rows, seed: int) -> tuple[list[Fold], Rows, Rows]:
    k = min(FOLDS, len(rows) if table.group is None else len(np.unique(table.group[rows])))
    part = _assign(table, rows, max(k, LEAST), seed)
    parts = [Fold(rows[part != i], rows[part == (i + 1) % k], rows[part == i]) for i in range(k)]
    for i, fold in enumerate(parts):
        _check(table, fold, f"fold {i + 1} of {k}")
    return parts, rows, part


def held_out(table: "Table", rows: Rows, k: int = 5, seed: int = 0) -> tuple[Rows, Rows]:
    """Rows divided into training rows and a ``k``-th for validation, stratified and grouped like :func:`folds`."""
    chosen = _assign(table, rows, check_whole("k", k, 2), seed) == 0
    return rows[~chosen], rows[chosen]


def sample(table: "Table", rows: Rows, count: int, seed: int = 0) -> Rows:
    """About ``count`` of the rows, drawn at random within each class or band; all rows if there are no more."""
    if len(rows) <= count:
        return rows
    random, labels = np.random.default_rng(seed), strata(table)[rows]
    drawn = [random.permutation(rows[labels == label]) for label in np.unique(labels)]
    return np.sort(np.concatenate([part[: round(len(part) * count / len(rows))] for part in drawn]))


def strata(table: "Table") -> NDArray[np.int64]:
    """The stratum of every row: its class, its quantile band for a numeric target, or the rarest of its labels."""
    if kind_of(table) == "multilabel":
        labels = np.asarray(table.target, dtype=np.int64)
        order = np.argsort(labels.sum(0), kind="stable")
        return np.where(labels.any(1), labels[:, order].argmax(1) + 1, 0)
    if table.classes:
        return np.asarray(table.target, dtype=np.int64)
    n = len(table.target)
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(table.target, kind="stable")] = np.arange(n)
    return rank * BANDS // max(n, 1)


def kind_of(table: "Table") -> str:
    """The kind of the target: ``"classification"``, ``"ordinal"``, ``"multilabel"`` or ``"regression"``."""
    return table.kind


def _split_by_column(table: "Table", k: int, seed: int, needed: Sequence[str] = ("train", "test")) -> Fold:
    split = np.asarray(table.split)
    train, validation, test = (np.flatnonzero(split == name) for name in NAMES)
    _check_named(table, needed)
    if not len(validation):
        train, validation = held_out(table, train, k, seed)
    fold = Fold(train, validation, test)
    if table.group is not None:
        _check_groups(table.group, fold)
    _check(table, fold, "the split column")
    return fold


def _check_named(table: "Table", needed: Sequence[str]) -> None:
    split = np.asarray(table.split)
    for name in needed:
        if name not in split:
            named = ", ".join(sorted({str(s) for s in split})) or "nothing"
            raise ValueError(f"The split column has no {name} rows; it has {named}.")


def _check_groups(group: NDArray[Any], fold: Fold) -> None:
    """Raise ``ValueError`` if a group is in two parts of a split column."""
    part_of: dict[Any, str] = {}
    for name, rows in zip(NAMES, fold, strict=True):
        for member in np.unique(group[rows]).tolist():
            if member in part_of:
                raise ValueError(
                    f"Group {member!r} is in two parts of the split column, {part_of[member]} and {name}. Move its rows "
                    "into one part, or leave out the split column."
                )
            part_of[member] = name


def _assign(table: "Table", rows: Rows, k: int, seed: int) -> Rows:
    """The part of each of these rows, from 0 to ``k`` - 1."""
    if table.group is None:
        if len(rows) < k:
            raise ValueError(f"{k} folds need at least {k} rows; there are {len(rows)}.")
        return assign(len(rows), k, seed, strata(table)[rows])
    names, group = np.unique(np.asarray(table.group)[rows], return_inverse=True)
    if len(names) < k:
        raise ValueError(
            f"{k} folds need at least {k} groups, since a group stays in one fold; there are {len(names)}."
        )
    return assign(len(rows), k, seed, strata(table)[rows], group)


def _check(table: "Table", fold: Fold, where: str) -> None:
    """Raise ``ValueError`` if the training rows lack a class, a label or a modality."""
    several = kind_of(table) == "multilabel"
    if several:
        counts = np.asarray(table.target)[fold.train].sum(0)
    else:
        counts = np.bincount(table.target[fold.train], minlength=len(table.classes)) if table.classes else np.ones(1)
    if (counts == 0).any():
        lacking = int(np.argmin(counts))
        rows = np.flatnonzero(table.target[:, lacking] if several else table.target == lacking)
        where_it_is = f"{len(rows)} row{'s' * (len(rows) != 1)}"
        if table.group is not None:
            groups = len(np.unique(np.asarray(table.group)[rows]))
            where_it_is += f" of {groups} group{'s' * (groups != 1)}"
        advice = "leave that label out" if several else "merge it with another class, or leave its rows out"
        raise ValueError(
            f"{'Label' if several else 'Class'} {table.classes[lacking]!r} has {where_it_is}, none of "
            f"them among the training rows of {where}: {advice}."
        )
    for name, present in table.present.items():
        if not np.asarray(present)[fold.train].any():
            raise ValueError(f"No training row of {where} has {name!r}: leave that modality out.")
