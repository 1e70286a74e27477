"""Columns that may identify the unit of a row (speaker, patient, video), to suggest as ``group``."""

import re
from collections.abc import Collection, Mapping

import numpy as np

from synib.own.columns import Column, Source

NAMES = re.compile(
    r"(^|[^a-z])(speaker|patient|subject|user|actor|video|session|participant|person|author|client|site|hospital|"
    r"dialogue?|conversation|document|id)s?([^a-z]|$)",
    re.IGNORECASE,
)
LOOKED_AT = 8  # columns that are read, at most
MOST = 3  # columns that are suggested, at most
LEAST = 4  # distinct values; fewer groups cannot be split into folds


def candidates(source: Source, used: Collection[str]) -> list[str]:
    """Unused columns of one text or number per row that are not numbered; those with names such as "speaker" come first."""
    names = [
        name
        for name, kind in source.kinds.items()
        if kind in ("text", "number") and name not in used and not re.fullmatch(r".+_([0-9]{1,9}|present)", name)
    ]
    names = [name for name in names if source.one_value(name)]
    return sorted(names, key=lambda name: (not NAMES.search(name), source.kinds[name] != "text"))[:LOOKED_AT]


def suggested_groups(columns: Mapping[str, Column]) -> dict[str, int]:
    """Columns whose values repeat like identifiers of units, with their number of distinct values.

    A numeric column with another name (an age, a rating) is suggested only if there is no better one.
    """
    counts = {name: count for name, column in columns.items() if (count := _units(column))}
    ranked = sorted(counts, key=lambda name: (not NAMES.search(name), columns[name].values.dtype.kind != "U"))
    telling = [name for name in ranked if NAMES.search(name) or columns[name].values.dtype.kind == "U"]
    return {name: counts[name] for name in (telling or ranked)[:MOST]}


def notes_of_groups(suggested: Mapping[str, int]) -> list[str]:
    """A sentence for each suggestion."""
    return [
        f"{name} has {count:,} distinct values that repeat: if rows of one {name} are related, use --group {name}."
        for name, count in suggested.items()
    ]


def _units(column: Column) -> int:
    """The number of distinct values, if they look like identifiers of units; otherwise 0."""
    values = column.values
    if not column.present.all() or values.dtype.kind not in "Uiuf":
        return 0
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.trunc(values)).all()):
        return 0
    different, counts = np.unique(values, return_counts=True)
    repeated = np.count_nonzero(counts > 1)
    return len(different) if LEAST <= len(different) <= len(values) / 2 and 2 * repeated > len(different) else 0
