"""Convert columns to the fields of a table: presence of modalities, splits, groups, weights and notes."""

import mmap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from synib.checks import shown
from synib.own.columns import STEP, Array, Column, Source, list_names, list_rows, printable
from synib.own.targets import Target

GROUPS = 4  # fewer groups give no usable interval
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
          "dev": "validation", "test": "test", "testing": "test"}  # fmt: skip


def presence_of(source: Source, name: str, x: Array, flag: Column | None) -> Array:
    """Which rows have a modality; ``ValueError`` for a vector that is partly missing."""
    if not x.shape[1]:
        raise ValueError(f"{source.path}: the vectors of {name} have no numbers.")
    stated = None
    if flag is not None:
        stated = flag.values.astype(np.bool_) if flag.values.dtype.kind != "U" else None
        if stated is None or not flag.present.all() or not np.isin(flag.values, (0, 1)).all():
            raise ValueError(f"{source.path}: {name}_present must be true or false in every row.")
    complete, empty, infinite = (np.empty(len(x), np.bool_) for _ in range(3))
    for start, block in _blocks(x):
        rows = slice(start, start + len(block))
        nan = np.isnan(block)
        empty[rows], infinite[rows] = nan.all(1), np.isinf(block).any(1)
        complete[rows] = ~nan.any(1)
    expected = np.ones(len(x), np.bool_) if stated is None else stated
    for wrong, problem in (
        (infinite & expected, "infinite numbers, or numbers beyond the range of float32,"),
        (~complete & ~empty & expected, "NaN (or empty cells) next to numbers"),
    ):
        if wrong.any():
            raise ValueError(f"{source.path}: {name} has {problem} in {list_rows(np.flatnonzero(wrong))}: a row must have all "
                             "numbers of a modality or none.")  # fmt: skip
    if stated is not None and (stated & empty).any():
        raise ValueError(
            f"{source.path}: {name} is marked as present in {list_rows(np.flatnonzero(stated & empty))}, but is NaN there."
        )
    return ~empty & expected


def _blocks(x: Array) -> Iterator[tuple[int, Array]]:
    """Blocks of rows; pages of a mapped file are released after use, so that reading does not load the whole file.

    Anything written to a mapped array is lost with its pages, so use this before modifying the array.
    """
    pages: Any = x
    while isinstance(pages, np.ndarray):
        pages = pages.base
    for start in range(0, len(x), STEP):
        yield start, x[start : start + STEP]
        if isinstance(pages, mmap.mmap) and hasattr(pages, "madvise"):
            pages.madvise(mmap.MADV_DONTNEED)


def keep_rows(x: Array, keep: Array) -> Array:
    """Select rows in place, by moving them to the front of the array, which avoids a copy."""
    end = 0
    for start in range(0, len(x), STEP):
        block = x[start : start + STEP][keep[start : start + STEP]]
        x[end : end + len(block)] = block
        end += len(block)
    return x[:end]


def rows_of(column: Column, keep: Array) -> Column:
    return Column(column.values[keep], column.present[keep], column.names)


def is_known(column: Column) -> Array:
    return column.present & ~np.isnan(column.values) if column.values.dtype.kind == "f" else column.present


def splits_of(source: Source, name: str, column: Column) -> Array:
    texts = [text.strip().lower() for text in column.values.astype(np.str_).tolist()]
    invalid = np.array([text not in SPLITS for text in texts]) | ~column.present
    if invalid.any():
        raise ValueError(
            f"{source.path}: {name} must be train, validation or test in every row; it is "
            f"{shown(texts[int(np.argmax(invalid))])} or another value in {list_rows(np.flatnonzero(invalid))}."
        )
    return np.array([SPLITS[text] for text in texts])


def groups_of(source: Source, name: str, column: Column) -> Array:
    unknown = np.flatnonzero(~is_known(column))
    if len(unknown):
        raise ValueError(f"{source.path}: {name} is missing in {list_rows(unknown)}: give each row a group.")
    return printable_values(column.values.astype(np.str_))


