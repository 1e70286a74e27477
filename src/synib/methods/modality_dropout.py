"""Modality dropout: whole modalities are dropped at random, so that the model cannot rely on any single one."""

from typing import Any

import torch
from torch import Tensor

from synib import keys
from synib.checks import check_kind, check_number
from synib.masks import Noise, ZeroNoise
from synib.methods.synib import NoiseName, make_noise
from synib.objective import Batch, Constant, MultimodalModel, Parts, Scheduled
from synib.tokens import values


class ModalityDropout(Scheduled):
    """Cross-entropy with each modality dropped with probability ``p`` (ModDrop, Neverova et al. 2016).

    Modalities are dropped independently for each example, in training steps only. An example that would lose all of
    them keeps all of them. A unimodal head is trained on the examples that kept its modality.

    Args:
        p: The probability, a number or a schedule such as :class:`~synib.Annealing`.
        noise: The replacement of a dropped modality. Default: :class:`~synib.masks.ZeroNoise`, as in the paper.
        settings: ``family``, ``unimodal_weight``, ``check``, see :class:`Objective`.
    """

    def __init__(self, p: float | Constant, noise: Noise | None = None, **settings: Any) -> None:
        check_number("p", p.weight.item() if isinstance(p, Constant) else p, least=0, below=1)
        super().__init__(p, **settings)
        self.noise = ZeroNoise() if noise is None else check_kind("noise", noise, Noise, "ShuffledNoise()")
        if self.noise.within_classes:
            raise ValueError(f"{type(noise).__name__} needs unimodal heads; use ShuffledNoise() for modality dropout.")

    def loss(self, model: MultimodalModel, batch: Batch, key: Tensor) -> tuple[Tensor, Parts]:
        p = self.scheduled_weight()
        if self.noise.shuffles and batch.size < 2:  # there is no other example to take values from
            latents, prediction = self.intact(model, batch.modalities)
            return self.supervised(model, latents, prediction, batch)[:2]
        dropped = self._dropped(batch, p, key)
        seen = {}
        for name, x in batch.modalities.items():
            self.noise.observe(x, name, batch.group, batch.sample_weight)
            mask = dropped[name].view(-1, *[1] * (values(x).ndim - 1))
            seen[name] = self.noise.corrupt(x, mask, keys.fold(key, name, "noise"), name)
        latents, prediction = self.intact(model, seen)
        total = self.task_loss(prediction, batch)
        parts = {"task": total.detach(), "p": p.detach()}
        for name, z in latents.items():
            if not model.has_head(name):
                continue
            kept = (~dropped[name]).to(total.dtype)
            counts = kept if batch.sample_weight is None else kept * batch.sample_weight
            own = self.family.mean_nll(model.head(name, z), batch.target, counts)
            total = total + self.unimodal_weight * own
            parts[f"unimodal/{name}"] = own.detach()
        return total, parts

    @staticmethod
    def _dropped(batch: Batch, p: Tensor, key: Tensor) -> dict[str, Tensor]:
        """Modality → the rows in which it is dropped."""
        device = batch.target.device
        drawn = {n: keys.uniform(keys.fold(key, n, "drop"), (batch.size,), device) < p for n in batch.modalities}
        all_of_them = torch.stack(list(drawn.values())).all(0)
        return {name: rows & ~all_of_them for name, rows in drawn.items()}


def modality_dropout(*, p: float | Constant, noise: NoiseName = "zeros", **settings: Any) -> ModalityDropout:
    """Modality dropout with probability ``p`` and the noise of that name."""
    return ModalityDropout(p, make_noise(noise), **settings)
