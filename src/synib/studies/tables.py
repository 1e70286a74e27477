"""Tables of features, with one array per column and one row per example: reading, folds, scaling, groups."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.checks import check_choice, is_whole, shown
from synib.data.dataset import Dataset, Split
from synib.measure.stats import assign_groups, standardisation
from synib.own.from_arrays import read_npz

Array = np.ndarray[Any, Any]
Table = dict[str, Array]


def read_table(path: Path, features: dict[str, int], others: Sequence[str], classes: int) -> Table:
    """Read and check the columns of an .npz file.

    Args:
        path: The file.
        features: Column of numbers → its number of dimensions.
        others: Columns with one value for each example.
        classes: Number of classes; labels start at 0.
    """
    table = read_npz(path, ("label", *others, *features))
    label = table["label"]
    if label.ndim != 1 or label.dtype.kind not in "iu" or len(label) == 0:
        raise ValueError(f"{path}: label must be whole numbers, one for each example; got {label.dtype} {label.shape}.")
    if outside := sorted(set(label.tolist()) - set(range(classes))):
        raise ValueError(f"{path}: labels must be 0 to {classes - 1}; got {outside[0]}.")
    for name, x in table.items():
        if x.ndim == 0 or len(x) != len(label):
            raise ValueError(
                f"{path}: {name} must have one row for each of {len(label)} labels; it has shape {x.shape}."
            )
        dimensions = features.get(name, 1)
        if x.ndim != dimensions or (dimensions > 1 and x.dtype.kind != "f"):
            kind = f"numbers in {dimensions} dimensions" if dimensions > 1 else "one value for each example"
            raise ValueError(f"{path}: {name} must be {kind}; got {x.dtype} {x.shape}.")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))
            raise ValueError(f"{path}: {name} contains NaN or Inf in {len(bad)} rows, first in row {bad[0]}.")
    return table


def grouped_folds(groups: Iterable[object], folds: int) -> Array:
    """The fold of each example, without randomness: from the largest to the smallest, each group goes to the smallest fold.

    Args:
        groups: The group of each example (its video, its speaker); a group is in one fold only.
        folds: Number of folds.
    """
    names = [str(group) for group in groups]
    counts = Counter(names)
    if len(counts) < folds:
        raise ValueError(f"{folds} folds need at least {folds} groups; got {len(counts)}.")
    largest_first = sorted(counts, key=lambda name: (-counts[name], name))
    sizes = np.array([[counts[name]] for name in largest_first], np.float64)
    fold = dict(zip(largest_first, assign_groups(sizes, np.arange(len(sizes)), folds), strict=True))
    return np.array([fold[name] for name in names])


def standardised(x: dict[str, Array], train: Array) -> dict[str, Array]:
    """Modalities standardised to mean 0 and standard deviation 1 over the training rows (and frames); constant
    features are 0.
    """
    return {name: standardisation(v[train].reshape(-1, v.shape[-1]))(v).astype(np.float32) for name, v in x.items()}


def dataset(
    table: Table, x: dict[str, Array], rows: Sequence[Array], columns: Sequence[str], groups: Sequence[str] = ()
) -> Dataset:
    """Training, validation and test examples of a table.

    Args:
        table: Contains the labels and columns.
        x: The modalities.
        rows: Indices of the training, validation and test examples.
        columns: The columns kept in the splits.
        groups: The columns that become groups, one for each value.
    """
    names = [groups] if isinstance(groups, str) else list(groups)
    for name in names:
        check_choice("groups", name, [column for column in columns if column not in ("id", "transcript")])
    members = {name: rows_in for column in names for name, rows_in in _members(column, table[column], rows[0]).items()}
    for name, part in zip(("train", "validation", "test"), rows, strict=True):
        if len(part) < 2:
            raise ValueError(f"Every split needs at least 2 examples; {name} has {len(part)}.")

    def split(part: Array) -> Split:
        return Split(
            {name: torch.from_numpy(v[part]) for name, v in x.items()},
            torch.from_numpy(table["label"][part].astype(np.int64)),
            {name: rows_in[torch.from_numpy(part)] for name, rows_in in members.items()},
            {name: table[name][part].tolist() for name in columns},
        )

    train, validation, test = map(split, rows)
    return Dataset(train, validation, test)


def _members(column: str, x: Array, train: Array) -> dict[str, Tensor]:
    """Group → which examples are in it: one for each value of a column, or two if there are more than 5 distinct numbers."""
    if x.dtype.kind == "f" and len(np.unique(x)) > 5:
        high = x > np.median(x[train])
        return {f"{column}=low": torch.from_numpy(~high), f"{column}=high": torch.from_numpy(high)}
    return {f"{column}={value:g}" if x.dtype.kind == "f" else f"{column}={value}": torch.from_numpy(x == value)
            for value in np.unique(x)}  # fmt: skip


def check_modalities(modalities: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the modalities if they are at least two of the known ones."""
    names = [modalities] if isinstance(modalities, str) else list(modalities)
    if len(names) < 2 or len(set(names)) != len(names) or not set(names) <= set(known):
        raise ValueError(f"modalities must be at least two of {', '.join(known)}; got {shown(modalities)}.")
    return names


def check_fold(fold: Any, folds: int) -> int:
    """Return the number of a fold if it is valid."""
    if not is_whole(fold) or not 0 <= fold < folds:
        raise ValueError(f"fold must be a whole number from 0 to {folds - 1}; got {shown(fold)}.")
    return int(fold)


def check_values(name: str, table: Table, column: str, known: Iterable[object]) -> None:
    """Raise ``ValueError`` if a column of data set ``name`` has an unknown value."""
    allowed = list(known)
    if unknown := sorted(set(table[column].tolist()) - set(allowed), key=str):
        raise ValueError(f"{name}: {column} must be one of {', '.join(map(str, allowed))}; got {shown(unknown[0])}.")
