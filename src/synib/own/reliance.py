"""How far a model leans on each modality: what its answers lose when the modality is another row's."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib import keys
from synib.objective import Family, Gaussian
from synib.tokens import Modality, present, take

Numbers = NDArray[np.float64]
DRAWS = 4  # other rows that take a modality's place, one after the other


class Quality(NamedTuple):
    """How good the answers to some rows are.

    Args:
        right: 1 for a right class and 0 for a wrong one, or for numbers minus the squared error.
        confidence: Probability of the answer given; 0 for numbers.
    """

    right: Numbers
    confidence: Numbers


def quality(said: Tensor, target: Tensor, family: Family) -> Quality:
    """How good predictions are, row by row."""
    answer = family.predict(said)
    if isinstance(family, Gaussian):
        error = (answer - target).double().square().reshape(len(target), -1).sum(1)
        return Quality((-error).numpy(), np.zeros(len(target)))
    right = (answer == target).double()
    logits = said.double().reshape(len(said), -1)
    scores = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
    return Quality(right.numpy(), scores.softmax(1).max(1).values.numpy())


def without(
    predict: Callable[[Mapping[str, Modality]], Tensor],
    modalities: Mapping[str, Modality],
    target: Tensor,
    family: Family,
    seed: int = 0,
) -> dict[str, Quality]:
    """For each modality how good answers are when it is another row's, the mean of a few; ``""`` for rows as they are.

    Rows that lack a modality keep lacking it, and count as they are.
    """
    with torch.no_grad():
        found = {"": quality(predict(modalities), target, family)}
        for name, x in modalities.items():
            there = present(x)
            rows = torch.arange(len(target)) if there is None else there.nonzero().squeeze(1)
            each = []
            for draw in range(DRAWS if len(rows) > 1 else 0):
                order = keys.permutation(keys.fold(keys.key(seed), name, draw), len(rows))
                source = torch.arange(len(target))
                source[rows[order]] = rows[order.roll(1)]  # a circle: nobody gets its own
                each.append(quality(predict({**modalities, name: take(x, source)}), target, family))
            found[name] = Quality(*(np.mean(parts, 0) for parts in zip(*each, strict=True))) if each else found[""]
    return found
