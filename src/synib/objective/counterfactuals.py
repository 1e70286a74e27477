"""Which modalities are corrupted together, and for which rows of the batch."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from synib import keys, tokens
from synib.masks.base import undisturbed
from synib.objective.base import Batch
from synib.objective.families import Family
from synib.objective.model import MultimodalModel

Subsets = Literal["each", "proper"]


class Counterfactual(NamedTuple):
    """One counterfactual: a set of modalities to corrupt, for some or all rows.

    Args:
        corrupted: The modalities to corrupt.
        label: Their joined names, as used in the parts of a loss.
        rows: The rows that it applies to, or ``None`` for all.
    """

    corrupted: tuple[str, ...]
    label: str
    rows: Tensor | None = None


def kinds(names: Sequence[str], subsets: Subsets, corrupt: Sequence[str] | None = None) -> list[Counterfactual]:
    """The counterfactuals of a set of modalities.

    Args:
        names: The modalities.
        subsets: ``"each"`` modality alone, or every non-empty ``"proper"`` subset.
        corrupt: The modalities that may be corrupted; all by default.
    """
    if unknown := [name for name in corrupt or () if name not in names]:
        raise ValueError(
            f"corrupt contains {unknown[0]!r}, which is not one of the modalities: {', '.join(map(repr, names))}."
        )
    chosen = sorted(names if corrupt is None else corrupt)
    sizes = (1,) if subsets == "each" else range(1, len(names))
    return [Counterfactual(kind, "+".join(kind)) for size in sizes for kind in itertools.combinations(chosen, size)]


def deal(
    counterfactuals: Sequence[Counterfactual], sample: int, batch: int, key: Tensor, device: torch.device | None = None
) -> list[Counterfactual]:
    """Assign each counterfactual a share of the examples.

    Examples are split evenly, which reduces the work of encoders and fusion and needs no synchronisation with the host.

    Args:
        counterfactuals: All counterfactuals.
        sample: Number of randomly drawn counterfactuals per example in this step.
        batch: Number of examples.
        key: Key of the random assignment.
        device: Device of the row indices.
    """
    n = len(counterfactuals)
    if sample >= n:
        return list(counterfactuals)
    order = keys.permutation(key, batch, device)
    return [
        kind._replace(rows=torch.cat([order[(i - j) % n :: n] for j in range(sample)]))
        for i, kind in enumerate(counterfactuals)
    ]


def counted(counterfactual: Counterfactual, batch: Batch) -> Tensor | None:
    """The weight of each row of a counterfactual, 0 where the corrupted modality is missing; ``None`` if all weights are 1."""
    rows, weight = counterfactual.rows, batch.sample_weight
    in_rows = [
        tokens.present(batch.modalities[name]) if batch.present is None else batch.present[name]
        for name in counterfactual.corrupted
    ]
    known = [rows_of_one for rows_of_one in in_rows if rows_of_one is not None]
    if len(known) == len(in_rows):
        present = torch.stack(known).any(0)
        weight = present.float() if weight is None else weight * present
    return weight if weight is None or rows is None else weight[rows]


def predicted_classes(model: MultimodalModel, latents: Mapping[str, Any], family: Family) -> dict[str, Tensor]:
    """The class that each modality's unimodal head predicts for each row."""
    classes = {}
    for name, z in latents.items():
        with undisturbed(model.unimodal_modules(name)), torch.no_grad():
            classes[name] = family.predict(model.head(name, z))
    return classes
