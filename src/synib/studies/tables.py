"""Tables of features: an array for each column, a row for each example; folds, standardising and groups."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.checks import check_whole, shown
from synib.data.dataset import Dataset, Split
from synib.own.from_arrays import read_npz

Array = np.ndarray[Any, Any]
Table = dict[str, Array]


def read_table(path: Path, features: dict[str, int], others: Sequence[str], classes: int) -> Table:
    """The columns of an .npz, if they fit together.

    Args:
        path: The file.
        features: Column of numbers → how many dimensions it has.
        others: Columns of one value for each example.
        classes: Labels are 0 to one less.
    """
    table = read_npz(path, ("label", *others, *features))
    label = table["label"]
    if label.ndim != 1 or label.dtype.kind not in "iu" or len(label) == 0:
        raise ValueError(
            f"{path}: label should be whole numbers, one for each example; got {label.dtype} {label.shape}."
        )
    outside = sorted(set(label.tolist()) - set(range(classes)))
    if outside:
        raise ValueError(f"{path}: labels are 0 to {classes - 1}; got {outside[0]}.")
    for name, x in table.items():
        if x.ndim == 0 or len(x) != len(label):
            raise ValueError(f"{path}: {name} should have a row for each of {len(label)} labels; it is {x.shape}.")
        dimensions = features.get(name, 1)
        if x.ndim != dimensions or (dimensions > 1 and x.dtype.kind != "f"):
            kind = f"numbers in {dimensions} dimensions" if dimensions > 1 else "one value for each example"
            raise ValueError(f"{path}: {name} should be {kind}; got {x.dtype} {x.shape}.")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))
            raise ValueError(f"{path}: {name} holds NaN or Inf in {len(bad)} rows, first in row {bad[0]}.")
    return table


def grouped_folds(groups: Iterable[object], folds: int) -> Array:
    """The fold of each example: groups stay whole, and folds are as even as a greedy choice makes them; always the same.

    Args:
        groups: The group of each example (its video, its speaker).
        folds: How many.
    """
    of_example = list(groups)
    sizes = {group: of_example.count(group) for group in dict.fromkeys(of_example)}
    check_whole("folds", folds, least=2)
    if len(sizes) < folds:
        raise ValueError(f"{folds} folds need as many groups; there are {len(sizes)}.")
    filled, fold_of = [0] * folds, {}
    for group in sorted(sizes, key=lambda g: (-sizes[g], str(g))):
        fold_of[group] = int(np.argmin(filled))
        filled[fold_of[group]] += sizes[group]
    return np.array([fold_of[group] for group in of_example])


def standardised(x: dict[str, Array], train: Array) -> dict[str, Array]:
    """Mean 0 and deviation 1 over the training rows (and frames); what is constant there says nothing, and is 0."""
    done = {}
    for name, v in x.items():
        seen = v[train].reshape(-1, v.shape[-1]).astype(np.float64)
        mean, spread = seen.mean(0), seen.std(0)
        constant = spread <= 1e-6 * np.abs(seen).max(0)
        scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, spread))
        done[name] = ((v - mean) * scale).astype(np.float32)
    return done


def dataset(
    table: Table, x: dict[str, Array], rows: Sequence[Array], notes: Sequence[str], groups: Sequence[str] = ()
) -> Dataset:
    """Training, validation and test examples of a table.

    Args:
        table: Where labels and notes are.
        x: The modalities.
        rows: Of training, validation and test.
        notes: Columns that become the splits' ``columns``.
        groups: Those of them that become groups, one for each value.
    """
    wanted = [groups] if isinstance(groups, str) else list(groups)
    possible = [name for name in notes if name not in ("id", "transcript")]
    for name in wanted:
        check_one_of("groups", name, possible)
    members = {name: found for column in wanted for name, found in _members(column, table[column], rows[0]).items()}
    for name, part in zip(("train", "validation", "test"), rows, strict=True):
        if len(part) < 2:
            raise ValueError(f"Every part needs at least 2 examples; {name} has {len(part)}.")

    def split(part: Array) -> Split:
        return Split(
            {name: torch.from_numpy(v[part]) for name, v in x.items()},
            torch.from_numpy(table["label"][part].astype(np.int64)),
            {name: found[torch.from_numpy(part)] for name, found in members.items()},
            {name: table[name][part].tolist() for name in notes},
        )

    train, validation, test = map(split, rows)
    return Dataset(train, validation, test)


def _members(column: str, x: Array, train: Array) -> dict[str, Tensor]:
    """Which examples have each value of a column; a number of many values is cut at its median."""
    if x.dtype.kind == "f" and len(np.unique(x)) > 5:
        high = x > np.median(x[train])
        return {f"{column}=low": torch.from_numpy(~high), f"{column}=high": torch.from_numpy(high)}
    return {f"{column}={value:g}" if x.dtype.kind == "f" else f"{column}={value}": torch.from_numpy(x == value)
            for value in np.unique(x)}  # fmt: skip


def chosen(modalities: Sequence[str], known: Sequence[str]) -> list[str]:
    """The modalities, if they are at least two of those known."""
    names = [modalities] if isinstance(modalities, str) else list(modalities)
    if len(names) < 2 or len(set(names)) != len(names) or not set(names) <= set(known):
        raise ValueError(f"modalities are at least two of {', '.join(known)}; got {shown(modalities)}.")
    return names


def check_one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Raise ``ValueError`` if an option has a value that it cannot have."""
    if value not in known:
        raise ValueError(f"{name} is {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {shown(value)}.")


def check_values(name: str, table: Table, column: str, known: Iterable[object]) -> None:
    """Raise ``ValueError`` if a column of the data set called ``name`` has a value that is not known."""
    allowed = list(known)
    other = sorted(set(table[column].tolist()) - set(allowed), key=str)
    if other:
        raise ValueError(f"{name}: {column} is one of {', '.join(map(str, allowed))}; got {shown(other[0])}.")
