"""Build the fields of a table from the columns of a user's data and their roles."""

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
    """The role of each column, as in :func:`synib.own.table.read`.

    Args:
        target, modalities, split, group, nuisance, weight, task, order: As in :func:`synib.own.table.read`.
        label_names: Names of the labels, if the target is an array with one column per label.
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
            raise ValueError(f"nuisance must be a list of column names; got {shown(self.nuisance)}.")
        nuisance = [self.nuisance] if isinstance(self.nuisance, str) else list(self.nuisance)
        object.__setattr__(self, "nuisance", nuisance)


def assemble(source: Source, roles: Roles) -> dict[str, Any]:
    """Read and check the columns, drop rows that cannot be used, and return the fields of a table."""
    modalities, nuisance, group, weight, task = roles.modalities, roles.nuisance, roles.group, roles.weight, roles.task
    predicted = target_name(source) if roles.target is None else roles.target
    split = source.split if roles.split is None else roles.split
    labels = label_columns(source, predicted, task)
    role_columns = [("target", None if labels else predicted), ("split", split), ("group", group), ("weight", weight)]
    role_columns += [("nuisance", name) for name in nuisance]
    singles = [one_value(source, role, name) for role, name in role_columns if name is not None]
    if singles.count(predicted) > (not labels) or set(labels) & set(singles):
        raise ValueError(
            f"{source.path}: {predicted} is the target, so it cannot also be split, group, weight or nuisance."
        )
    vectors = guessed(source, [*singles, *labels]) if modalities is None else named(source, modalities)
    if labels == [predicted] and len(vectors) < 2:
        one_value(source, "target", predicted)  # raises: a modality was named as the target
    check_enough(source, vectors, labels or [predicted])
    flags = {name: flag for name, flag in presence(source, vectors, modalities or {}).items() if flag not in singles}
    needed = list(dict.fromkeys([*singles, *flags.values()]))
    used = {*needed, *labels, *(column for columns in vectors.values() for column in columns)}
    used |= {column for computed, columns in source.made_from.items() if computed in used for column in columns}
    possible_groups = [] if group is not None else candidates(source, used)
    of_target = f"{predicted} (target)"
    columns, x = source.load(needed, vectors | ({of_target: labels} if labels else {}), possible_groups)

    y = x.pop(of_target) if labels else columns[predicted].values
    rows = len(y)
    for name, count in [(n, len(columns[n].values)) for n in needed] + [(n, len(v)) for n, v in x.items()]:
        if count != rows:
            raise ValueError(
                f"{source.path}: {predicted} has {rows:,} rows, but {name} has {count:,}; all columns need equally many."
            )
    present = {name: presence_of(source, name, v, columns.get(flags.get(name, ""))) for name, v in x.items()}
    if labels:
        has_target = np.asarray(~np.isnan(y).any(1))
    elif task == "multilabel" and y.dtype.kind == "U":
        has_target = np.ones(rows, np.bool_)  # an empty text is a row without a label
    else:
        has_target = is_known(columns[predicted])
    has_modality = np.any(list(present.values()), axis=0)
    weights = None if weight is None else weights_of(source, weight, columns[weight])
    keep = has_target & has_modality if weights is None else has_target & has_modality & (weights > 0)
    if keep.sum() < ROWS:
        raise ValueError(f"{source.path} has {keep.sum()} usable rows out of {rows}; at least {ROWS} are needed.")
    for name, has in present.items():
        if not has[keep].any():
            raise ValueError(f"{source.path}: {name} is missing in every row: leave it out, or give it vectors.")

    notes = notes_of(source, predicted, used, has_target, has_modality)
    for name in x:
        if source.shared and not (keep & present[name]).all():
            x[name] = x[name].copy()
        x[name][~present[name]] = 0
        if not keep.all():
            x[name], present[name] = keep_rows(x[name], keep), present[name][keep]
    if labels:
        shown_labels = roles.label_names or (labels if len(labels) > 1 else range(y.shape[1]))
        parsed_target = labels_of(source, predicted, y[keep], [str(label) for label in shown_labels])
    else:
        parsed_target = target_of(source, predicted, rows_of(columns[predicted], keep), task, roles.order)
    likely_groups = suggested_groups(
        {n: rows_of(c, keep) for n in possible_groups if (c := columns.get(n)) and len(c.values) == rows}
    )
    groups = None if group is None else groups_of(source, group, rows_of(columns[group], keep))
    if group is not None and groups is not None:
        check_groups(source, group, groups, parsed_target)
    return {
        "modalities": x,
        "present": present,
        "target": parsed_target.values,
        "classes": parsed_target.classes,
        "split": None if split is None else splits_of(source, split, rows_of(columns[split], keep)),
        "group": groups,
        "nuisance": {name: nuisance_of(rows_of(columns[name], keep)) for name in nuisance},
        "source": source.path.name,
        "notes": (
            *source.notes,
            *notes,
            *parsed_target.notes,
            *notes_on_use(present, x, parsed_target, groups),
            *notes_of_groups(likely_groups),
        ),
        "weight": None if weights is None else weights[keep],
        "kind": parsed_target.kind,
        "columns": {name: column_of(source, vector_columns) for name, vector_columns in vectors.items()},
        "unused": tuple(name for name in source.kinds if name not in used),
        "suggested_groups": tuple(likely_groups),
        "row_numbers": np.flatnonzero(keep),
    }
