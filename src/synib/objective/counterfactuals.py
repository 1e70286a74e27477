"""Which modalities are corrupted together, and for which rows of the batch."""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from synib import keys

Subsets = Literal["each", "proper"]


class Counterfactual(NamedTuple):
    """One kind of counterfactual.

    Args:
        corrupted: The modalities to corrupt.
        rows: The examples it is made of, or ``None`` for all of them.
    """

    corrupted: tuple[str, ...]
    rows: Tensor | None

    @property
    def label(self) -> str:
        return "+".join(self.corrupted)


def plan(
    names: Sequence[str],
    subsets: Subsets,
    sample: int | None,
    batch: int,
    key: Tensor,
    device: torch.device | None = None,
) -> list[Counterfactual]:
    """The counterfactuals of one step.

    Args:
        names: The modalities.
        subsets: ``"each"`` modality alone, or every non-empty ``"proper"`` subset.
        sample: How many of them each example meets in this step, drawn at random; ``None`` for all. Examples are dealt
            out evenly, so encoders and fusion really do less work and nothing waits for the host.
        batch: Number of examples.
        key: Decides the dealing.
        device: Where the rows are to be.
    """
    names = sorted(names)
    sizes = (1,) if subsets == "each" else range(1, len(names))
    kinds = [kind for size in sizes for kind in itertools.combinations(names, size)]
    if sample is None or sample >= len(kinds):
        return [Counterfactual(kind, None) for kind in kinds]
    order = keys.permutation(key, batch, device)
    return [
        Counterfactual(kind, torch.cat([order[(i - j) % len(kinds) :: len(kinds)] for j in range(sample)]))
        for i, kind in enumerate(kinds)
    ]
