"""Training data without cross-modal information: each modality permuted among the examples of its class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from synib import keys
from synib.checks import check_whole
from synib.measure.arrays import as_array, true_labels
from synib.tokens import Modality, Tokens, take, values


def shuffle_within_class(modalities: Mapping[str, Any], target: ArrayLike | Tensor, seed: int = 0) -> dict[str, Any]:
    """Training data for a control: every modality is permuted independently among the examples of its class.

    The distribution of each modality given the class is preserved; information in combinations of modalities is
    removed. A model trained on these data has no cross-modal information, so its accuracy on a synergy subset is mere
    disagreement with the unimodal models. A class with a single example is unchanged.

    Args:
        modalities: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        target: Class of each example; it stays valid for the result.
        seed: Seed of the permutations.
    """
    if not isinstance(modalities, Mapping):
        raise ValueError(f"Modalities must be a dict of name → tensor; got {type(modalities).__name__}.")
    check_whole("seed", seed, least=None)
    y = true_labels(target)
    result: dict[str, Any] = {}
    for name, x in modalities.items():
        if not hasattr(values(x), "__len__"):
            raise ValueError(f"Modality {name!r} must be a tensor, an array or synib.Tokens; got {type(x).__name__}.")
        n = len(values(x))
        if n != len(y):
            raise ValueError(
                f"{name!r} has {n} examples, but the target has {len(y)}: give one label for each example."
            )
        rows = torch.arange(n)
        for label in np.unique(y):
            of_class = torch.from_numpy(np.flatnonzero(y == label))
            order = keys.permutation(keys.fold(keys.key(seed), name, int(label)), len(of_class))
            rows[of_class] = of_class[order]
        result[name] = _take(x, rows)
    return result


def _take(x: Any, rows: Tensor) -> Any:
    if isinstance(x, Tokens | Tensor):
        modality: Modality = x
        return take(modality, rows.to(values(modality).device))
    return as_array(x)[rows.numpy()]
