"""Noise made of data: values of other examples in the same batch."""

import torch
from torch import Tensor

from synib import keys
from synib.masks.noise import Noise, for_each_draw
from synib.tokens import Modality, Tokens, values


class ShuffledNoise(Noise):
    """The values of another example: a replacement from the data distribution.

    Rows are arranged in a random circle and each row takes the values of the next ones. No row is replaced by itself,
    and several draws for one row differ as long as the batch has enough rows.
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
                f"{type(self).__name__} needs at least 2 rows in a batch, because each row takes its values from "
                f"another one; got {batch}. Use drop_last=True to skip a smaller last batch."
            )
        order = keys.permutation(key, batch, device)
        place = order.argsort()
        shift = torch.arange(draws, device=order.device) % (batch - 1) + 1
        return order[(place + shift[:, None]) % batch].reshape(-1)


class ClassShuffledNoise(ShuffledNoise):
    """The values of another example for which the modality's unimodal head predicts the same class.

    The unimodal information of the modality stays, and everything else is exchanged. A row without another one of its
    class is replaced as in :class:`ShuffledNoise`. For masks over the whole modality, ``RandomMask(1.0)``, and models
    with unimodal heads.
    """

    within_classes = True

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        raise ValueError(
            "ClassShuffledNoise swaps whole modalities between rows of one predicted class: use it in SynIB "
            "with RandomMask(1.0), or use ShuffledNoise() here."
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
            raise ValueError(
                "ClassShuffledNoise needs classes: the class that the unimodal head predicts for each row."
            )
        order = keys.permutation(keys.fold(key, "classes"), batch, device)
        order = order[classes[order].argsort(stable=True)]  # one class after the other, each in random order
        alike = classes[order][:, None] == classes[order]
        first, size = alike.int().argmax(1), alike.sum(1)
        shift = torch.arange(draws, device=order.device)[:, None] % (size - 1).clamp(min=1) + 1
        at = first + (torch.arange(batch, device=order.device) - first + shift) % size
        place = order.argsort()
        return torch.where(size[place] > 1, order[at][:, place], anybody).reshape(-1)
