"""From the columns of a user's data and what each is for to the fields of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synib.checks import shown
from synib.own.columns import Source
from synib.own.roles import check_enough, column_of, guessed, label_columns, named, one_value, presence, target_name
from synib.own.suggestions import candidates, notes_of_groups, suggested_groups
from synib.own.targets import Task, check_task, labels_of, target_of
from synib.own.values import (
    check_groups,
    groups_of,
    is_known,
    keep_rows,
    notes_of,
    notes_on_use,
    nuisance_of,
    presence_of,
    rows_of,
    splits_of,
    weights_of,
)

ROWS = 10  # fewer cannot be split into folds


@dataclass(frozen=True)
class Roles:
    """Which column is what, as :func:`synib.own.table.read` has it.

    Args:
        target, modalities, split, group, nuisance, weight, task, order: As there.
        label_names: Names of the labels, where the target is an array with a column for each.
    """

    target: str | None = None
    modalities: Mapping[str, str] | None = None
    split: str | None = None
    group: str | None = None
    nuisance: Sequence[str] = ()
    weight: str | None = None
    task: Task = "auto"
    order: Sequence[Any] | None = None
    label_names: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", check_task(self.task, self.order))
        if not isinstance(self.nuisance, Sequence):
            raise ValueError(f"nuisance are names of columns; got {shown(self.nuisance)}.")
        others = [self.nuisance] if isinstance(self.nuisance, str) else list(self.nuisance)
        object.__setattr__(self, "nuisance", others)


def assemble(source: Source, given: Roles) -> dict[str, Any]:
    """The fields of a table: columns are read, checked, and rows that cannot be used are left out."""
    modalities, nuisance, group, weight, task = given.modalities, given.nuisance, given.group, given.weight, given.task
    predicted = target_name(source) if given.target is None else given.target
    split = source.split if given.split is None else given.split
    labels = label_columns(source, predicted, task)
    roles = [("target", None if labels else predicted), ("split", split), ("group", group), ("weight", weight)]
    roles += [("nuisance", name) for name in nuisance]
    singles = [one_value(source, role, name) for role, name in roles if name is not None]
    if singles.count(predicted) > (not labels) or set(labels) & set(singles):
        raise ValueError(
            f"{source.path}: {predicted} is the target, so it cannot be split, group, weight or nuisance as well."
        )
    vectors = guessed(source, [*singles, *labels]) if modalities is None else named(source, modalities)
    if labels == [predicted] and len(vectors) < 2:
        one_value(source, "target", predicted)  # a modality was named as the target
    check_enough(source, vectors, labels or [predicted])
    flags = {name: flag for name, flag in presence(source, vectors, modalities or {}).items() if flag not in singles}
    needed = list(dict.fromkeys([*singles, *flags.values()]))
    used = {*needed, *labels, *(column for columns in vectors.values() for column in columns)}
    used |= {column for made, columns in source.made_from.items() if made in used for column in columns}
    maybe_groups = [] if group is not None else candidates(source, used)
    of_target = f"{predicted} (target)"
    columns, x = source.load(needed, vectors | ({of_target: labels} if labels else {}), maybe_groups)

    y = x.pop(of_target) if labels else columns[predicted].values
    rows = len(y)
    for name, count in [(n, len(columns[n].values)) for n in needed] + [(n, len(v)) for n, v in x.items()]:
        if count != rows:
            raise ValueError(
                f"{source.path}: {predicted} has {rows:,} rows, {name} {count:,}: they should have as many."
            )
    present = {name: presence_of(source, name, v, columns.get(flags.get(name, ""))) for name, v in x.items()}
    if labels:
        known = np.asarray(~np.isnan(y).any(1))
    elif task == "multilabel" and y.dtype.kind == "U":
        known = np.ones(rows, np.bool_)  # an empty text is a row without a label
    else:
        known = is_known(columns[predicted])
    some = np.any(list(present.values()), axis=0)
    weights = None if weight is None else weights_of(source, weight, columns[weight])
    keep = known & some if weights is None else known & some & (weights > 0)
    if keep.sum() < ROWS:
        raise ValueError(
            f"{source.path} has {keep.sum()} rows that can be used, of {rows}; at least {ROWS} are needed."
        )
    for name, has in present.items():
        if not has[keep].any():
            raise ValueError(f"{source.path}: {name} is missing in every row: leave it out, or give it vectors.")

    notes = notes_of(source, predicted, used, known, some)
    for name in x:
        if source.shared and not (keep & present[name]).all():
            x[name] = x[name].copy()
        x[name][~present[name]] = 0
        if not keep.all():
            x[name], present[name] = keep_rows(x[name], keep), present[name][keep]
    if labels:
        shown_labels = given.label_names or (labels if len(labels) > 1 else range(y.shape[1]))
        found = labels_of(source, predicted, y[keep], [str(label) for label in shown_labels])
    else:
        found = target_of(source, predicted, rows_of(columns[predicted], keep), task, given.order)
    likely = suggested_groups(
        {n: rows_of(c, keep) for n in maybe_groups if (c := columns.get(n)) and len(c.values) == rows}
    )
    groups = None if group is None else groups_of(source, group, rows_of(columns[group], keep))
    if group is not None and groups is not None:
        check_groups(source, group, groups, found)
    return {
        "modalities": x,
        "present": present,
        "target": found.values,
        "classes": found.classes,
        "split": None if split is None else splits_of(source, split, rows_of(columns[split], keep)),
        "group": groups,
        "nuisance": {name: nuisance_of(rows_of(columns[name], keep)) for name in nuisance},
        "source": source.path.name,
        "notes": (
            *source.notes,
            *notes,
            *found.notes,
            *notes_on_use(present, x, found, groups),
            *notes_of_groups(likely),
        ),
        "weight": None if weights is None else weights[keep],
        "kind": found.kind,
        "columns": {name: column_of(source, of) for name, of in vectors.items()},
        "unused": tuple(name for name in source.kinds if name not in used),
        "suggested_groups": tuple(likely),
        "row_numbers": np.flatnonzero(keep),
    }
