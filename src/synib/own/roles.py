"""The roles of the columns in a user's file: named by the user, or guessed."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from synib.checks import check_modality, shown
from synib.own.columns import Source, first_repeated, list_names
from synib.own.targets import Task

TARGETS = ("label", "target", "y")
MOST_MODALITIES = 64


def no_column(source: Source, role: str, name: object) -> ValueError:
    columns = list(source.kinds)
    lower = {column.lower(): column for column in reversed([*columns, *_numbered(source, ())])}
    suggestions = difflib.get_close_matches(str(name).lower(), lower, 3)
    hint = f"did you mean {' or '.join(lower[column] for column in suggestions)}? It" if suggestions else "it"
    return ValueError(f"{source.path} has no column {shown(name)} for {role}; {hint} has {list_names(columns)}.")


def one_value(source: Source, role: str, name: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{role} must be the name of a column; got {shown(name)}.")
    if name not in source.kinds:
        raise no_column(source, role, name)
    if not source.one_value(name):
        raise ValueError(
            f"{source.path}: {role} must be a column with one value per row; {name} holds {source.describe(name)}."
        )
    return name


def target_name(source: Source) -> str:
    numbered = _numbered(source, ())
    candidates = [name for name in TARGETS if name in source.kinds] or [name for name in TARGETS if name in numbered]
    if len(candidates) != 1:
        why = (
            f"{' and '.join(candidates)} could both be the target"
            if candidates
            else "no target was given, and no column is called label, target or y"
        )
        raise ValueError(f"{source.path}: {why}. Use --target COLUMN with one of: {list_names(list(source.kinds))}.")
    return candidates[0]


def label_columns(source: Source, name: str, task: Task) -> list[str]:
    """The columns of a target with several values per row: one column of vectors, or numbered columns; otherwise none."""
    if task not in ("auto", "multilabel") or not isinstance(name, str):
        return []
    numbered = {} if name in source.kinds else _numbered(source, ())
    if name in numbered:
        return _check_numbered(source, name, numbered[name])
    return [name] if source.kinds.get(name) == "vector" and not source.one_value(name) else []


def column_of(source: Source, columns: Sequence[str]) -> str:
    """The name of these columns for a user: the single column, or the prefix of numbered ones."""
    return columns[0] if len(columns) == 1 else columns[0].rpartition("_")[0]


def numbered_prefixes(source: Source) -> list[str]:
    """The prefixes of numbered columns."""
    return list(_numbered(source, ()))


def _numbered(source: Source, taken: Collection[str]) -> dict[str, list[str]]:
    """Prefix → its numbered columns ``prefix_0``, ``prefix_1``, … in order, if there are at least two."""
    by_prefix: dict[str, dict[int, str]] = {}
    for name, kind in source.kinds.items():
        match = re.fullmatch(r"(.+)_([0-9]{1,9})", name)
        if match and kind != "vector" and name not in taken:
            by_number = by_prefix.setdefault(match[1], {})
            if int(match[2]) in by_number:
                raise ValueError(
                    f"{source.path} has two columns with the same number: {by_number[int(match[2])]} and {name}."
                )
            by_number[int(match[2])] = name
    return {
        prefix: [by_number[n] for n in sorted(by_number)]
        for prefix, by_number in by_prefix.items()
        if len(by_number) > 1
    }


def _check_numbered(source: Source, prefix: str, columns: Sequence[str]) -> list[str]:
    wrong = next((name for name in columns if source.kinds[name] not in ("number", "flag")), None)
    if wrong is not None:
        raise ValueError(
            f"{source.path}: {prefix}_… should be columns of numbers; {wrong} holds {source.describe(wrong)}."
        )
    numbers = [int(name.rpartition("_")[2]) for name in columns]
    gap = next((n + 1 for n, after in pairwise(numbers) if after > n + 1), None)
    if gap is not None or numbers[0] > 1:
        raise ValueError(f"{source.path}: the columns {prefix}_… must count up from 0 or 1; "
    f"{prefix}_{0 if numbers[0] > 1 else gap} is missing.")  # fmt: skip
    return list(columns)


def guessed(source: Source, taken: Collection[str]) -> dict[str, list[str]]:
    taken = {name for name in taken if isinstance(name, str)}  # other types are refused where they are read
    columns = {name: [name] for name, kind in source.kinds.items() if kind == "vector" and name not in taken}
    for prefix, numbered in _numbered(source, taken).items():
        if any(source.kinds[name] == "number" for name in numbered):
            if prefix in columns:
                raise ValueError(
                    f"{source.path} has a column {prefix} and columns {prefix}_…: name the modalities explicitly."
                )
            columns[prefix] = _check_numbered(source, prefix, numbered)
    vectors: dict[str, list[str]] = {}
    for name, members in columns.items():
        short = check_modality(name.replace(".", "_"), module=True)
        if short in vectors:
            raise ValueError(
                f"{source.path}: two columns would both be the modality {short}: name the modalities explicitly."
            )
        vectors[short] = members
    check_number(source.path, vectors)
    return vectors


def named(source: Source, modalities: Mapping[str, str]) -> dict[str, list[str]]:
    if not isinstance(modalities, Mapping):
        raise ValueError(
            f"modalities must be a dict of name → column, or None for all columns; got {shown(modalities)}."
        )
    numbered = _numbered(source, ())
    vectors: dict[str, list[str]] = {}
    for name, column in modalities.items():
        check_modality(name, module=True)
        if not isinstance(column, str):
            raise ValueError(f"the modality {name} must be the name of a column; got {shown(column)}.")
        if column in source.kinds:
            if source.kinds[column] not in ("vector", "number"):
                raise ValueError(f"{source.path}: the modality {name} must be vectors of numbers; {column} holds "
                                 f"{source.describe(column)}: embed it first.")  # fmt: skip
            vectors[name] = [column]
        elif column in numbered:
            vectors[name] = _check_numbered(source, column, numbered[column])
        else:
            raise no_column(source, f"the modality {name}", column)
    return vectors


def check_enough(source: Source, vectors: Mapping[str, Sequence[str]], target: Collection[str]) -> None:
    if len(vectors) < 2:
        got = f"only {next(iter(vectors))} is one" if vectors else "there are none"
        raise ValueError(
            f"{source.path}: at least two modalities are needed, as columns of vectors or numbered columns (image_0, image_1, "
            f"…); {got} among {list_names(list(source.kinds))}."
        )
    used, target = [column for columns in vectors.values() for column in columns], {*target}
    target_modality = next((column for column in used if column in target), None)
    twice = target_modality or first_repeated(used)
    if twice is not None:
        raise ValueError(
            f"{source.path}: {twice} cannot be {'both the target and a modality' if target_modality else 'in two modalities'}."
        )


def check_number(path: Path, modalities: Collection[str]) -> None:
    """Raise ``ValueError`` if there are too many modalities to compare, since each needs its own networks."""
    if len(modalities) > MOST_MODALITIES:
        raise ValueError(
            f"{path} has more than {MOST_MODALITIES} modalities, such as {', '.join(sorted(modalities)[:3])}: select some "
            "with --modality NAME=COLUMN, or combine columns into one modality."
        )


def presence(source: Source, vectors: Mapping[str, Sequence[str]], modalities: Mapping[str, str]) -> dict[str, str]:
    """Modality → the column that indicates whether a row has it."""
    possible = {
        name: (f"{name}_present", f"{modalities.get(name, columns[0])}_present") for name, columns in vectors.items()
    }
    flag_of = {name: next((flag for flag in flags if flag in source.kinds), "") for name, flags in possible.items()}
    return {name: one_value(source, f"the presence of {name}", flag) for name, flag in flag_of.items() if flag}
