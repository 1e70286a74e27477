"""What replaces the corrupted coordinates."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import settings_repr
from synib.tokens import Modality, Tokens, take, with_values


class Noise(nn.Module):
    """Base of all fills: draws replacements for a modality's values, independent of the target.

    Attributes:
        shuffles: Whether a replacement is another row of the same batch, the one that :meth:`rows` names. Together with a
            mask over the whole modality this lets the objective reuse what it has already encoded.
        within_classes: Whether :meth:`rows` wants to know which class each row's own values predict.
        follows_data: Whether it draws by statistics of the training batches that :meth:`observe` is shown.
    """

    shuffles: bool = False
    within_classes: bool = False
    follows_data: bool = False

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        """``draws`` replacements for every row, one draw after the other: ``(draws * batch, ...)``."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, key, modality, draws).")

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        """Which row fills which, one draw after the other: ``(draws * batch,)``; for noise that shuffles.

        Args:
            key: Decides the draw.
            batch: Number of rows.
            draws: How many fills each row gets.
            device: Where the result is to be.
            classes: What each row's own values predict, for noise that is ``within_classes``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define rows(key, batch, draws, device, classes), since it shuffles."
        )

    def prepare(self, x: Modality, modality: str) -> None:
        """Allocate what :meth:`observe` will keep, where the first batch cannot (under ``vmap``)."""

    def observe(self, x: Modality, modality: str, group: Any = None, sample_weight: Tensor | None = None) -> None:
        """Take note of a training batch, for fills that follow the data.

        Args:
            x: The batch.
            modality: Its name.
            sample_weight: How much each row counts; equally by default.
            group: Processes that train copies of one model on parts of a batch; ``None`` where this process trains alone.
        """

    def fill(self, x: Modality, key: Tensor, modality: str, draws: int = 1, rows: Tensor | None = None) -> Tensor:
        """Replacements for all rows of a batch, or for some of its ``rows``; noise that shuffles takes them from any row."""
        if self.shuffles and rows is not None:
            v = x if isinstance(x, Tensor) else x.values
            return v[self.chosen(key, v.shape[0], draws, v.device, rows)]
        return self(x if rows is None else take(x, rows), key, modality, draws)  # type: ignore[no-any-return]

    def chosen(
        self,
        key: Tensor,
        batch: int,
        draws: int,
        device: torch.device,
        rows: Tensor | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        """Which rows fill all rows of a batch, or some of its ``rows``; for noise that shuffles, as :meth:`rows`."""
        taken = self.rows(key, batch, draws, device, *(() if classes is None else (classes,)))
        return taken if rows is None else taken.view(draws, -1)[:, rows].reshape(-1)

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        r"""The gate :math:`\tilde x = (1 - M) \odot x + M \odot \epsilon` (Eq. gate-app), ``draws`` times.

        Args:
            x: The modality's batch.
            mask: What to corrupt.
            key: Decides the draw.
            modality: Its name.
            draws: How many corrupted copies of each row.
            rows: The rows to corrupt; all by default. The mask is theirs.
        """
        original = x if rows is None else take(x, rows)
        v = original if isinstance(original, Tensor) else original.values
        n = draws * v.shape[0]
        filled = torch.where(for_each_draw(mask, n), self.fill(x, key, modality, draws, rows), for_each_draw(v, n))
        return filled if isinstance(original, Tensor) else with_values(original, filled)

    def extra_repr(self) -> str:
        return settings_repr(self)


class StandardNoise(Noise):
    r"""Standard normal fill, :math:`\epsilon \sim \mathcal N(0, I)`: the paper's choice for its synthetic tasks.

    On real data a network can learn to recognise it and keep its shortcut for inputs that look real; prefer
    :class:`ShuffledNoise` there.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = real_values(x, modality, self)
        return keys.normal(key, (draws * v.shape[0], *v.shape[1:]), v.device).to(v.dtype)


class ZeroNoise(Noise):
    """Zeros: what modality dropout puts in place of a dropped modality, the mean of standardised data."""

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = x if isinstance(x, Tensor) else x.values
        return v.new_zeros((draws * v.shape[0], *v.shape[1:]))


class HideTokens(Noise):
    """Corrupted tokens are hidden from attention instead of replaced (the key-padding form of a token mask).

    For modalities given as :class:`~synib.Tokens`. The model sees them only through its ``key_padding_mask``, so it must
    attend to something else besides (a class token, the other modality), or hidden rows have nothing to attend to.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        raise ValueError(
            "HideTokens hides tokens and has no values to mix in, which a mask that searches would need; use "
            "StandardNoise, MatchedNoise or ShuffledNoise with learned and amortised masks."
        )

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        if not isinstance(x, Tokens):
            raise ValueError(
                f"HideTokens needs {modality!r} as synib.Tokens(values, padding); got a tensor of shape {tuple(x.shape)}."
            )
        if mask.ndim != 3 or mask.shape[-1] != 1:
            raise ValueError(
                f"HideTokens hides whole tokens: use a mask over 'tokens' or 'modality'; got a mask shaped {tuple(mask.shape)}."
            )
        v, padding = x if rows is None else cast(Tokens, take(x, rows))
        n = draws * padding.shape[0]
        hidden = for_each_draw(padding, n) | for_each_draw(mask.squeeze(-1), n)
        return Tokens(for_each_draw(v, n).expand(n, -1, -1), hidden.expand(n, -1))


def real_values(x: Modality, modality: str, noise: Noise) -> Tensor:
    """The values, if normal draws can replace them."""
    v = x if isinstance(x, Tensor) else x.values
    if not v.is_floating_point():
        kind = "truth values" if v.dtype == torch.bool else "whole numbers"
        raise ValueError(
            f"{modality!r} holds {kind} ({v.dtype}), and {type(noise).__name__} draws real ones: embed them first, or "
            "swap them with ShuffledNoise()."
        )
    return v


def for_each_draw(t: Tensor, rows: int) -> Tensor:
    """The tensor once for each draw, unless it already has all rows or the same single row serves them all."""
    return t if t.shape[0] in (1, rows) else t.repeat(rows // t.shape[0], *(1,) * (t.ndim - 1))
