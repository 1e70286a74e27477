"""A cell is one model to train, described by plain values; cells of one program can be trained together."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

Plain = str | int | float | bool | None | Sequence[Any]

# Settings that may differ between models that are trained together, besides their data and seed.
VARYING = ("lr", "weight_decay", "weight", "sparsity")


@dataclass(frozen=True)
class Cell:
    """One model to train.

    Args:
        experiment: Name of the experiment.
        method: Name of the method.
        factors: What the experiment varies (β, a mixture, a fold); they determine the data.
        settings: How the model is trained: ``lr``, ``weight_decay``, ``epochs``, ``batch_size``, and the method's own.
        seed: Determines data, initial weights, order of batches and every other random draw.
    """

    experiment: str
    method: str
    factors: Mapping[str, Plain] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def id(self) -> str:
        """A hash of everything that determines the result."""
        return digest(asdict(self))

    @cached_property
    def program(self) -> str:
        """A hash of what must be equal for cells to be trained together."""
        static = {k: v for k, v in self.settings.items() if k not in VARYING}
        return digest([self.experiment, self.method, static])


def programs(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells of each program, in the order in which they came."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.program, []).append(cell)
    return list(groups.values())


def grouped(cells: Sequence[Cell], size: Callable[[Sequence[Cell]], int]) -> list[list[Cell]]:
    """Shards of one program each.

    Args:
        cells: The cells to group.
        size: From the cells of a program to the largest size of its shards.
    """
    # Neighbours with the same learning rate and weight decay are updated in one call of the optimiser.
    by_program = (
        sorted(same, key=lambda cell: (cell.settings["lr"], cell.settings["weight_decay"])) for same in programs(cells)
    )
    return [shard for same in by_program for shard in cut(same, size(same))]


def cut(cells: Sequence[Cell], size: int) -> list[list[Cell]]:
    """The cells in pieces of at most ``size``, as few and as equal in size as possible."""
    pieces = -(-len(cells) // size)
    ends = [-(-len(cells) * i // pieces) for i in range(pieces + 1)]
    return [list(cells[a:b]) for a, b in pairwise(ends)]


def digest(value: Any) -> str:
    """A short hash of plain values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
