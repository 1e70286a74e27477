"""New rows for a model: its modalities in a file, encoded as in training, and identifying columns."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from synib.own.columns import Array, Column, Source, list_names
from synib.own.from_memory import frame
from synib.own.opening import one_kind_of_error, open_source
from synib.own.predictor import Predictor
from synib.own.raw import catalogue
from synib.own.raw.embed import Embedded, RawOptions
from synib.own.raw.prepare import again
from synib.own.raw.spec import RawModality, parse
from synib.own.roles import named, presence
from synib.own.values import presence_of, printable_values

IDENTIFIERS = 32  # columns of one value that are kept, at most


class NewRows(NamedTuple):
    """Rows without a target.

    Args:
        modalities: Name → (rows, width).
        present: Name → which rows have it.
        beside: Columns of one value per row that no modality uses, to be written with the predictions.
        notes: Sentences on values that are missing or cannot be read.
    """

    modalities: dict[str, Array]
    present: dict[str, Array]
    beside: dict[str, Column]
    notes: list[str]


def read_rows(
    source: Source, choose: Callable[[Source], Mapping[str, str]], *, identifiers: bool = False
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Column]]:
    """Read modalities without a target.

    Args:
        source: The data.
        choose: A function of the source that returns name → its column, or the prefix of its numbered columns.
        identifiers: Whether to read columns of one value per row that no modality uses: at most 32, and none with texts of
            more than 256 characters.

    Returns:
        Name → ``(rows, width)``; name → which rows have it; and the identifying columns.
    """
    chosen = choose(source)
    vectors = named(source, chosen)
    flags = presence(source, vectors, chosen)
    used = {*flags.values(), *(column for columns in vectors.values() for column in columns)}
    used |= {column for computed, columns in source.made_from.items() if computed in used for column in columns}
    others = [name for name in source.kinds if name not in used and source.one_value(name)] if identifiers else []
    singles, x = source.load(list(dict.fromkeys(flags.values())), vectors, others[:IDENTIFIERS])
    rows = len(next(iter(x.values()))) if x else 0
    present = {name: presence_of(source, name, v, singles.get(flags.get(name, ""))) for name, v in x.items()}
    beside = {n: c for n in others if (c := singles.get(n)) and len(c.values) == rows}
    return x, present, {n: Column(printable_values(c.values), c.present, c.names) for n, c in beside.items()}


def new_rows(
    model: Predictor,
    data: str | os.PathLike[str] | Any,
    columns: Mapping[str, str] | None = None,
    options: RawOptions | None = None,
) -> NewRows:
    """The model's modalities that a file or a DataFrame has; arguments as for :func:`encoded_rows`."""
    return encoded_rows(model, data, columns, options)[0]


def encoded_rows(
    model: Predictor,
    data: str | os.PathLike[str] | Any,
    columns: Mapping[str, str] | None = None,
    options: RawOptions | None = None,
) -> tuple[NewRows, Embedded | None]:
    """The model's modalities in a file or a DataFrame, and the encoded source, if the model has raw modalities.

    Args:
        model: The model.
        data: A path, as for :func:`synib.read`, or a pandas DataFrame.
        columns: Modality → its column, if its name differs from that in the training file.
        options: Options for reading raw columns.
    """
    named_columns, options = dict(columns or {}), options or RawOptions()
    for name in named_columns:
        if name not in model.widths:
            raise ValueError(f"The model has no modality {name!r}: its modalities are {', '.join(model.widths)}.")
    label = "The DataFrame" if hasattr(data, "iloc") else data
    with one_kind_of_error(label):
        source = frame(data) if hasattr(data, "iloc") else open_source(data)
        raw = {
            name: _renamed(source, name, modality, named_columns.pop(name, None))
            for name, modality in catalogue.moved(model.raw, options.moved).items()
        }
        embedded = again(source, raw, options) if raw else None
        notes = [] if embedded is None else list(embedded.notes)
        for name, modality in raw.items():
            absent = [c for c in modality.columns if c not in source.kinds]
            if absent and len(absent) < len(modality.columns):
                notes.append(f"{name}: {list_names(absent)} is not in {label} and is treated as missing in every row.")
        column_of = {name: modality.column for name, modality in raw.items()} | named_columns
        x, present, beside = read_rows(
            embedded or source, lambda opened: _columns(model, opened, column_of, str(label)), identifiers=True
        )
    lacking = {name: int((~has).sum()) for name, has in present.items()}
    notes += [
        f"{name} is not in {label}, so predictions are made without it. If a column has another name there, use "
        f"--modality {name}=COLUMN."
        for name in model.widths
        if name not in x
    ]
    notes += [f"{name} is missing in {n:,} of {len(x[name]):,} rows." for name, n in lacking.items() if n]
    return NewRows(x, present, beside, notes), embedded


def _columns(model: Predictor, source: Source, column_of: Mapping[str, str], label: str) -> dict[str, str]:
    """Modality → its column in the file: as named by the user, as in training, or of the same name."""
    plain = {column.replace(".", "_"): column for column in source.kinds}
    stored = model.about.get("columns")
    fitted = {k: v for k, v in stored.items() if isinstance(v, str)} if isinstance(stored, dict) else {}
    likely = {name: column_of.get(name, fitted.get(name, plain.get(name, name))) for name in model.widths}
    required = {name: column for name, column in column_of.items() if name not in model.raw}
    existing = {name: c for name, c in likely.items() if {c, f"{c}_0", f"{c}_1"} & source.kinds.keys()} | required
    if not existing:
        raise ValueError(
            f"{label} has none of the model's modalities ({', '.join(likely.values())}): name them with --modality NAME=COLUMN."
        )
    return existing


def _renamed(source: Source, name: str, modality: RawModality, column: str | None) -> RawModality:
    """The modality with its column in this file, if that has another name."""
    if column is None:
        return modality
    columns, kind = parse(source, name, column)
    if kind not in (None, modality.kind) or len(columns) != len(modality.columns):
        raise ValueError(
            f"{name} was {modality.column} in training and needs as many columns of the same kind; got {column}."
        )
    return replace(modality, columns=columns)
