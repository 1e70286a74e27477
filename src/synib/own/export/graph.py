"""A fitted model as one module for export, from vectors and table columns to probabilities."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from synib.own.export.inputs import table_columns
from synib.own.predictor import Predictor
from synib.own.second import group_of
from synib.tokens import optional


class Graph(nn.Module):
    """The function :meth:`Predictor.predict`, in single precision, including the preparation of its inputs.

    A row lacks a modality if its vector is all NaN, or if all columns of the table are missing. A vector with some NaN or
    infinite values, which ``predict`` rejects, gives NaN.

    Args:
        model: The model.
    """

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        self.answers: Any = copy.deepcopy(model.answers).float().eval().requires_grad_(False)
        self.family, self.kind, self.outputs = model.family, model.kind, model.outputs
        self.names, self.missing, self.learned = tuple(model.widths), model.missing, model.learned
        self.readers = nn.ModuleDict({name: _reader(name, model) for name in self.names})
        draws = max(len(rows) for rows in model.background.values())
        for name in self.names:
            scale, background = model.scaling.columns[name], model.background[name]
            self.register_buffer(f"mean_{name}", torch.from_numpy(scale.mean).float())
            self.register_buffer(f"factor_{name}", torch.from_numpy(scale.factor).float())
            self.register_buffer(f"background_{name}", background[torch.arange(draws) % len(background)].float())
        self.second: Any = None
        if model.second is not None:
            self.second = copy.deepcopy(model.second.answers).float().eval().requires_grad_(False)
            self.register_buffer("second_weights", model.second.weights.float())
            self.register_buffer("second_bias", model.second.bias.float())
        self.centre, self.deviation = model.scaling.target
        self.temperature = model.temperature
        # Numbers are averaged in standardised units, so that single precision suffices whatever the target's scale.
        unit = torch.tensor([self.deviation, 1.0]) if self.kind == "regression" else torch.ones(self.outputs)
        self.register_buffer("bias", (torch.tensor(model.bias).double() / unit).float())

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Probabilities of classes or labels, ``(rows, classes)``; or mean and standard deviation of a number, ``(rows,)``."""
        encoded, known, unusable, seconds, present = [], [], [], [], []
        for name in self.names:
            x, has = self.readers[name](inputs)
            unusable.append(has & ~x.isfinite().all(1))
            x = torch.where(has[:, None] & x.isfinite(), x, 0.0)
            scaled = (x - self.get_buffer(f"mean_{name}")) * self.get_buffer(f"factor_{name}")
            is_learned = name in self.learned
            shown_present = has if is_learned else torch.ones_like(has)
            z = self.answers.encode(name, optional(scaled, shown_present) if name in self.missing else scaled)
            encoded.append(z.float())
            known.append(torch.ones_like(has) if is_learned else has)
            present.append(has)
            if self.second is not None:
                seconds.append(self.second.encode(name, optional(scaled, has)).float())
        if set(self.learned) == set(self.names):
            parameters = self._complete(*encoded)
        else:  # complete rows need one pass through the fusion, not one per background value
            nothing_lacks = torch.stack(known).all()
            parameters = torch.cond(nothing_lacks, self._complete, self._averaged, (*encoded, *present, *seconds))
        bad = torch.stack(unusable).any(0)
        return tuple(torch.where(_as(bad, y), math.nan, y) for y in self._answer(parameters))

    def _complete(self, *operands: Tensor) -> Tensor:
        encoded = operands[: len(self.names)]
        return self.family.average(self._calibrated(encoded)[None])

    def _averaged(self, *operands: Tensor) -> Tensor:
        """Predictions averaged over the background of missing modalities, combined with those of the second model."""
        count = len(self.names)
        encoded, present, seconds = (operands[at : at + count] for at in range(0, 3 * count, count))
        known = [torch.ones_like(h) if n in self.learned else h for n, h in zip(self.names, present, strict=True)]
        mixed = []
        for name, z, has in zip(self.names, encoded, known, strict=True):
            background = self.get_buffer(f"background_{name}")
            mixed.append(torch.where(has[None, :, None], z[None], background[:, None]).flatten(0, 1))
        draws = len(self.get_buffer(f"background_{self.names[0]}"))
        averaged = self.family.average(self._calibrated(mixed).unflatten(0, (draws, -1)))
        if self.second is None:
            return averaged
        second_parameters = self.second.combine(dict(zip(self.names, seconds, strict=True))).float()
        group = group_of(present)
        weights = self.get_buffer("second_weights")[group]
        combined = (
            weights[:, :1] * averaged + weights[:, 1:] * second_parameters + self.get_buffer("second_bias")[group]
        )
        incomplete = ~torch.stack(known).all(0) & torch.stack(list(present)).any(0)
        return torch.where(incomplete[:, None], combined, averaged)

    def _calibrated(self, encoded: Sequence[Tensor]) -> Tensor:
        parameters = self.answers.combine(dict(zip(self.names, encoded, strict=True))).float()
        if self.kind == "regression":
            mean, log_variance = parameters.split(1, -1)
            parameters = torch.cat([mean, log_variance + 2 * math.log(self.temperature)], -1)
        else:
            parameters = parameters / self.temperature
        return parameters + self.bias

    def _answer(self, parameters: Tensor) -> tuple[Tensor, ...]:
        if self.kind == "regression":
            mean, log_variance = parameters.double().unbind(1)
            return mean * self.deviation + self.centre, (log_variance / 2).exp() * self.deviation
        if self.kind == "multilabel":
            return (parameters.sigmoid(),)
        if self.outputs == 1:
            return (torch.cat([(-parameters).sigmoid(), parameters.sigmoid()], 1),)
        return (parameters.softmax(1),)


class VectorReader(nn.Module):
    """Reads a vector, and which rows have one."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        x = inputs[self.name]
        return x, ~x.isnan().all(1)


class TableReader(nn.Module):
    """Encodes columns of a table like :class:`~synib.own.raw.encoders.onehot.OneHot`, and finds rows with any value.

    Args:
        columns: For each column its settings, and the name of its input.
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.columns = [dict(column) for column in columns]

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        parts, present = [], []
        for column in self.columns:
            x = inputs[column["input"]]
            if "mean" in column:
                has = ~x.isnan()
                scaled = (torch.where(has, x, column["mean"]) - column["mean"]) / (column["deviation"] or 1.0)
                # predict refuses infinite values; they stay infinite here.
                parts.append(torch.where(x.isinf(), x, scaled.clamp(-1e6, 1e6)).float()[:, None])
            else:
                has = x >= 0
                places = torch.arange(len(column["categories"]) + bool(column.get("other")), device=x.device)
                parts.append((x[:, None] == places).float())
            if column.get("missing"):
                parts.append((~has).float()[:, None])
            present.append(has)
        return torch.cat(parts, 1), torch.stack(present).any(0)


def _reader(name: str, model: Predictor) -> nn.Module:
    raw = model.raw.get(name)
    if raw is None or raw.kind != "table":
        return VectorReader(name)
    return TableReader([column for columns in table_columns(name, raw) for column in columns])


def _as(flags: Tensor, y: Tensor) -> Tensor:
    return flags[:, None] if y.ndim == 2 else flags
