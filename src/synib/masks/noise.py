"""The noise that replaces corrupted coordinates."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from synib import keys
from synib.checks import settings_repr
from synib.tokens import Modality, Tokens, take, with_values


class Noise(nn.Module):
    """Base class of all noises: draws replacements for a modality's values, independent of the target.

    Attributes:
        shuffles: Whether a replacement is another row of the same batch, as returned by :meth:`rows`. With a mask over
            the whole modality, the objective can then reuse what it has already encoded.
        within_classes: Whether :meth:`rows` needs the class that the unimodal head predicts for each row.
        follows_data: Whether it uses statistics of the training batches passed to :meth:`observe`.
    """

    shuffles: bool = False
    within_classes: bool = False
    follows_data: bool = False

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        """``draws`` replacements for every row, stacked draw by draw: ``(draws * batch, ...)``."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(x, key, modality, draws).")

    def rows(
        self,
        key: Tensor,
        batch: int,
        draws: int = 1,
        device: torch.device | None = None,
        classes: Tensor | None = None,
    ) -> Tensor:
        """The row that replaces each row, stacked draw by draw: ``(draws * batch,)``; for noise that shuffles.

        Args:
            key: Key of the draw.
            batch: Number of rows.
            draws: Number of replacements for each row.
            device: Device of the result.
            classes: The class that the unimodal head predicts for each row, for noise that is ``within_classes``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define rows(key, batch, draws, device, classes), since it shuffles."
        )

    def prepare(self, x: Modality, modality: str) -> None:
        """Allocate the buffers of :meth:`observe` before the first batch, as ``vmap`` requires."""

    def observe(self, x: Modality, modality: str, group: Any = None, sample_weight: Tensor | None = None) -> None:
        """Update the statistics from a training batch, for noise that follows the data.

        Args:
            x: The batch.
            modality: Its name.
            sample_weight: Weight of each row; equal weights by default.
            group: Process group that trains replicas of one model on parts of a batch; ``None`` for a single process.
        """

    def fill(self, x: Modality, key: Tensor, modality: str, draws: int = 1, rows: Tensor | None = None) -> Tensor:
        """Replacements for all rows of a batch, or for some of its ``rows``; shuffled noise takes them from any row."""
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
        """The rows that replace all rows of a batch, or some of its ``rows``; for noise that shuffles, as :meth:`rows`."""
        taken = self.rows(key, batch, draws, device, *(() if classes is None else (classes,)))
        return taken if rows is None else taken.view(draws, -1)[:, rows].reshape(-1)

    def corrupt(
        self, x: Modality, mask: Tensor, key: Tensor, modality: str = "", draws: int = 1, rows: Tensor | None = None
    ) -> Modality:
        r"""The gate :math:`\tilde x = (1 - M) \odot x + M \odot \epsilon` (Eq. gate-app), ``draws`` times.

        Args:
            x: The modality's batch.
            mask: The coordinates to corrupt.
            key: Key of the draw.
            modality: Its name.
            draws: Number of corrupted copies of each row.
            rows: The rows to corrupt, to which the mask applies; all by default.
        """
        original = x if rows is None else take(x, rows)
        v = original if isinstance(original, Tensor) else original.values
        n = draws * v.shape[0]
        filled = torch.where(for_each_draw(mask, n), self.fill(x, key, modality, draws, rows), for_each_draw(v, n))
        return filled if isinstance(original, Tensor) else with_values(original, filled)

    def extra_repr(self) -> str:
        return settings_repr(self)


class StandardNoise(Noise):
    r"""Standard normal noise, :math:`\epsilon \sim \mathcal N(0, I)`: the paper's choice for its synthetic tasks.

    On real data, a network can learn to recognise this noise and keep its shortcut for inputs that look real; prefer
    :class:`ShuffledNoise` there.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = real_values(x, modality, self)
        return keys.normal(key, (draws * v.shape[0], *v.shape[1:]), v.device).to(v.dtype)


class ZeroNoise(Noise):
    """Zeros, as in modality dropout: the mean of standardised data."""

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        v = x if isinstance(x, Tensor) else x.values
        return v.new_zeros((draws * v.shape[0], *v.shape[1:]))


class HideTokens(Noise):
    """Hides corrupted tokens from attention instead of replacing them (a token mask as key padding).

    For modalities given as :class:`~synib.Tokens`. The model sees the corruption only through its ``key_padding_mask``,
    so it must be able to attend to something else (a class token, the other modality); otherwise a fully hidden row has
    nothing to attend to.
    """

    def forward(self, x: Modality, key: Tensor, modality: str = "", draws: int = 1) -> Tensor:
        raise ValueError(
            "HideTokens hides tokens and has no values to mix in, as masks that search require; use "
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
                "HideTokens hides whole tokens: use a mask over 'tokens' or 'modality'; got a mask of shape "
                f"{tuple(mask.shape)}."
            )
        v, padding = x if rows is None else cast(Tokens, take(x, rows))
        n = draws * padding.shape[0]
        hidden = for_each_draw(padding, n) | for_each_draw(mask.squeeze(-1), n)
        return Tokens(for_each_draw(v, n).expand(n, -1, -1), hidden.expand(n, -1))


def real_values(x: Modality, modality: str, noise: Noise) -> Tensor:
    """Return the values if normal draws can replace them."""
    v = x if isinstance(x, Tensor) else x.values
    if not v.is_floating_point():
        kind = "booleans" if v.dtype == torch.bool else "integers"
        raise ValueError(
            f"{modality!r} holds {kind} ({v.dtype}), but {type(noise).__name__} draws real numbers: embed the "
            "values first, or use ShuffledNoise()."
        )
    return v


def for_each_draw(t: Tensor, rows: int) -> Tensor:
    """The tensor repeated for each draw, unless it already has all rows or a single row that broadcasts."""
    return t if t.shape[0] in (1, rows) else t.repeat(rows // t.shape[0], *(1,) * (t.ndim - 1))
