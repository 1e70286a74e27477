"""Which rows to train on, to choose on and to test on: disjoint, no group in two of them, every class in its share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.checks import check_whole
from synib.measure.stats import assign

if TYPE_CHECKING:
    from synib.own.table import Table

Rows = NDArray[np.int64]
VALIDATION = 5  # one in so many of the rows that are not tested validates
LEAST = 3  # folds: one to test on, one to choose on, one to train on
FOLDS = 5  # of a fit
BANDS = 5  # of a target that is a number: from low to high, dealt out as classes are
NAMES = ("train", "validation", "test")


class Fold(NamedTuple):
    """Row numbers, in ascending order.

    Args:
        train: To fit parameters on.
        validation: To choose settings on.
        test: To be predicted when everything is fixed.
    """

    train: Rows
    validation: Rows
    test: Rows


def folds(table: "Table", k: int = 5, seed: int = 0) -> list[Fold]:
    """Folds of a table, every row in the test part of one of them; or the one that its split column names.

    Without a split column rows are dealt into ``k`` parts. Each part is tested once; of the other rows a fifth
    validates, and the rest is trained on. Rows of one group stay together. Classes (of a number: five bands from low
    to high) are dealt evenly: exactly, up to one row, where there are no groups, and as well as a greedy choice can,
    largest group first, where there are.

    With a split column there is one fold. If the column names no validation rows, a ``k``-th of the training rows
    becomes them.

    Args:
        table: The data.
        k: How many parts.
        seed: Decides who goes where.
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
    """The fold of a last fit, on all rows but those that a split column keeps for testing; a ``k``-th of them validates."""
    if table.split is not None:
        return _split_by_column(table, k, seed, needed=("train",))
    train, validation = held_out(table, np.arange(len(table.target)), k, seed)
    fold = Fold(train, validation, np.arange(0))
    _check(table, fold, "a fit")
    return fold


def cross_validation(table: "Table", seed: int = 0) -> tuple[list[Fold], Rows, Rows]:
    """How a fit is judged: folds, the rows that they test, and the part of each of these rows.

    What is fitted to predictions, such as a temperature, is judged by leaving out one part of the rows after the other.

    All rows but those that a split column keeps for testing are cut into 5 parts, or as many as there are groups. A fold
    tests one part and trains on all others; its validation rows, one of these, are trained on, too. Where the split column
    names validation rows there is one fold, which tests them, and they are cut into parts instead.

    Args:
        table: The data.
        seed: Decides who goes where.
    """
    every = np.arange(len(table.target))
    if table.split is None:
        return _crossed(table, every, seed)
    train, validation, test = (np.flatnonzero(np.asarray(table.split) == name) for name in NAMES)
    _check_named(table, ("train",))
    if table.group is not None:
        _check_groups(table.group, Fold(train, validation, test))
    if not len(validation):
        return _crossed(table, train, seed)
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


def _crossed(table: "Table", rows: Rows, seed: int) -> tuple[list[Fold], Rows, Rows]:
    k = min(FOLDS, len(rows) if table.group is None else len(np.unique(table.group[rows])))
    part = _assign(table, rows, max(k, LEAST), seed)
    parts = [Fold(rows[part != i], rows[part == (i + 1) % k], rows[part == i]) for i in range(k)]
    for i, fold in enumerate(parts):
        _check(table, fold, f"fold {i + 1} of {k}")
    return parts, rows, part


def held_out(table: "Table", rows: Rows, k: int = 5, seed: int = 0) -> tuple[Rows, Rows]:
    """Some rows cut in two: to train on, and a ``k``-th of them to choose on, dealt as :func:`folds` deals them."""
    chosen = _assign(table, rows, check_whole("k", k, 2), seed) == 0
    return rows[~chosen], rows[chosen]


def sample(table: "Table", rows: Rows, count: int, seed: int = 0) -> Rows:
    """About so many of the rows, drawn at random within each class (or band of a number); all, if there are no more."""
    if len(rows) <= count:
        return rows
    random, labels = np.random.default_rng(seed), strata(table)[rows]
    drawn = [random.permutation(rows[labels == label]) for label in np.unique(labels)]
    return np.sort(np.concatenate([part[: round(len(part) * count / len(rows))] for part in drawn]))


def strata(table: "Table") -> NDArray[np.int64]:
    """The class of every row; of a number its band, from low to high; of several labels the rarest that the row has."""
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
    """What the target is: ``"classification"``, ``"ordinal"``, ``"multilabel"`` or ``"regression"``."""
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
            raise ValueError(f"The split column needs rows to {name}; it names {named}.")


def _check_groups(group: NDArray[Any], fold: Fold) -> None:
    """Raise ``ValueError`` where a group is on both sides of a split that the user made."""
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
        raise ValueError(f"{k} folds need at least {k} groups, since no group is in two; there are {len(names)}.")
    return assign(len(rows), k, seed, strata(table)[rows], group)


def _check(table: "Table", fold: Fold, where: str) -> None:
    """Raise ``ValueError`` where nothing could be learned from the training rows."""
    several = kind_of(table) == "multilabel"
    if several:
        known = np.asarray(table.target)[fold.train].sum(0)
    else:
        known = np.bincount(table.target[fold.train], minlength=len(table.classes)) if table.classes else np.ones(1)
    if (known == 0).any():
        lacking = int(np.argmin(known))
        rows = np.flatnonzero(table.target[:, lacking] if several else table.target == lacking)
        where_it_is = f"{len(rows)} row{'s' * (len(rows) != 1)}"
        if table.group is not None:
            groups = len(np.unique(np.asarray(table.group)[rows]))
            where_it_is += f" of {groups} group{'s' * (groups != 1)}"
        advice = "leave that label out" if several else "join it with another class, or leave its rows out"
        raise ValueError(
            f"{'Label' if several else 'Class'} {table.classes[lacking]!r} has {where_it_is}, and {where} would train without "
            f"it: {advice}."
        )
    for name, present in table.present.items():
        if not np.asarray(present)[fold.train].any():
            raise ValueError(f"No row that {where} trains on has {name!r}: leave that modality out.")
