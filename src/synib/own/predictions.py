"""Predictions as a table of identifying columns, answers and probabilities, written as CSV, Parquet, NPZ or JSON."""

import csv
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synib.files import atomic_file
from synib.own.columns import Column
from synib.own.predictor import Predictor

ENDINGS = (".csv", ".parquet", ".npz", ".json")
FIRST, SCORE = "row", "needs_both"  # columns that every table of predictions has
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a text that begins like this for a formula
Columns = dict[str, NDArray[Any]]


def check_out(path: Path) -> None:
    """Raise ``ValueError`` if predictions cannot, or must not, be written to this path; nothing is written."""
    if path.is_dir():
        raise ValueError(f"--out must be a file such as predictions.csv; {path} is a folder.")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"--out must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, which selects the format; got {path.name!r}."
        )
    if path.suffix.lower() == ".parquet":
        _arrow()
    if not path.parent.is_dir():
        raise ValueError(f"Cannot write {path}: there is no folder {path.parent}.")
    if path.exists() and not _is_predictions_table(path):
        raise ValueError(f"{path} exists and is not a table of predictions: choose another file with --out.")


def table_of(
    model: Predictor,
    predictions: NDArray[np.float64],
    score: NDArray[np.float64],
    present: Mapping[str, NDArray[np.bool_]],
    identifiers: Mapping[str, Column] | None = None,
) -> Columns:
    """The table of predictions.

    Its columns are ``row``, the identifiers, the answer, the probability of each class, ``needs_both``, and for each modality
    whether the row has it. Ordered classes also have ``expected_rank``, from 0. The answer for labels is those with a
    probability above one half, joined by ``;``. A number has ``mean`` and ``deviation`` instead.

    Args:
        model: The model.
        predictions: The result of :meth:`Predictor.predict`.
        score: The result of :meth:`Predictor.needs_both`.
        present: Modality → which rows have it.
        identifiers: Columns of the input to keep.

    Returns:
        Column → its values.
    """
    rows = len(predictions)
    outputs: Columns = {}
    if model.kind == "regression":
        outputs |= {"mean": predictions[:, 0], "deviation": predictions[:, 1]}
    elif model.kind == "multilabel":
        names = np.array(model.classes, dtype=object)
        outputs["answer"] = np.array([";".join(names[p > 0.5]) for p in predictions], dtype=np.str_)
    else:
        outputs["answer"] = np.array(model.classes)[predictions.argmax(1)]
    if model.kind != "regression":
        outputs |= {f"p_{name}": predictions[:, i] for i, name in enumerate(model.classes)}
    if model.kind == "ordinal":
        outputs["expected_rank"] = predictions @ np.arange(len(model.classes))
    outputs[SCORE] = score
    for name in model.widths:
        outputs[f"has_{name}"] = np.asarray(present.get(name, np.zeros(rows, bool))).astype(np.int64)
    result: Columns = {FIRST: np.arange(rows)}
    for name, column in (identifiers or {}).items():
        column_name = name if name not in outputs and name != FIRST else f"{name}_in_file"
        result[column_name] = _values(column)
    return result | outputs


def write(columns: Columns, path: Path) -> None:
    """Write a table atomically, in the format of the file's ending."""
    content = {".csv": _csv, ".json": _json, ".npz": _npz, ".parquet": _parquet}[path.suffix.lower()](columns)
    try:
        with atomic_file(path) as file:
            file.write(content)
    except OSError as e:
        raise ValueError(f"Cannot write {path}: {e.strerror or e}.") from e


def without_formula(text: str) -> str:
    """A text for a CSV cell; one that a spreadsheet would run as a formula is prefixed with an apostrophe."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _csv(columns: Columns) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([without_formula(name) for name in columns])
    cells = [[_cell(value) for value in column.tolist()] for column in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return without_formula(value)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _json(columns: Columns) -> bytes:
    names = list(columns)
    cells = [[None if isinstance(v, float) and np.isnan(v) else v for v in c.tolist()] for c in columns.values()]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    return ("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n").encode()


def _npz(columns: Columns) -> bytes:
    file = io.BytesIO()
    plain = {
        n: c if c.dtype != object else np.array(["" if v is None else str(v) for v in c]) for n, c in columns.items()
    }
    # Not np.savez, for which a column called "file" would be an argument.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, column in plain.items():
            array = io.BytesIO()
            np.lib.format.write_array(array, np.ascontiguousarray(column), allow_pickle=False)
            archive.writestr(f"{name.replace('/', '_')}.npy", array.getvalue())
    return file.getvalue()


def _parquet(columns: Columns) -> bytes:
    arrow, parquet = _arrow()
    file = io.BytesIO()
    parquet.write_table(arrow.table({name: arrow.array(column.tolist()) for name, column in columns.items()}), file)
    return file.getvalue()


def _values(column: Column) -> NDArray[Any]:
    """The values of a column, as class names if the file has them; ``None`` for missing values."""
    values: NDArray[Any] = np.asarray(column.values)
    if column.names:
        labels = np.array([*column.names, ""], dtype=object)
        values = labels[np.where(column.present, values, len(column.names)).astype(np.int64)].astype(np.str_)
    if bool(np.all(column.present)):
        return values
    gaps = values.astype(object)
    gaps[~np.asarray(column.present)] = None
    return gaps


def _is_predictions_table(path: Path) -> bool:
    """Whether an existing file is a table of predictions, which may be replaced."""
    ending = path.suffix.lower()
    try:
        if ending == ".npz":
            with zipfile.ZipFile(path) as archive:
                return {f"{FIRST}.npy", f"{SCORE}.npy"} <= set(archive.namelist())
        if ending == ".parquet":
            return {FIRST, SCORE} <= set(_arrow()[1].read_schema(path).names)
        with path.open("rb") as file:
            start = file.read(12)
        return start.startswith(b"row,") if ending == ".csv" else start.startswith(b'[\n{"row": 0')
    except (OSError, ValueError, zipfile.BadZipFile):  # Arrow's errors are ValueErrors
        return False


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError("Parquet files need pyarrow: pip install 'synib[audit]'") from error
    return pyarrow, parquet
