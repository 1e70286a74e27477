"""A user's own data: two or more modalities as vectors, what is to be predicted, and what else is known of each row."""

import difflib
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from synib.checks import shown
from synib.own import from_arrays as own_arrays
from synib.own import from_arrow as own_arrow
from synib.own import from_csv as own_csv
from synib.own.columns import STEP, Array, Column, Source, names_said, rows_said
from synib.own.roles import check_enough, guessed, named, one_value, presence, target_name

Task = Literal["auto", "classification", "regression"]
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
          "dev": "validation", "test": "test", "testing": "test"}  # fmt: skip
ROWS = 10  # fewer cannot be split into parts that say anything
CLASSES = 50  # whole numbers of more values than this are taken for numbers


@dataclass(frozen=True)
class Table:
    """A user's own data: for each row the modalities it has, what is to be predicted, and what else is known.

    Args:
        modalities: Name → (rows, width) of float32 or float16, possibly pages of the file; rows without it are 0.
        present: Name → (rows,) of bool.
        target: (rows,) of int64, the number of a class; or of float64, for numbers.
        classes: Names of the classes in the order of their numbers; none for numbers.
        split: (rows,) of ``"train"``, ``"validation"`` or ``"test"``, if the user said it.
        group: (rows,) of texts: what must not be in two parts of the data.
        nuisance: Name → (rows,) as given.
        source: The file's name.
        notes: What a user should know: rows left out, columns not used, kinds guessed.
    """

    modalities: Mapping[str, Array]
    present: Mapping[str, Array]
    target: Array
    classes: tuple[str, ...]
    split: Array | None
    group: Array | None
    nuisance: Mapping[str, Array]
    source: str
    notes: tuple[str, ...]


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    modalities: Mapping[str, str] | None = None,
    split: str | None = None,
    group: str | None = None,
    nuisance: Sequence[str] = (),
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
        task: ``"auto"`` takes texts, truth values and few whole numbers for classes, everything else for numbers.
    """
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task is 'auto', 'classification' or 'regression'; got {shown(task)}.")
    if not isinstance(nuisance, Sequence):
        raise ValueError(f"nuisance are names of columns; got {shown(nuisance)}.")
    others = [nuisance] if isinstance(nuisance, str) else list(nuisance)
    with _sentences(path):
        return _table(_opened(path), target, modalities, split, group, others, task)


def read_modalities(
    path: str | os.PathLike[str], choose: Callable[[Source], Mapping[str, str]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Modalities alone, of rows that nobody knows the target of: name → (rows, width), and name → which rows have it.

    Args:
        path: As for :func:`read`.
        choose: From what is in the file to name → its column, or the prefix of its numbered columns.
    """
    with _sentences(path):
        source = _opened(path)
        wanted = choose(source)
        vectors = named(source, wanted)
        flags = presence(source, vectors, wanted)
        singles, x = source.load(list(dict.fromkeys(flags.values())), vectors)
        return x, {name: _present(source, name, v, singles.get(flags.get(name, ""))) for name, v in x.items()}


@contextmanager
def _sentences(path: object) -> Iterator[None]:
    """What a machine says of a file that cannot be read, in a sentence."""
    try:
        yield
    except MemoryError as e:
        raise ValueError(f"{path} does not fit into memory, or is damaged.") from e
    except OSError as e:
        raise ValueError(f"{path} cannot be read: {e.strerror or e}.") from e