def printable_values(values: Array) -> Array:
    """Texts with control characters escaped; other values unchanged."""
    if values.dtype.kind != "U" or not len(values):
        return values
    different, which = np.unique(values, return_inverse=True)
    return np.array([printable(text) for text in different.tolist()])[which.reshape(-1)]


def weights_of(source: Source, name: str, column: Column) -> Array:
    values = column.values
    numeric = values.dtype.kind in "biuf" and column.present.all()
    if not numeric or not (np.isfinite(values) & (values >= 0)).all() or not values.any():
        raise ValueError(f"{source.path}: {name} must be a number of at least 0 in every row, and above 0 in some.")
    return values.astype(np.float64)


def nuisance_of(column: Column) -> Array:
    if column.present.all() or column.values.dtype.kind == "U":
        return printable_values(column.values)
    return np.where(column.present, column.values, np.nan)


def notes_of(
    source: Source,
    target: str,
    used: Collection[str],
    has_target: Array,
    has_modality: Array,
) -> list[str]:
    notes = []
    if not has_target.all():
        notes.append(f"Left out, because {target} is missing: {list_rows(np.flatnonzero(~has_target))}.")
    if not has_modality[has_target].all():
        notes.append(
            f"Left out, because they have no modality: {list_rows(np.flatnonzero(has_target & ~has_modality))}."
        )
    unused = [name for name in source.kinds if name not in used and source.kinds[name] != "other"]
    unfit = [name for name in source.kinds if name not in used and source.kinds[name] == "other"]
    if unfit:
        notes.append(
            f"Not used, because they are not vectors: {list_names([f'{name} ({source.describe(name)})' for name in unfit])}."
        )
    if unused:
        notes.append(f"Columns that are not used: {list_names(unused)}.")
    return notes


def notes_on_use(
    present: Mapping[str, Array], modalities: Mapping[str, Array], target: Target, group: Array | None
) -> list[str]:
    """Notes on what limits the results: constant modalities, classes with one row, few groups."""
    notes = []
    for name, x in modalities.items():
        lacking = int((~present[name]).sum())
        if lacking:
            notes.append(f"{name} is missing in {lacking:,} of {len(x):,} rows.")
        if is_constant(x, present[name]):
            notes.append(f"{name} is the same in every row, so it cannot help to predict anything.")
    if target.kind in ("classification", "ordinal"):
        counts = np.bincount(target.values, minlength=len(target.classes))
        single = [name for name, count in zip(target.classes, counts, strict=True) if count == 1]
        if single:
            notes.append(
                f"Only one row is of class {list_names(single)}: a model cannot be both trained and tested on it."
            )
    if target.kind == "multilabel":
        rare = [name for name, count in zip(target.classes, target.values.sum(0), strict=True) if count == 1]
        if rare:
            notes.append(
                f"Only one row has the label {list_names(rare)}: a model cannot be both trained and tested on it."
            )
    if group is not None and (groups := len(np.unique(group))) < GROUPS:
        notes.append(f"There are only {groups} groups: intervals over them are very wide.")
    return notes


def is_constant(x: Array, present: Array) -> bool:
    """Whether all rows that have the modality are equal; stops at the first difference."""
    first = x[int(np.argmax(present))]
    steps = (slice(at, at + STEP) for at in range(0, len(x), STEP))
    return all((x[rows][present[rows]] == first).all() for rows in steps)


def check_groups(source: Source, name: str, group: Array, target: Target) -> None:
    """Raise ``ValueError`` if groups and classes correspond one to one: every tested class would be new to the model."""
    if target.kind not in ("classification", "ordinal"):
        return
    groups, which = np.unique(group, return_inverse=True)
    pairs = len(np.unique(which.reshape(-1) * len(target.classes) + target.values))
    if pairs == len(groups) == len(target.classes):
        raise ValueError(f"{source.path}: each group of {name} is a class of its own, so a model would be tested on "
                         "classes it has never seen: choose another group column, or none.")  # fmt: skip
