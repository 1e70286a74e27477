"""Standardisation of features and of a numeric target, fitted to training rows only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.measure.stats import Scale, standardisation
from synib.objective import Family, Gaussian
from synib.own.folds import Rows
from synib.own.table import Table


@dataclass(frozen=True)
class Scaling:
    """The scaling of one fold.

    Args:
        columns: Modality → mean and factor of each of its columns. A column that is constant in training has the factor 0.
        target: Mean and standard deviation of a numeric target; (0, 1) for classes.
    """

    columns: Mapping[str, Scale]
    target: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def fit(cls, table: Table, rows: Rows) -> "Scaling":
        """Fit the scaling to training rows; that of a modality to the rows that have it."""
        columns = {name: standardisation(x, rows[table.present[name][rows]]) for name, x in table.modalities.items()}
        if table.classes:
            return cls(columns)
        y = np.asarray(table.target, dtype=np.float64)[rows]
        mean, deviation = float(y.mean()), float(y.std())
        if not deviation > 1e-12 * abs(mean):
            raise ValueError(f"The target is {mean:g} in all {len(rows)} rows to train on: there is nothing to learn.")
        return cls(columns, (mean, deviation))

    def __call__(self, name: str, x: ArrayLike) -> Tensor:
        """Scaled rows of a modality in single precision; the input is not changed."""
        return self.in_place(name, np.array(x, dtype=np.float32))

    def in_place(self, name: str, x: NDArray[np.float32]) -> Tensor:
        """Scaled rows of a modality, written into the input array."""
        x -= self.columns[name].mean.astype(np.float32)
        x *= self.columns[name].factor.astype(np.float32)
        return torch.from_numpy(x)

    def undo(self, family: Family, parameters: NDArray[Any]) -> NDArray[Any]:
        """A model's predictions in the target's units: mean and log-variance of a number; logits unchanged."""
        if not isinstance(family, Gaussian):
            return parameters
        mean, deviation = self.target
        return np.stack([parameters[..., 0] * deviation + mean, parameters[..., 1] + 2 * math.log(deviation)], -1)
