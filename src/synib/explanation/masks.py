"""The masks of training: which coordinates of a row a learned mask keeps."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_kind, check_whole
from synib.masks import Mask, Noise, ShuffledNoise
from synib.masks.base import undisturbed
from synib.measure.arrays import family_of
from synib.measure.encoded import as_target, as_tensors
from synib.objective import Family, MultimodalModel
from synib.objective.probes import unimodal_probe
from synib.objective.wrappers import unwrap


def kept_by_mask(
    model: MultimodalModel,
    mask: Mask,
    modalities: Mapping[str, tokens.Modality | ArrayLike],
    target: ArrayLike | Tensor,
    *,
    family: Family | None = None,
    noise: Noise | None = None,
    draws: int = 8,
    seed: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """How often a mask of training keeps each coordinate, from 0 to 1, shaped like the modality.

    A :class:`~synib.LearnedMask` keeps the coordinates that the unimodal predictor relies on and corrupts the rest. Kept
    regions therefore show unimodal evidence, including shortcuts, and not synergy.

    Args:
        model: A model with unimodal heads, such as ``FusionModel``.
        mask: The mask, with the settings of training.
        modalities: Name → values, batch first.
        target: The targets for the unimodal predictors.
        family: Default: ``Categorical()``.
        noise: The noise used in training. Default: ``ShuffledNoise()``.
        draws: Number of mask searches with different noise, which are averaged.
        seed: Seed for the draws.
    """
    check_kind("mask", mask, Mask, "LearnedMask()")
    check_whole("draws", draws)
    family, noise = family_of(family), ShuffledNoise() if noise is None else noise
    inner = unwrap(model)
    if not isinstance(inner, MultimodalModel):
        raise ValueError(
            f"Computing a mask needs a model with unimodal heads, such as FusionModel; got {type(model).__name__}."
        )
    rows = as_tensors(model, modalities, inner.names)
    result = {}
    for name, x in rows.items():
        y = as_target(target, len(tokens.values(x)), tokens.values(x).device)

        def nll(prediction: Tensor, y: Tensor = y) -> Tensor:
            return family.nll(prediction, y)

        def fill(key: Tensor, name: str = name, x: tokens.Modality = x) -> Tensor:
            return noise.fill(x, key, name, 1, None)

        probe = unimodal_probe(inner, name, x, fill, nll)
        total = torch.zeros_like(tokens.values(x), dtype=torch.float64)
        with undisturbed(inner.unimodal_modules(name)):
            for draw in range(draws):
                corrupted = mask(x, keys.fold(keys.key(seed), name, draw), probe)
                total += (~corrupted).expand_as(total)
        result[name] = (total / draws).cpu().numpy()
    return result
