"""JSON files and CSV tables, written atomically; damage is reported in a sentence."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.files.atomic import write_text

IDENTIFIERS = ("cell", "shard")  # columns of texts, some of which look like numbers


def read_json(path: Path) -> Any:
    """The content of a JSON file, or ``None`` if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ValueError(f"{path} is damaged ({e}); remove it and run again to restore it.") from e


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table atomically; floats are rounded to six decimals, missing values and NaN are empty fields."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(row.get(name)) for name in columns] for row in rows)
    write_text(path, text.getvalue())


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The rows of a table: numbers as numbers, empty fields as ``None``."""
    try:
        columns, *lines = csv.reader(io.StringIO(path.read_text()))
    except FileNotFoundError as e:
        raise ValueError(f"There is no {path.name} in {path.parent}: is it the folder of a finished run?") from e
    except (ValueError, csv.Error) as e:  # empty, not text, or not a table
        raise ValueError(f"{path} is damaged: it holds no table. Run the experiment again to restore it.") from e
    for number, fields in enumerate(lines, 2):
        if len(fields) != len(columns):
            raise ValueError(
                f"{path} is damaged: line {number} has {len(fields)} fields, expected {len(columns)}. Run the experiment "
                "again to restore it."
            )
    return [
        {name: text if name in IDENTIFIERS else _value(text) for name, text in zip(columns, fields, strict=True)}
        for fields in lines
    ]


def _field(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(round(value, 6)) if isinstance(value, float) else str(value)


def _value(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
