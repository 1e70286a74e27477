"""What an exported graph is given: its inputs by name, and made-up rows to trace and to check it with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.own.columns import Array
from synib.own.predictor import Predictor
from synib.own.raw.encoders.onehot import OneHot
from synib.own.raw.spec import RawModality

VECTOR, NUMBER, CATEGORY = "vector", "number", "category"


@dataclass(frozen=True)
class Input:
    """An input of a graph, with one entry for each row.

    Args:
        name: The modality; of a column of a table ``modality.column``.
        modality: The modality that it belongs to.
        kind: ``"vector"`` (rows, width); ``"number"`` or ``"category"``, a column of a table, (rows,).
        width: Of a vector.
        categories: Those that have a code, which is their place here. The next code stands for any other, -1 for none.
    """

    name: str
    modality: str
    kind: str
    width: int = 1
    categories: tuple[str, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        return {VECTOR: torch.float32, NUMBER: torch.float64, CATEGORY: torch.int64}[self.kind]


def inputs_of(model: Predictor) -> list[Input]:
    """The inputs of a model's graph: a vector for each modality, but the columns themselves where it is a table."""
    result: dict[str, Input] = {}
    for name, width in model.widths.items():
        raw = model.raw.get(name)
        if raw is None or raw.kind != "table":
            result[name] = Input(name, name, VECTOR, width)
            continue
        for column in (column for of in table_columns(name, raw) for column in of):
            known = tuple(column.get("categories", ()))
            kind = NUMBER if "mean" in column else CATEGORY
            result[column["input"]] = Input(column["input"], name, kind, categories=known)
    return list(result.values())


def table_columns(name: str, raw: RawModality) -> list[list[dict[str, Any]]]:
    """For each encoder of a table its columns, as :class:`OneHot` describes them, with the name of the ``"input"``."""
    result = []
    for state in raw.encoders:
        columns = OneHot.restore(state).state().settings["columns"]
        if len(columns) != len(raw.columns):
            raise ValueError(f"the encoder of {name} has {len(columns)} columns, and the model {len(raw.columns)}.")
        pairs = zip(raw.columns, columns, strict=True)
        result.append([{**column, "input": f"{name}.{of}"} for of, column in pairs])
    return result


@dataclass(frozen=True)
class MadeUpRows:
    """Rows that no one has seen: standard normal after the model's scaling, any category, and some without a modality.

    Args:
        inputs: Input → what the graph is given.
        modalities: Modality → what :meth:`Predictor.predict` is given for the same rows.
    """

    inputs: dict[str, Tensor]
    modalities: dict[str, Array]


def made_up_rows(model: Predictor, inputs: Sequence[Input], rows: int, seed: int = 0) -> MadeUpRows:
    """Rows for a model; the first has every modality, and about a quarter of the others lack one."""
    rng = np.random.default_rng(seed)
    given: dict[str, Tensor] = {}
    modalities: dict[str, Array] = {}
    for name, width in model.widths.items():
        absent = rng.random(rows) < 0.25
        absent[0] = False
        own = [one for one in inputs if one.modality == name]
        if own[0].kind == VECTOR:
            scale = model.scaling.columns[name]
            deviation = np.divide(1.0, scale.factor, out=np.zeros(width), where=scale.factor != 0)
            x = (scale.mean + deviation * rng.normal(size=(rows, width))).astype(np.float32)
            x[absent] = np.nan
            given[name], modalities[name] = torch.from_numpy(x), x
        else:
            columns, modalities[name] = _table_rows(model.raw[name], own, absent, rng)
            given |= columns
    return MadeUpRows(given, modalities)


def _table_rows(
    raw: RawModality, inputs: Sequence[Input], absent: Array, rng: np.random.Generator
) -> tuple[dict[str, Tensor], Array]:
    """Columns of a table as a graph takes them, and encoded as the model does."""
    encoders = [OneHot.restore(state) for state in raw.encoders]
    settings = {c["input"]: c for of in table_columns(inputs[0].modality, raw) for c in of}
    given: dict[str, Tensor] = {}
    cells: dict[str, list[Any]] = {}
    for one in inputs:
        no_value = absent | (rng.random(len(absent)) < 0.1)
        no_value[0] = False
        if one.kind == NUMBER:
            values = settings[one.name]["mean"] + settings[one.name]["deviation"] * rng.normal(size=len(absent))
            values[no_value] = np.nan
            given[one.name] = torch.from_numpy(values)
            cells[one.name] = [None if np.isnan(v) else float(v) for v in values]
        else:
            codes = np.where(no_value, -1, rng.integers(len(one.categories) + 1, size=len(absent)))
            given[one.name] = torch.from_numpy(codes)
            cells[one.name] = category_cells(one, codes)
    columns = [cells[f"{inputs[0].modality}.{column}"] for column in raw.columns]
    items = list(zip(*columns, strict=True))
    encoded = np.concatenate([encoder.encode(items) for encoder in encoders], 1)
    encoded[[all(cell is None for cell in item) for item in items]] = np.nan
    return given, encoded


def category_cells(one: Input, codes: Array) -> list[str | None]:
    """The texts that codes stand for: a category, one that is none of them, or nothing."""
    other = "x" * (1 + max(map(len, one.categories), default=0))
    names: Mapping[int, str | None] = {**dict(enumerate(one.categories)), len(one.categories): other, -1: None}
    return [names[int(code)] for code in codes]
