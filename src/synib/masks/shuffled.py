"""Noise that is data: values of other examples of the same batch."""

import torch
from torch import Tensor

from synib import keys
from synib.masks.noise import Noise, for_each_draw
from synib.tokens import Modality, Tokens, values


class ShuffledNoise(Noise):
    """Another example's values: a fill that looks like data because it is data.

    Rows are put on a random circle and each takes the values of the next ones, so that no row is ever filled with
    itself, and several draws of one row differ as long as the batch has enough others.
    """

    shuffles = True

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = values(x)
        return v[self.rows(key, v.shape[0], draws, v.device)]

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        corrupted = super().corrupt(x, mask, key, modality, draws, rows)
        if isinstance(x, Tokens) and isinstance(corrupted, Tokens) and mask.shape[-1] == 1:
            # A whole token that came from another example brings its padding along.
            swapped = for_each_draw(mask, corrupted.values.shape[0]).squeeze(-1)
            theirs = x.padding[self.chosen(key, x.values.shape[0], draws, x.values.device, rows)]
            return Tokens(corrupted.values, torch.where(swapped, theirs, corrupted.padding))
        return corrupted

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        if batch < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 rows in a batch, since a single one has no other to take values from; "
                f"got {batch}. Drop the last batch (drop_last=True) if it is that small."
            )
        order = keys.permutation(key, batch, device)
        place = order.argsort()
        shift = torch.arange(draws, device=order.device) % (batch - 1) + 1
        return order[(place + shift[:, None]) % batch].reshape(-1)


class ClassShuffledNoise(ShuffledNoise):
    """Another example's values that say the same on their own: the modality's unimodal head predicts the same class.

    What the modality tells alone stays, and whatever else it holds is exchanged. A row that is alone in its class is filled
    as by :class:`ShuffledNoise`. For masks over the whole modality, ``RandomMask(1.0)``, and models with unimodal heads.
    """

    within_classes = True

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        raise ValueError(
            "ClassShuffledNoise swaps whole modalities by what they predict: use it in SynIB with RandomMask(1.0), or "
            "ShuffledNoise() here."
        )

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        anybody = super().rows(key, batch, draws, device).view(draws, batch)
        if classes is None:
            raise ValueError("ClassShuffledNoise needs classes: what each row's own values predict.")
        order = keys.permutation(keys.fold(key, "classes"), batch, device)
        order = order[classes[order].argsort(stable=True)]  # one class after the other, each in random order
        alike = classes[order][:, None] == classes[order]
        first, size = alike.int().argmax(1), alike.sum(1)
        shift = torch.arange(draws, device=order.device)[:, None] % (size - 1).clamp(min=1) + 1
        at = first + (torch.arange(batch, device=order.device) - first + shift) % size
        place = order.argsort()
        return torch.where(size[place] > 1, order[at][:, place], anybody).reshape(-1)