def _opened(given: str | os.PathLike[str]) -> Source:
    if not isinstance(given, str | os.PathLike) or not str(given) or "\0" in str(given):
        raise ValueError(f"path is that of a file or a folder; got {shown(given)}.")
    path = Path(given)
    if path.is_dir():
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            return own_arrow.HuggingFace(path)
        arrays = sorted(path.glob("*.npy"))
        if not arrays:
            raise ValueError(f"The folder {path} holds neither .npy files nor what datasets' save_to_disk writes.")
        return own_arrays.npy_folder(path, arrays)
    readers = {".npz": own_arrays.npz, ".safetensors": own_arrays.safetensors, ".csv": own_csv.CSV,
               ".parquet": own_arrow.Parquet}  # fmt: skip
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
    task: Task,
) -> Table:
    predicted = target_name(source) if target is None else target
    split = source.split if split is None else split
    roles = [("target", predicted), ("split", split), ("group", group), *(("nuisance", name) for name in nuisance)]
    singles = [one_value(source, role, name) for role, name in roles if name is not None]
    if singles.count(predicted) > 1:
        raise ValueError(f"{source.path}: {predicted} is the target, so it cannot be split, group or nuisance as well.")
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
    present = {name: _present(source, name, v, columns.get(flags.get(name, ""))) for name, v in x.items()}
    known, some = _known(columns[predicted]), np.any(list(present.values()), axis=0)
    keep = known & some
    if keep.sum() < ROWS:
        raise ValueError(
            f"{source.path} has {keep.sum()} rows that can be used, of {rows}; at least {ROWS} are needed."
        )

    notes = _notes(source, predicted, vectors, [*singles, *flags.values()], known, some)
    for name in x:
        x[name][~present[name]] = 0
        if not keep.all():
            x[name], present[name] = _kept(x[name], keep), present[name][keep]
    y, classes, guess = _target(source, predicted, _rows(columns[predicted], keep), task)
    missing = [f"{name} is missing in {n:,} of {len(y):,} rows." for name in x if (n := int((~present[name]).sum()))]
    return Table(
        x,
        present,
        y,
        classes,
        None if split is None else _splits(source, split, _rows(columns[split], keep)),
        None if group is None else _groups(source, group, _rows(columns[group], keep)),
        {name: _as_given(_rows(columns[name], keep)) for name in nuisance},
        source.path.name,
        (*notes, guess, *missing),
    )


def _present(source: Source, name: str, x: Array, flag: Column | None) -> Array:
    """Which rows have a modality; a vector that is neither whole nor missing as a whole is refused."""
    if not x.shape[1]:
        raise ValueError(f"{source.path}: the vectors of {name} have no numbers.")
    said = None
    if flag is not None:
        said = flag.values.astype(np.bool_) if flag.values.dtype.kind != "U" else None
        if said is None or not flag.there.all() or not np.isin(flag.values, (0, 1)).all():
            raise ValueError(f"{source.path}: {name}_present should be true or false in every row.")
    whole, empty, infinite = (np.empty(len(x), np.bool_) for _ in range(3))
    for start, block in _blocks(x):
        rows = slice(start, start + len(block))
        nan = np.isnan(block)
        empty[rows], infinite[rows] = nan.all(1), np.isinf(block).any(1)
        whole[rows] = ~nan.any(1)
    asked = np.ones(len(x), np.bool_) if said is None else said
    for wrong, what in (
        (infinite & asked, "infinite numbers, or such as no float32 holds,"),
        (~whole & ~empty & asked, "NaN (or empty cells) beside numbers"),
    ):
        if wrong.any():
            raise ValueError(f"{source.path}: {name} has {what} in {rows_said(np.flatnonzero(wrong))}: a row has all numbers "
                             "of a modality or none.")  # fmt: skip
    if said is not None and (said & empty).any():
        raise ValueError(
            f"{source.path}: {name} should be there in {rows_said(np.flatnonzero(said & empty))}, but is NaN."
        )
    return ~empty & asked


def _blocks(x: Array) -> Iterator[tuple[int, Array]]:
    """Some rows at a time; pages of a file go back once they are looked at, so that looking does not load it."""
    pages: Any = x
    while isinstance(pages, np.ndarray):
        pages = pages.base
    for start in range(0, len(x), STEP):
        yield start, x[start : start + STEP]
        if isinstance(pages, mmap.mmap) and hasattr(pages, "madvise"):
            pages.madvise(mmap.MADV_DONTNEED)


def _kept(x: Array, keep: Array) -> Array:
    """These rows, moved to the front of the array that they are in: a copy would hold them twice."""
    end = 0
    for start in range(0, len(x), STEP):
        block = x[start : start + STEP][keep[start : start + STEP]]
        x[end : end + len(block)] = block
        end += len(block)
    return x[:end]


