"""Rows of a table as numbers: categories as indicators, numbers standardised, and indicators of missing values."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from synib.checks import is_number, shown
from synib.own.columns import Array, Cell
from synib.own.raw.encoders.base import Encoder, EncoderState, Fitter

NAME = "onehot"
CATEGORIES, DISTINCT = 64, 100_000  # most frequent categories with an indicator; distinct values that are counted
LICENCE = "none needed (fitted to the data)"
FLAGS = {"true": 1.0, "false": 0.0}


class OneHot(Encoder):
    """Standardises numbers and encodes categories as indicators. Missing values are the mean, or 0 in all indicators.

    Args:
        columns: For each column ``{"name": …, "mean": …, "deviation": …}`` or ``{"name": …, "categories": […]}``, with
            ``"missing": true`` for an indicator of missing values, and ``"other": true`` for an indicator shared by rare
            categories. Both exist only if the training rows need them.
    """

    kind = "table"
    batch = 4096

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        for column in columns:
            moments = [column.get(key) for key in ("mean", "deviation")]
            categories = column.get("categories")
            are_texts = isinstance(categories, list) and all(isinstance(category, str) for category in categories)
            fits = all(map(is_number, moments)) if "mean" in column else are_texts
            if not fits or not isinstance(column.get("name"), str):
                raise ValueError(f"a column of a table must have a mean or categories; got {shown(dict(column))}.")
        self._columns = [dict(column) for column in columns]
        self._places = [{c: k for k, c in enumerate(column.get("categories", ()))} for column in columns]
        self._widths = [1 if "mean" in c else len(c["categories"]) + bool(c.get("other")) for c in columns]
        self.width = sum(self._widths) + sum(bool(c.get("missing")) for c in columns)
        text = json.dumps(self._columns, sort_keys=True)
        self.name, self.revision, self.licence = NAME, hashlib.sha256(text.encode()).hexdigest()[:16], LICENCE
        numbers = sum("mean" in column for column in columns)
        self.about = f"numbers standardised: {numbers}, categories as indicators: {len(columns) - numbers}"

    def encode(self, items: Sequence[Sequence[Cell]]) -> Array:
        result = np.zeros((len(items), self.width), np.float32)
        start = 0
        for place, (column, positions, width) in enumerate(zip(self._columns, self._places, self._widths, strict=True)):
            cells = [item[place] for item in items]
            missing = np.array([cell is None for cell in cells])
            if "mean" in column:
                values = np.array([math.nan if c is None else as_number(c) for c in cells], np.float64)
                bad = np.flatnonzero(np.isnan(values) & ~missing)
                if len(bad):
                    raise ValueError(
                        f"{column['name']} held numbers in training; got {shown(cells[bad[0]])}. Write a number, or leave the "
                        "cell empty."
                    )
                values[missing] = column["mean"]
                scaled = (values - column["mean"]) / (column["deviation"] or 1.0)
                result[:, start] = np.clip(scaled, -1e6, 1e6)
            else:
                rare = len(positions) if column.get("other") else -1
                at = np.array([-1 if c is None else positions.get(as_category(c), rare) for c in cells], np.int64)
                result[np.flatnonzero(at >= 0), start + at[at >= 0]] = 1
            start += width
            if column.get("missing"):
                result[:, start] = missing
                start += 1
        return result

    def state(self) -> EncoderState:
        return EncoderState(self.name, self.revision, self.width, self.licence, {"columns": self._columns})

    @classmethod
    def restore(cls, state: EncoderState) -> "OneHot":
        columns = state.settings.get("columns")
        if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
            raise ValueError("its columns are not a list.")
        return cls(columns)


class OneHotFitter(Fitter):
    """Means, deviations and the most frequent categories, in one pass.

    Args:
        names: The columns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._rows = 0
        self._counts: list[Counter[str]] = [Counter() for _ in names]
        self._moments = [_Moments() for _ in names]
        self._odd: list[object] = [None for _ in names]  # the first value that is not a number

    def add(self, items: Sequence[Sequence[Cell]]) -> None:
        self._rows += len(items)
        for place in range(len(self._names)):
            known = [cell for item in items if (cell := item[place]) is not None]
            numbers = np.array([as_number(cell) for cell in known], np.float64)
            numeric = ~np.isnan(numbers)
            self._moments[place].add(numbers[numeric])
            if not numeric.all() and self._odd[place] is None:
                self._odd[place] = known[int(np.argmin(numeric))]
            counts = self._counts[place]
            counts.update(as_category(cell) for cell in known)
            if len(counts) > DISTINCT:  # rare categories would not get an indicator anyway
                self._counts[place] = Counter(dict(counts.most_common(DISTINCT // 2)))

    def done(self) -> OneHot:
        columns: list[dict[str, Any]] = []
        for name, counts, moments, odd in zip(self._names, self._counts, self._moments, self._odd, strict=True):
            known = moments.known + moments.odd(counts)
            if not known:
                columns.append({"name": name, "categories": [], "other": True})
            elif odd is None:
                columns.append({"name": name, "mean": moments.mean, "deviation": moments.deviation})
            elif moments.known > known / 2:
                raise ValueError(
                    f"{name} has mixed kinds: numbers in most rows, but {shown(odd)} in another. Clear such cells, or write "
                    "all values of the column as words."
                )
            else:
                frequent = sorted(counts, key=lambda category: (-counts[category], category))[:CATEGORIES]
                columns.append({"name": name, "categories": sorted(frequent), "other": len(counts) > CATEGORIES})
            columns[-1]["missing"] = 0 < known < self._rows
        if not any(column.get("categories", True) for column in columns):
            raise ValueError("no column of the table has a value in any row.")
        return OneHot(columns)


class _Moments:
    """Mean and standard deviation of numbers that come in blocks."""

    def __init__(self) -> None:
        self.known, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, values: Array) -> None:
        if not len(values):
            return
        count, mean = len(values), float(values.mean())
        squares = float(((values - mean) ** 2).sum())
        total = self.known + count
        self._squares += squares + (mean - self.mean) ** 2 * self.known * count / total
        self.mean += (mean - self.mean) * count / total
        self.known = total

    def odd(self, counts: Counter[str]) -> int:
        """Values that are not numbers, of which at most a limited number was counted."""
        return max(0, sum(counts.values()) - self.known)

    @property
    def deviation(self) -> float:
        return math.sqrt(self._squares / self.known) if self.known else 0.0


def as_number(cell: Cell) -> float:
    """A cell as a finite number; NaN if it is not one."""
    if isinstance(cell, str):
        if cell.lower() in FLAGS:
            return FLAGS[cell.lower()]
        try:
            value = float(cell)
        except ValueError:
            return math.nan
    elif isinstance(cell, int | float):
        value = float(cell)
    else:
        return math.nan
    return value if math.isfinite(value) else math.nan


def as_category(cell: Cell) -> str:
    """A cell as the name of a category, at most 256 characters."""
    return (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell))[:256]
