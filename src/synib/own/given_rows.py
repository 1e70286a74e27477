"""Validation of the rows that are given to a predictor."""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.checks import shown

Rows = Mapping[str, ArrayLike]


def checked(
    widths: Mapping[str, int], modalities: Rows, present: Rows | None
) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Check the rows for a prediction.

    Args:
        widths: Modality → its width in training.
        modalities: Modality → ``(rows, width)``; a row of NaN lacks the modality.
        present: Modality → which rows have it.

    Returns:
        Modality → its rows, and which of them have it.

    Raises:
        ValueError: If names, shapes or values are invalid.
    """
    if not isinstance(modalities, Mapping) or not isinstance(present, Mapping | None):
        raise ValueError(f"modalities must be a dict of name → (rows, width); got {shown(modalities)}.")
    for name in {**modalities, **(present or {})}:
        if name not in widths:
            suggestions = difflib.get_close_matches(str(name), widths, 1)
            hint = (
                f"did you mean {suggestions[0]!r}?"
                if suggestions
                else f"its modalities are {', '.join(map(repr, widths))}."
            )
            raise ValueError(f"The model has no modality {name!r}: {hint}")
    if not modalities:
        raise ValueError(f"No modality was given; give at least one of {', '.join(map(repr, widths))}.")
    values = {name: as_array(name, x, widths[name]) for name, x in modalities.items()}
    rows = {name: len(x) for name, x in values.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} {n:,}" for name, n in rows.items())
        raise ValueError(f"All modalities must have the same number of rows; got {counts}.")
    if not any(rows.values()):
        raise ValueError("There are no rows to predict.")
    return {name: (x, _present(name, x, (present or {}).get(name))) for name, x in values.items()}


def as_array(name: str, x: ArrayLike, width: int) -> NDArray[Any]:
    """A modality's rows as an array of floating-point numbers, ``(rows, width)``."""
    try:
        values = np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x)
        values = values if values.dtype in (np.float16, np.float32) else values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} must be an array of numbers, (rows, {width}); got {type(x).__name__}.") from None
    if values.ndim != 2 or values.shape[1] != width:
        raise ValueError(f"{name!r} must have the shape (rows, {width}), as in training; got {values.shape}.")
    return values


def _present(name: str, x: NDArray[Any], present: ArrayLike | None) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = ~np.isnan(x).all(1)
    if present is not None:
        stated = np.asarray(present)
        if stated.shape != has.shape or stated.dtype != np.bool_:
            raise ValueError(
                f"present[{name!r}] must be boolean, one for each of {len(x):,} rows; got {stated.dtype}, {stated.shape}."
            )
        if (absent := np.flatnonzero(stated & ~has)).size:
            raise ValueError(f"{name!r} is marked as present in row {absent[0]} (from 0), but is NaN there.")
        has = has & stated
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(has & ~np.isfinite(x.astype(np.float32)).all(1))
    if bad.size:
        raise ValueError(f"{name!r} has NaN next to numbers, or infinite values, in row {bad[0]} (from 0).")
    return has
