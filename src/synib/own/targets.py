"""The target of a user's data: classes, ordered classes, several labels per row, or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from synib.checks import shown
from synib.own.columns import Array, Column, Source, list_names, list_rows, printable

TargetKind = Literal["classification", "ordinal", "multilabel", "regression"]
Task = Literal["auto", "classification", "ordinal", "multilabel", "regression"]
CLASSES = 50  # integers with more distinct values than this are treated as numbers
LABELS = 1000  # labels, at most: the matrix of rows and labels is in memory
SEPARATORS = (";", "|", ",")  # of the labels of a row
LIKE_MISSING = ("nan", "na", "n/a", "null")  # class names that often stand for a missing value


@dataclass(frozen=True)
class Target:
    """The values to predict.

    Args:
        values: (rows,) int64 numbers of classes, (rows,) float64, or (rows, labels) int64 of 0 and 1.
        kind: Classes, ordered classes, labels or numbers.
        classes: Names of the classes or labels; empty for numbers.
        notes: Notes on how the column was read.
    """

    values: Array
    kind: TargetKind
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def check_task(task: object, order: object = None) -> Task:
    """Validate a task and its order of classes; an order implies ``"ordinal"``."""
    known = get_args(Task)
    if task not in known:
        raise ValueError(f"task must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {shown(task)}.")
    if order is None:
        return task  # type: ignore[return-value]
    if task not in ("auto", "ordinal"):
        raise ValueError(f"An order of classes needs task='ordinal'; got task={task!r}.")
    if isinstance(order, str) or not isinstance(order, Sequence) or len({str(name) for name in order}) < len(order):
        raise ValueError(f"order must be a list of different class names, lowest first; got {shown(order)}.")
    return "ordinal"


def target_of(source: Source, name: str, column: Column, task: Task, order: Sequence[Any] | None = None) -> Target:
    """The target from a column of one value per row without missing values."""
    values = column.values
    if task == "multilabel":
        return _separated(source, name, column)
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(f"{source.path}: {name} is infinite in {list_rows(np.flatnonzero(np.isinf(values)))}.")
    different, numbers = np.unique(values, return_inverse=True)
    are_integers = values.dtype.kind in "iu" or (
        values.dtype.kind == "f" and bool((different == np.trunc(different)).all())
    )
    if len(different) == 1:
        raise ValueError(f"{source.path}: {name} is {different[0]} in every row: there is nothing to predict.")
    if task == "regression" and values.dtype.kind == "U":
        raise ValueError(
            f"{source.path}: {name} holds texts such as {str(different[0])!r}, but a regression needs numbers."
        )
    few = 2 * len(different) <= len(values)
    as_classes = values.dtype.kind in "bU" or bool(column.names) or (are_integers and few and len(different) <= CLASSES)
    if task == "regression" or (task == "auto" and not as_classes):
        if values.dtype.kind in "iu" and np.abs(different.astype(np.float64)).max() > 2**53:
            raise ValueError(
                f"{source.path}: {name} contains integers beyond 2^53, which cannot be represented exactly."
            )
        how = "" if task == "regression" else "; use --task classification to treat its values as classes"
        note = f"{name} is treated as a number (regression){how}."
        return Target(values.astype(np.float64), "regression", (), (note,))
    if not few:
        raise ValueError(f"{source.path}: {name} has {len(different):,} classes in {len(values):,} rows, too many to learn: "
                         "check that it is the target.")  # fmt: skip
    classes = tuple(_class(value, column.names) for value in different.tolist())
    if len(set(classes)) < len(classes):
        raise ValueError(f"{source.path}: {name} has two classes with the same name among {list_names(classes)}.")
    numbers = numbers.astype(np.int64).reshape(-1)
    if task == "ordinal":
        return _ordered(source, name, numbers, classes, order, values.dtype.kind == "U")
    notes = [f"{name} is treated as {len(classes)} classes: {list_names(classes)}."]
    joined = next((mark for mark in SEPARATORS[:2] if any(mark in text for text in classes)), None)
    if task == "auto" and joined and values.dtype.kind == "U":
        notes.append(f"{name} has {joined!r} in some classes: if it separates labels, use --task multilabel.")
    if missing := [text for text in classes if values.dtype.kind == "U" and text.lower() in LIKE_MISSING]:
        notes.append(
            f"{name} has the class {list_names(missing)}: if it stands for a missing value, leave those cells empty."
        )
    return Target(numbers, "classification", classes, tuple(notes))


def _ordered(
    source: Source, name: str, numbers: Array, classes: tuple[str, ...], order: Sequence[Any] | None, are_texts: bool
) -> Target:
    """A target of ordered classes, in the order of their numbers or in the given order."""
    if order is None:
        if are_texts:
            raise ValueError(f"{source.path}: {name} holds texts ({list_names(classes)}), whose order is unknown: give it, "
                             "lowest first, as order=['low', 'middle', 'high'].")  # fmt: skip
        note = f"{name} is treated as {len(classes)} ordered classes: {' < '.join(classes[:12])}"
        return Target(numbers, "ordinal", classes, (f"{note}{' < …' if len(classes) > 12 else ''}.",))
    ranked = [_class(rank, ()) for rank in order]
    unknown = [c for c in classes if c not in ranked]
    if unknown:
        raise ValueError(f"{source.path}: {name} also has {list_names(unknown)}, which the order {list_names(ranked)} "
                         "does not name.")  # fmt: skip
    used = tuple(rank for rank in ranked if rank in classes)
    place = np.array([used.index(c) for c in classes])
    notes = [f"{name} is treated as {len(used)} ordered classes: {' < '.join(used[:12])}{' < …' * (len(used) > 12)}."]
    if len(used) < len(ranked):
        notes.append(
            f"No row has the class {list_names([rank for rank in ranked if rank not in used])}, so it is left out."
        )
    return Target(place[numbers], "ordinal", used, tuple(notes))


def labels_of(source: Source, name: str, flags: Array, labels: Sequence[str]) -> Target:
    """The target from 0 and 1 for each row and label.

    Args:
        source, name: For messages.
        flags: (rows, labels).
        labels: Names of the labels.
    """
    if len(labels) != flags.shape[1]:
        raise ValueError(f"{source.path}: there are {len(labels)} names for {flags.shape[1]} labels of {name}.")
    wrong = np.flatnonzero(~np.isin(flags, (0, 1)).all(1))
    if len(wrong):
        content = source.describe(name) if name in source.kinds else f"{flags.shape[1]} numbers per row"
        raise ValueError(f"{source.path}: target must be a column with one value per row; {name} holds {content}. Several "
                         f"columns are read as labels, which must be 0 or 1; {list_rows(wrong)} has other values.")  # fmt: skip
    return _multilabel(source, name, flags.astype(np.int64), tuple(labels), [])


def _separated(source: Source, name: str, column: Column) -> Target:
    """Labels from texts such as "cat;dog"; an empty text is a row without a label."""
    if column.values.dtype.kind != "U":
        raise ValueError(f"{source.path}: {name} must hold texts of labels such as 'cat;dog', or be columns {name}_0, "
                         f"{name}_1, … or an array of 0 and 1 with a column per label.")  # fmt: skip
    texts = column.values.tolist()
    mark = next((mark for mark in SEPARATORS if any(mark in text for text in texts)), SEPARATORS[0])
    rows = [{printable(label.strip()) for label in text.split(mark)} - {""} for text in texts]
    labels = sorted(set().union(*rows))
    if len(labels) > LABELS:
        raise _too_many(source, name, len(labels))
    place = {label: number for number, label in enumerate(labels)}
    flags = np.zeros((len(rows), len(labels)), np.int64)
    for row, of_row in enumerate(rows):
        flags[row, [place[label] for label in of_row]] = 1
    notes = [f"The labels of a row are separated by {mark!r}."]
    empty = np.flatnonzero([not of_row for of_row in rows])
    if len(empty):
        notes.append(f"{name} is empty in {list_rows(empty)}, so no label is assigned there.")
    return _multilabel(source, name, flags, tuple(labels), notes)


def _multilabel(source: Source, name: str, flags: Array, labels: tuple[str, ...], notes: list[str]) -> Target:
    if len(labels) > LABELS:
        raise _too_many(source, name, len(labels))
    if len(set(labels)) < len(labels):
        raise ValueError(f"{source.path}: {name} has two labels with the same name among {list_names(labels)}.")
    rates = flags.mean(0) if len(labels) else np.zeros(0)
    varies = (rates > 0) & (rates < 1)
    for constant, rows_with_label in ((rates == 0, "no row"), (rates == 1, "every row")):
        if constant.any():
            left_out = [label for label, out in zip(labels, constant, strict=True) if out]
            notes.append(f"Labels left out, because {rows_with_label} has them: {list_names(left_out)}.")
    kept = tuple(label for label, keep in zip(labels, varies, strict=True) if keep)
    if len(kept) < 2:
        raise ValueError(f"{source.path}: {name} has {len(kept)} label{'s' * (len(kept) != 1)} that some rows have and "
                         "others do not; at least two are needed for task='multilabel'.")  # fmt: skip
    count = flags[:, varies].sum(1)
    notes.insert(0, f"{name} is treated as {len(kept)} labels (multi-label), {count.min()} to {count.max()} a row, "
                 f"{count.mean():.3g} on average: {list_names(kept)}.")  # fmt: skip
    return Target(np.ascontiguousarray(flags[:, varies]), "multilabel", kept, tuple(notes))


def _too_many(source: Source, name: str, count: int) -> ValueError:
    return ValueError(
        f"{source.path}: {name} has {count:,} labels; at most {LABELS:,} are supported: check that it is the target."
    )


def _class(value: Any, names: tuple[str, ...]) -> str:
    if names and isinstance(value, int) and 0 <= value < len(names):
        return printable(names[value])
    return str(int(value)) if isinstance(value, float) and value.is_integer() else printable(str(value))
