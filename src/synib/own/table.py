"""A user's own data: two or more modalities as vectors, what is to be predicted, and what else is known of each row."""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from synib.checks import shown
from synib.own.columns import Array, Source
from synib.own.from_arrays import npy_folder, npz, safetensors
from synib.own.from_arrow import HuggingFace, Parquet
from synib.own.from_csv import CSV
from synib.own.roles import check_enough, guessed, named, one_value, presence, target_name
from synib.own.values import (
    Task,
    groups_of,
    is_known,
    keep_rows,
    notes_of,
    nuisance_of,
    presence_of,
    rows_of,
    splits_of,
    target_of,
    weights_of,
)

ROWS = 10  # fewer cannot be split into folds


@dataclass(frozen=True)
class Table:
    """A user's own data: for each row the modalities it has, what is to be predicted, and what else is known.

    Args:
        modalities: Name → (rows, width) of float32 or float16, possibly pages of the file; rows without it are 0.
        present: Name → (rows,) of bool.
        target: (rows,) of int64, the number of a class; or of float64, for numbers.
        classes: Names of the classes in the order of their numbers; none for numbers.
        split: (rows,) of ``"train"``, ``"validation"`` or ``"test"``, if the data have a split.
        group: (rows,) of texts: what must not be in two parts of the data.
        nuisance: Name → (rows,) of what should not matter.
        weight: (rows,) of how much each row counts in training and in choosing; equally by default.
        source: The file's name.
        notes: Rows left out, columns not used, kinds guessed.
    """

    modalities: Mapping[str, Array]
    present: Mapping[str, Array]
    target: Array
    classes: tuple[str, ...]
    split: Array | None = None
    group: Array | None = None
    nuisance: Mapping[str, Array] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()
    weight: Array | None = None


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    modalities: Mapping[str, str] | None = None,
    split: str | None = None,
    group: str | None = None,
    nuisance: Sequence[str] = (),
    weight: str | None = None,
    task: Task = "auto",
) -> Table:
    """Read a user's own data; whatever is wrong with them is one ``ValueError``, and nothing is ever unpickled.

    Args:
        path: ``.npz``, ``.safetensors``, ``.csv``, ``.parquet``, a folder of ``.npy`` files, or one that Hugging Face's
            ``datasets`` saved.
        target: The column to predict; ``None`` is the one called label, target or y.
        modalities: Name → its column, or the prefix of its numbered columns (``image`` for ``image_0``, ``image_1``, …);
            ``None`` takes all there are.
        split: The column that says train, validation or test.
        group: The column of what must stay together (speaker, patient, video).
        nuisance: Columns that should not matter.
        weight: The column of how much each row counts in training and in choosing; rows of weight 0 are left out.
        task: ``"auto"`` takes texts, truth values and few whole numbers for classes, everything else for numbers.
    """
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task is 'auto', 'classification' or 'regression'; got {shown(task)}.")
    if not isinstance(nuisance, Sequence):
        raise ValueError(f"nuisance are names of columns; got {shown(nuisance)}.")
    others = [nuisance] if isinstance(nuisance, str) else list(nuisance)
    with _one_kind_of_error(path):
        return _table(_open(path), target, modalities, split, group, others, weight, task)


