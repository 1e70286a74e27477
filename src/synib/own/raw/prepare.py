"""Turn the user's specification of modalities into a source in which all of them are vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from synib.own.assemble import Roles
from synib.own.columns import Source, list_names
from synib.own.raw.embed import Embedded, RawOptions, embed
from synib.own.raw.recognise import content_of, first_cells, recognise
from synib.own.raw.spec import VECTOR, RawModality, check_encoders, encoders_for, parse
from synib.own.roles import column_of, guessed, label_columns, no_column, numbered_prefixes, target_name


@dataclass(frozen=True)
class RawRequest:
    """The user's options for raw columns.

    Args:
        encoders: Modality or kind → the name of an encoder, or several.
        options: Options for reading.
    """

    encoders: Mapping[str, str | Sequence[str]] | None = None
    options: RawOptions = field(default_factory=RawOptions)


def with_vectors(source: Source, roles: Roles, request: RawRequest) -> tuple[Source, Roles]:
    """The source with raw columns encoded, and roles that refer to the vectors; both unchanged if no column is raw."""
    target = target_name(source) if roles.target is None else roles.target
    split = source.split if roles.split is None else roles.split
    labels = label_columns(source, target, roles.task)
    taken = [name for name in (target, split, roles.group, roles.weight, *roles.nuisance) if name is not None] + labels
    known = {*source.kinds, *([target] if labels else [])}
    missing = next((name for name in taken if isinstance(name, str) and name not in known), None)
    if missing is not None:  # checked first, since a misspelled column would otherwise be recognised as a modality
        roles_by_column = {split: "split", roles.group: "group", roles.weight: "weight"}
        raise no_column(source, "target" if missing == target else roles_by_column.get(missing, "nuisance"), missing)
    notes: list[str] = []
    if roles.modalities is None:
        vectors = {name: column_of(source, members) for name, members in guessed(source, taken).items()}
        if len(vectors) >= 2 or not source.is_spreadsheet:
            check_encoders(request.encoders, {})
            return source, roles
        used = [column for members in guessed(source, taken).values() for column in members]
        recognised = recognise(source, [*taken, *used], vectors)
        raw, notes = recognised.modalities, recognised.notes
        if not raw:
            return source, roles
    else:
        vectors, raw = chosen(source, roles.modalities)
        target_modality = next((c for m in raw.values() for c in m.columns if c in (target, *labels)), None)
        if target_modality is not None:
            raise ValueError(f"{source.path}: {target_modality} cannot be both the target and a modality.")
    checked_encoders = check_encoders(request.encoders, raw)
    if not raw:
        return source, roles
    if len(vectors) + len(raw) < 2:
        raise too_few(source, *next(iter(raw.items())), [*taken])
    names = {name: encoders_for(checked_encoders, name, modality.kind) for name, modality in raw.items()}
    embedded = embed(source, raw, names, request.options, split)
    embedded.notes = [*notes, *embedded.notes]
    order = list(roles.modalities or {}) or [*vectors, *raw]
    all_columns = {name: embedded.modalities[name].column if name in raw else vectors[name] for name in order}
    return embedded, replace(roles, modalities=all_columns)


def too_few(source: Source, name: str, modality: RawModality, taken: Sequence[str]) -> ValueError:
    """The error for a single raw modality, with an example of two modalities from the columns of the file."""
    free = [c for c in source.kinds if c not in taken and source.one_value(c)]
    first, *rest = modality.columns if len(modality.columns) > 1 else dict.fromkeys([*modality.columns, *free])
    example = f", for example --modality a={quote(first)} --modality b={quote(','.join(rest))}" if rest else ""
    return ValueError(
        f"{source.path}: at least two modalities are needed; the only one is {name} ({modality.column}). Columns: "
        f"{list_names(list(source.kinds))}. Name modalities with --modality NAME=COLUMN[,COLUMN][:KIND]{example}."
    )


def chosen(source: Source, modalities: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, RawModality]]:
    """The modalities named by a user: those that are vectors, name → column, and those that are raw."""
    vectors: dict[str, str] = {}
    raw: dict[str, RawModality] = {}
    for name, text in modalities.items() if isinstance(modalities, Mapping) else ():
        if not isinstance(text, str):
            vectors[name] = text  # reported where vectors are read
            continue
        columns, kind = parse(source, name, text)
        is_plain = len(columns) == 1 and source.kinds.get(columns[0]) in ("vector", "number")
        if kind == VECTOR or (kind is None and (is_plain or columns[0] in numbered_prefixes(source))):
            vectors[name] = columns[0]
            continue
        for column in columns:
            if column not in source.kinds:
                raise no_column(source, f"the modality {name}", column)
            if not _is_readable(source, column, kind):
                holds = source.describe(column)
                expected = "vectors of numbers, texts, images or sounds" if kind is None else kind
                raise ValueError(f"{source.path}: the modality {name} must be {expected}; {column} holds {holds}.")
        raw[name] = RawModality(kind or _kind(source, columns[0]), columns)  # type: ignore[arg-type]
    return vectors, raw


def _is_readable(source: Source, column: str, kind: str | None) -> bool:
    """Whether a column can be read as this kind; a text in a .csv that begins with a bracket looks like a vector."""
    is_text = kind == "text" and source.cells_are_texts and source.kinds[column] == "vector"
    return source.one_value(column) or column in source.binary or is_text


def _kind(source: Source, column: str) -> str:
    """The kind of a named column, recognised from its first rows."""
    content = content_of(source, column, first_cells(source, [column])[column])
    if content == "empty":
        raise ValueError(
            f"{source.path}: {column} is empty in the first rows: state its kind, for example {column}:text."
        )
    return {"name": "text", "category": "table", "number": "table", "index": "table"}.get(content, content)


def again(source: Source, modalities: Mapping[str, RawModality], options: RawOptions) -> Embedded | None:
    """Encode new rows as in training; ``None`` if the file has none of these columns.

    If a table lacks some of its columns, their values are missing in every row.
    """
    available = {name: m for name, m in modalities.items() if any(c in source.kinds for c in m.columns)}
    return embed(source, available, {}, options) if available else None
