"""Masked inputs as data augmentation: SynIB's masks without its penalty."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from synib import keys, tokens
from synib.checks import check_kind
from synib.masks import Mask, Noise, OracleMask, Probe, RandomMask
from synib.masks.base import Over
from synib.methods.synib import NoiseName, make_noise
from synib.objective import Batch, Constant, MultimodalModel, Parts, Scheduled
from synib.tokens import Modality


class MaskedInput(Scheduled):
    """Cross-entropy on the union of intact and masked examples (App. "Disentangling Masking Effects from SynIB").

    A masked copy has *all* its modalities masked. It shows how much of SynIB's gain comes from merely seeing corrupted
    inputs.

    Args:
        mask: The coordinates to corrupt in a copy; masks that search a unimodal predictor are not supported.
        noise: The replacement values.
        weight: Weight of a masked copy relative to the intact example (default 1): a number, or a schedule such as
            :class:`~synib.Annealing`, which ends on intact examples alone.
        settings: ``family``, ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    def __init__(self, mask: Mask, noise: Noise, weight: float | Constant | None = None, **settings: Any) -> None:
        super().__init__(1.0 if weight is None else weight, **settings)
        self.weighted = weight is not None
        if check_kind("noise", noise, Noise, "ShuffledNoise()").within_classes:
            raise ValueError(f"{type(noise).__name__} needs unimodal heads; use ShuffledNoise() for masked inputs.")
        if check_kind("mask", mask, Mask, "RandomMask(0.5)").probes:
            raise ValueError(
                f"{type(mask).__name__} searches a unimodal predictor; use a mask without search, such as "
                "RandomMask(), for masked inputs."
            )
        self.mask, self.noise = mask, noise

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        if self.noise.shuffles and batch.size < 2:  # there is no other example to take values from
            latents, prediction = self.intact(model, batch.modalities)
            return self.supervised(model, latents, prediction, batch)[:2]
        union: dict[str, Modality] = {}
        if batch.check_values and batch.examples is not None:
            self.mask.check_examples(batch.examples)
        for name, x in batch.modalities.items():
            self.noise.observe(x, name, batch.group, batch.sample_weight)
            mine = keys.fold(key, name)
            mask = self.mask(
                x,
                keys.fold(mine, "mask"),
                Probe(name, partial(self.noise.fill, x, modality=name), None, batch.examples),
            )
            union[name] = tokens.join([x, self.noise.corrupt(x, mask, keys.fold(mine, "noise"), name)])
        latents, prediction = self.intact(model, union)
        counts = batch.sample_weight
        parts: Parts = {}
        if self.weighted:
            weight = self.scheduled_weight()
            own = torch.ones(batch.size, device=weight.device) if counts is None else counts
            both_count: Tensor | None = torch.cat([own, weight * own])
            parts["weight"] = weight.detach()
        else:
            both_count = None if counts is None else torch.cat([counts] * 2)
        both = batch._replace(modalities=union, target=torch.cat([batch.target] * 2), sample_weight=both_count)
        total, of_both, _ = self.supervised(model, latents, prediction, both)
        return total, of_both | parts


def masked_random(
    *, p: float, noise: NoiseName = "standard", over: Over = "coordinates", **settings: Any
) -> MaskedInput:
    """Masked inputs with each coordinate, or each token, corrupted with probability ``p``."""
    return MaskedInput(RandomMask(p, over), make_noise(noise), **settings)


def masked_oracle(
    *, coordinates: Mapping[str, Sequence[int]], noise: NoiseName = "standard", **settings: Any
) -> MaskedInput:
    """Masked inputs with known ``coordinates`` corrupted: the unimodal ones, so that only synergy is left."""
    return MaskedInput(OracleMask(coordinates), make_noise(noise), **settings)