def _rows(column: Column, keep: Array) -> Column:
    return Column(column.values[keep], column.there[keep], column.names)


def _known(column: Column) -> Array:
    return column.there & ~np.isnan(column.values) if column.values.dtype.kind == "f" else column.there


def _target(source: Source, name: str, column: Column, task: Task) -> tuple[Array, tuple[str, ...], str]:
    values = column.values
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(f"{source.path}: {name} is infinite in {rows_said(np.flatnonzero(np.isinf(values)))}.")
    different, numbers = np.unique(values, return_inverse=True)
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((different == np.trunc(different)).all()))
    if len(different) == 1:
        raise ValueError(f"{source.path}: {name} is {different[0]} in every row: there is nothing to predict.")
    if task == "regression" and values.dtype.kind == "U":
        raise ValueError(
            f"{source.path}: {name} holds texts such as {str(different[0])!r}, and a regression needs numbers."
        )
    few = 2 * len(different) <= len(values)
    as_classes = values.dtype.kind in "bU" or bool(column.names) or (whole and few and len(different) <= CLASSES)
    if task == "regression" or (task == "auto" and not as_classes):
        if values.dtype.kind in "iu" and np.abs(different.astype(np.float64)).max() > 2**53:
            raise ValueError(f"{source.path}: {name} holds whole numbers beyond 2^53, too large to be told apart.")
        how = "" if task == "regression" else ": task='classification' takes its values for classes"
        return values.astype(np.float64), (), f"{name} is taken for a number to predict{how}."
    if not few:
        raise ValueError(f"{source.path}: {name} has {len(different):,} classes in {len(values):,} rows, too many to learn: "
                         "is it the target?")  # fmt: skip
    classes = tuple(_class(value, column.names) for value in different.tolist())
    if len(set(classes)) < len(classes):
        raise ValueError(f"{source.path}: {name} has two classes of one name among {names_said(classes)}.")
    return (
        numbers.astype(np.int64).reshape(-1),
        classes,
        f"{name} is taken for {len(classes)} classes: {names_said(classes)}.",
    )


def _class(value: Any, names: tuple[str, ...]) -> str:
    if names and isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _splits(source: Source, name: str, column: Column) -> Array:
    given = [text.strip().lower() for text in column.values.astype(np.str_).tolist()]
    wrong = np.array([text not in SPLITS for text in given]) | ~column.there
    if wrong.any():
        raise ValueError(
            f"{source.path}: {name} should be train, validation or test in every row; it is "
            f"{shown(given[int(np.argmax(wrong))])} or another thing in {rows_said(np.flatnonzero(wrong))}."
        )
    return np.array([SPLITS[text] for text in given])


def _groups(source: Source, name: str, column: Column) -> Array:
    unknown = np.flatnonzero(~_known(column))
    if len(unknown):
        raise ValueError(f"{source.path}: {name} is missing in {rows_said(unknown)}: give each row a group.")
    return column.values.astype(np.str_)


def _as_given(column: Column) -> Array:
    if column.there.all() or column.values.dtype.kind == "U":
        return column.values
    return np.where(column.there, column.values, np.nan)


def _notes(
    source: Source,
    target: str,
    vectors: Mapping[str, Sequence[str]],
    used: Sequence[str],
    known: Array,
    some: Array,
) -> list[str]:
    said = []
    if not known.all():
        said.append(f"Left out, because {target} is missing: {rows_said(np.flatnonzero(~known))}.")
    if not some[known].all():
        said.append(f"Left out, because they have no modality: {rows_said(np.flatnonzero(known & ~some))}.")
    all_used = {*used, *(column for columns in vectors.values() for column in columns)}
    unused = [name for name in source.kinds if name not in all_used and source.kinds[name] != "other"]
    unfit = [name for name in source.kinds if name not in all_used and source.kinds[name] == "other"]
    if unfit:
        said.append(f"No vectors, so not used: {names_said([f'{name} ({source.said(name)})' for name in unfit])}.")
    if unused:
        said.append(f"Columns that are not used: {names_said(unused)}.")
    return said
