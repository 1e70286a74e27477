"""Losses of an epoch's updates: added up on the device, and read only when somebody wants them."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from synib.engines.solo_state import Progress


class Tally:
    """Sums of losses, of which a checkpoint's progress keeps what was read.

    Args:
        progress: Where they are kept.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._noted: dict[tuple[str, ...], tuple[Tensor, float]] = {}

    def note(self, parts: Mapping[str, Tensor], share: float) -> None:
        """Add the losses of a piece that is so large a share of an update; nothing waits for the device."""
        names = tuple(parts)
        now = torch.stack([p.detach().double() for p in parts.values()]) * share
        before, steps = self._noted.get(names, (None, 0.0))
        self._noted[names] = now if before is None else before + now, steps + share

    def sums(self, world: int = 1) -> dict[str, list[float]]:
        """Loss → its sum and of how many updates; of all devices, if there are several."""
        for names, (sums, steps) in self._noted.items():
            for name, value in zip(names, sums.tolist(), strict=True):
                total, of = self.progress.sums.get(name, (0.0, 0.0))
                self.progress.sums[name] = [total + value, of + steps]
        self._noted = {}
        if world == 1:
            return self.progress.sums
        everyones: list[dict[str, list[float]]] = [{} for _ in range(world)]
        dist.all_gather_object(everyones, self.progress.sums)
        known = dict.fromkeys(name for one in everyones for name in one)
        return {name: [sum(one[name][i] for one in everyones if name in one) for i in (0, 1)] for name in known}

    def means(self, world: int) -> dict[str, float]:
        """Means over the epoch's updates, of all devices; the next epoch begins anew."""
        sums = self.sums(world)
        self.progress.sums = {}
        return {f"train_{name}": total / of for name, (total, of) in sums.items()}
