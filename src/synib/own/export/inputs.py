"""The inputs of an exported graph, and random rows to trace and check it."""

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
    """An input of a graph, with one entry per row.

    Args:
        name: The modality, or ``modality.column`` for a column of a table.
        modality: The modality to which it belongs.
        kind: ``"vector"`` (rows, width); ``"number"`` or ``"category"``, a column of a table, (rows,).
        width: Width of a vector.
        categories: The known categories; the code of a category is its index. The next code means any other, -1 missing.
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
    """The inputs of a model's graph: a vector for each modality, or the columns of a table."""
    result: dict[str, Input] = {}
    for name, width in model.widths.items():
        raw = model.raw.get(name)
        if raw is None or raw.kind != "table":
            result[name] = Input(name, name, VECTOR, width)
            continue
        for column in (column for columns in table_columns(name, raw) for column in columns):
            categories = tuple(column.get("categories", ()))
            kind = NUMBER if "mean" in column else CATEGORY
            result[column["input"]] = Input(column["input"], name, kind, categories=categories)
    return list(result.values())


def table_columns(name: str, raw: RawModality) -> list[list[dict[str, Any]]]:
    """For each encoder of a table the settings of its columns, as in :class:`OneHot`, with the name of the ``"input"``."""
    result = []
    for state in raw.encoders:
        columns = OneHot.restore(state).state().settings["columns"]
        if len(columns) != len(raw.columns):
            raise ValueError(f"the encoder of {name} has {len(columns)} columns, but the model has {len(raw.columns)}.")
        pairs = zip(raw.columns, columns, strict=True)
        result.append([{**column, "input": f"{name}.{column_name}"} for column_name, column in pairs])
    return result


@dataclass(frozen=True)
class MadeUpRows:
    """Random rows: standard normal after the model's scaling, random categories, and some rows without a modality.

    Args:
        inputs: Input → its values for the graph.
        modalities: Modality → its values for :meth:`Predictor.predict`, for the same rows.
    """

    inputs: dict[str, Tensor]
    modalities: dict[str, Array]


def made_up_rows(model: Predictor, inputs: Sequence[Input], rows: int, seed: int = 0) -> MadeUpRows:
    """Random rows for a model; the first has every modality, and about a quarter of the others lack each one."""
    rng = np.random.default_rng(seed)
    graph_inputs: dict[str, Tensor] = {}
    modalities: dict[str, Array] = {}
    for name, width in model.widths.items():
        absent = rng.random(rows) < 0.25
        absent[0] = False
        modality_inputs = [graph_input for graph_input in inputs if graph_input.modality == name]
        if modality_inputs[0].kind == VECTOR:
            scale = model.scaling.columns[name]
            deviation = np.divide(1.0, scale.factor, out=np.zeros(width), where=scale.factor != 0)
            x = (scale.mean + deviation * rng.normal(size=(rows, width))).astype(np.float32)
            x[absent] = np.nan
            graph_inputs[name], modalities[name] = torch.from_numpy(x), x
        else:
            columns, modalities[name] = _table_rows(model.raw[name], modality_inputs, absent, rng)
            graph_inputs |= columns
    return MadeUpRows(graph_inputs, modalities)


def _table_rows(
    raw: RawModality, inputs: Sequence[Input], absent: Array, rng: np.random.Generator
) -> tuple[dict[str, Tensor], Array]:
    """Random columns of a table for the graph, and the same rows encoded for the model."""
    encoders = [OneHot.restore(state) for state in raw.encoders]
    settings = {
        c["input"]: c for columns_of_encoder in table_columns(inputs[0].modality, raw) for c in columns_of_encoder
    }
    graph_inputs: dict[str, Tensor] = {}
    cells: dict[str, list[Any]] = {}
    for graph_input in inputs:
        no_value = absent | (rng.random(len(absent)) < 0.1)
        no_value[0] = False
        if graph_input.kind == NUMBER:
            values = settings[graph_input.name]["mean"] + settings[graph_input.name]["deviation"] * rng.normal(
                size=len(absent)
            )
            values[no_value] = np.nan
            graph_inputs[graph_input.name] = torch.from_numpy(values)
            cells[graph_input.name] = [None if np.isnan(v) else float(v) for v in values]
        else:
            codes = np.where(no_value, -1, rng.integers(len(graph_input.categories) + 1, size=len(absent)))
            graph_inputs[graph_input.name] = torch.from_numpy(codes)
            cells[graph_input.name] = category_cells(graph_input, codes)
    columns = [cells[f"{inputs[0].modality}.{column}"] for column in raw.columns]
    items = list(zip(*columns, strict=True))
    encoded = np.concatenate([encoder.encode(items) for encoder in encoders], 1)
    encoded[[all(cell is None for cell in item) for item in items]] = np.nan
    return graph_inputs, encoded


def category_cells(graph_input: Input, codes: Array) -> list[str | None]:
    """The texts of codes: a category, a text that is not a category, or ``None``."""
    other = "x" * (1 + max(map(len, graph_input.categories), default=0))
    names: Mapping[int, str | None] = {
        **dict(enumerate(graph_input.categories)),
        len(graph_input.categories): other,
        -1: None,
    }
    return [names[int(code)] for code in codes]