def read_modalities(
    path: str | os.PathLike[str], choose: Callable[[Source], Mapping[str, str]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Modalities without a target: name → (rows, width), and name → which rows have it.

    Args:
        path: As for :func:`read`.
        choose: From what is in the file to name → its column, or the prefix of its numbered columns.
    """
    with _one_kind_of_error(path):
        source = _open(path)
        chosen = choose(source)
        vectors = named(source, chosen)
        flags = presence(source, vectors, chosen)
        singles, x = source.load(list(dict.fromkeys(flags.values())), vectors)
        return x, {name: presence_of(source, name, v, singles.get(flags.get(name, ""))) for name, v in x.items()}


@contextmanager
def _one_kind_of_error(path: object) -> Iterator[None]:
    """A file that cannot be read raises ``ValueError``, whatever the reason."""
    try:
        yield
    except MemoryError as e:
        raise ValueError(f"{path} does not fit into memory, or is damaged.") from e
    except OSError as e:
        raise ValueError(f"{path} cannot be read: {e.strerror or e}.") from e


def _open(given: str | os.PathLike[str]) -> Source:
    if not isinstance(given, str | os.PathLike) or not str(given) or "\0" in str(given):
        raise ValueError(f"path is that of a file or a folder; got {shown(given)}.")
    path = Path(given)
    if path.is_dir():
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            return HuggingFace(path)
        arrays = sorted(path.glob("*.npy"))
        if not arrays:
            raise ValueError(f"The folder {path} holds neither .npy files nor what datasets' save_to_disk writes.")
        return npy_folder(path, arrays)
    readers = {".npz": npz, ".safetensors": safetensors, ".csv": CSV, ".parquet": Parquet}
    if not path.exists():
        folder = path.parent if path.parent.is_dir() else Path()
        near = difflib.get_close_matches(path.name, (entry.name for entry in folder.iterdir()), 1)
        raise ValueError(f"{path} is not there{f'; did you mean {folder / near[0]}' if near else ''}.")
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path} should end in {', '.join(readers)}, or be a folder; it ends in {path.suffix!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return readers[path.suffix.lower()](path)


def _table(
    source: Source,
    target: str | None,
    modalities: Mapping[str, str] | None,
    split: str | None,
    group: str | None,
    nuisance: Sequence[str],
    weight: str | None,
    task: Task,
) -> Table:
    predicted = target_name(source) if target is None else target
    split = source.split if split is None else split
    roles = [("target", predicted), ("split", split), ("group", group), ("weight", weight)]
    roles += [("nuisance", name) for name in nuisance]
    singles = [one_value(source, role, name) for role, name in roles if name is not None]
    if singles.count(predicted) > 1:
        raise ValueError(
            f"{source.path}: {predicted} is the target, so it cannot be split, group, weight or nuisance as well."
        )
    vectors = guessed(source, singles) if modalities is None else named(source, modalities)
    check_enough(source, vectors, predicted)
    flags = {name: flag for name, flag in presence(source, vectors, modalities or {}).items() if flag not in singles}
    columns, x = source.load(list(dict.fromkeys([*singles, *flags.values()])), vectors)

    rows = len(columns[predicted].values)
    for name, count in [(n, len(c.values)) for n, c in columns.items()] + [(n, len(v)) for n, v in x.items()]:
        if count != rows:
            raise ValueError(
                f"{source.path}: {predicted} has {rows:,} rows, {name} {count:,}: they should have as many."
            )
    present = {name: presence_of(source, name, v, columns.get(flags.get(name, ""))) for name, v in x.items()}
    known, some = is_known(columns[predicted]), np.any(list(present.values()), axis=0)
    weights = None if weight is None else weights_of(source, weight, columns[weight])
    keep = known & some if weights is None else known & some & (weights > 0)
    if keep.sum() < ROWS:
        raise ValueError(
            f"{source.path} has {keep.sum()} rows that can be used, of {rows}; at least {ROWS} are needed."
        )

    notes = notes_of(source, predicted, vectors, [*singles, *flags.values()], known, some)
    for name in x:
        x[name][~present[name]] = 0
        if not keep.all():
            x[name], present[name] = keep_rows(x[name], keep), present[name][keep]
    y, classes, guess = target_of(source, predicted, rows_of(columns[predicted], keep), task)
    missing = [f"{name} is missing in {n:,} of {len(y):,} rows." for name in x if (n := int((~present[name]).sum()))]
    return Table(
        x,
        present,
        y,
        classes,
        None if split is None else splits_of(source, split, rows_of(columns[split], keep)),
        None if group is None else groups_of(source, group, rows_of(columns[group], keep)),
        {name: nuisance_of(rows_of(columns[name], keep)) for name in nuisance},
        source.path.name,
        (*notes, guess, *missing),
        None if weights is None else weights[keep],
    )
