"""From a user's numbers to a model's, and back: standardised by the training rows alone."""

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
    """How the rows of one fold are scaled.

    Args:
        columns: Modality → mean and factor of each of its columns. A column that is constant in training has the factor 0.
        target: Mean and standard deviation of a target that is a number; (0, 1) for classes.
    """

    columns: Mapping[str, Scale]
    target: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def fit(cls, table: Table, rows: Rows) -> "Scaling":
        """The scaling of these training rows; a modality's is that of the rows that have it."""
        columns = {name: standardisation(x, rows[table.present[name][rows]]) for name, x in table.modalities.items()}
        if table.classes:
            return cls(columns)
        y = np.asarray(table.target, dtype=np.float64)[rows]
        mean, deviation = float(y.mean()), float(y.std())
        if not deviation > 1e-12 * abs(mean):
            raise ValueError(f"The target is {mean:g} in all {len(rows)} rows to train on: there is nothing to learn.")
        return cls(columns, (mean, deviation))

    def __call__(self, name: str, x: ArrayLike) -> Tensor:
        """Rows of a modality as a model sees them, in single precision; the array given is left as it is."""
        return self.in_place(name, np.array(x, dtype=np.float32))

    def in_place(self, name: str, x: NDArray[np.float32]) -> Tensor:
        """The same, written over the array given."""
        x -= self.columns[name].mean.astype(np.float32)
        x *= self.columns[name].factor.astype(np.float32)
        return torch.from_numpy(x)

    def undo(self, family: Family, parameters: NDArray[Any]) -> NDArray[Any]:
        """A model's predictions in the target's own units: mean and log-variance of a number; logits as they are."""
        if not isinstance(family, Gaussian):
            return parameters
        mean, deviation = self.target
        return np.stack([parameters[..., 0] * deviation + mean, parameters[..., 1] + 2 * math.log(deviation)], -1)
