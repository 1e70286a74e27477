"""Random masking: every coordinate is corrupted with the same probability."""

import torch
from torch import Tensor

from synib import keys
from synib.kinds import check_number
from synib.masks.base import Mask, Over, Probe, check_over, mask_shape
from synib.tokens import Modality, values


class RandomMask(Mask):
    r"""Random masking, :math:`M_j \sim \mathrm{Bernoulli}(p)` (Sec. "Counterfactual Corruption", App. "Masking").

    ``p=1`` corrupts the whole modality and needs no draw; it is often the strongest choice, and the one to try first.

    Args:
        p: Probability that a coordinate is corrupted.
        over: What is corrupted or kept together: single ``"coordinates"``, whole ``"tokens"`` or ``"channels"``
            (everything behind dimension 1), or the whole ``"modality"`` of an example.

    Example:
        >>> import torch, synib
        >>> mask = synib.RandomMask(0.4)
        >>> mask
        RandomMask(p=0.4, over='coordinates')
    """

    def __init__(self, p: float = 0.5, over: Over = "coordinates") -> None:
        super().__init__()
        self.p = check_number("p", p, least=0, most=1)
        self.over = check_over(over)
        self.whole = p == 1.0

    def forward(self, x: Modality, key: Tensor, probe: Probe, draws: int = 1) -> Tensor:
        if self.p in (0.0, 1.0):
            shape = mask_shape(x, "modality")
            return torch.full(shape, self.p == 1.0, dtype=torch.bool, device=values(x).device)
        return keys.uniform(key, mask_shape(x, self.over, draws), values(x).device) < self.p

    def extra_repr(self) -> str:
        return f"p={self.p}, over={self.over!r}"
