"""The training plan of one model: the optimiser's settings and the learning rate of every step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from synib.checks import check_choice, check_number, check_whole, shown

MixedPrecision = Literal["32-true", "bf16-mixed", "16-mixed"]
Schedule = Literal["constant", "cosine"]
Select = Literal["last", "best"]

# Settings of a cell that the solo engine knows beyond the fleet's, and what the fleet does.
DEFAULTS: Mapping[str, Any] = {
    "accumulate": 1,
    "warmup": 0,
    "schedule": "constant",
    "patience": None,
    "monitor": None,
    "select": "last",
    "clip": None,
}


@dataclass(frozen=True)
class Plan:
    """All settings that determine how a model is trained; :func:`synib.training.solo.fit` explains each."""

    lr: float
    weight_decay: float
    epochs: int
    batch_size: int
    seed: int = 0
    precision: MixedPrecision = "32-true"
    accumulate: int = 1
    warmup: int = 0
    schedule: Schedule = "constant"
    patience: int | None = None
    monitor: str | None = None
    select: Select = "last"
    clip: float | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for invalid settings."""
        check_number("lr", self.lr, above=0, below=1e37)  # ten times that is beyond 32 bits, where Adam begins
        check_number("weight_decay", self.weight_decay, least=0)
        for name in ("epochs", "batch_size", "accumulate"):
            check_whole(name, getattr(self, name))
        check_whole("seed", self.seed, None)
        check_whole("warmup", self.warmup, 0)
        if self.patience is not None:
            check_whole("patience", self.patience)
        if self.clip is not None:
            check_number("clip", self.clip, above=0)
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate must be at most batch_size, {self.batch_size}, because each part of a batch needs an "
                f"example; got {self.accumulate}."
            )
        check_choice("precision", self.precision, MixedPrecision)
        check_choice("schedule", self.schedule, Schedule)
        check_choice("select", self.select, Select)
        if self.monitor is not None and not str(self.monitor).startswith("validation_"):
            raise ValueError(
                "monitor must be a metric on validation data, such as 'validation_accuracy' or 'validation_loss'; "
                f"got {shown(self.monitor)}."
            )

    @property
    def monitored(self) -> bool:
        """Whether a metric determines when to stop, or which epoch to keep."""
        return self.patience is not None or self.select == "best"

    def best(self, measured: Sequence[Mapping[str, float]]) -> int | None:
        """The first epoch with the best monitored metric; ``None`` if the metric is always NaN."""
        sign = 1 if "loss" in str(self.monitor) else -1
        values = [sign * metrics[str(self.monitor)] for metrics in measured]
        return min((i for i, value in enumerate(values) if value == value), key=values.__getitem__, default=None)

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, out of a total number of steps."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, steps - self.warmup)))

    def pieces(self, rows: Tensor, world: int) -> list[Tensor]:
        """The sizes of the micro-batches of a batch, as even as possible; fewer for a smaller batch."""
        largest = -(-self.batch_size // (self.accumulate * world))
        return list(rows.tensor_split(-(-len(rows) // largest)))
