"""A modality made of tokens, and batch operations that work for both tensors and tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Tokens(NamedTuple):
    """A sequence modality with its padding mask, for attention models.

    Args:
        values: Token vectors, ``(batch, tokens, width)``.
        padding: ``(batch, tokens)``, true for padding, which attention ignores (PyTorch's ``key_padding_mask``).
    """

    values: Tensor
    padding: Tensor


Modality = Tensor | Tokens


def optional(x: Tensor, present: Tensor) -> Tokens:
    """A modality that may be missing in some rows: one token per row, hidden where the modality is missing.

    The values of a hidden row are ignored, NaN included. :class:`~synib.models.OptionalEncoder` encodes such a
    modality.

    Args:
        x: Vectors, ``(batch, width)``.
        present: ``(batch,)``, true where a row has the modality.
    """
    if not isinstance(x, Tensor) or x.ndim != 2:
        raise ValueError(f"A modality with missing rows must have shape (batch, width); got {describe(x)}.")
    if not isinstance(present, Tensor) or present.dtype != torch.bool or present.shape != x.shape[:1]:
        raise ValueError(f"present must be a boolean for each of {x.shape[0]} rows; got {describe(present)}.")
    return Tokens(torch.where(present[:, None], x, 0.0)[:, None], ~present[:, None])


def present(x: Modality) -> Tensor | None:
    """Which rows have the modality, ``(batch,)``; ``None`` if all have it, as in a plain tensor."""
    return ~x.padding.all(-1) if isinstance(x, Tokens) else None


def values(x: Modality) -> Tensor:
    """The values of a modality, without its padding mask."""
    return x.values if isinstance(x, Tokens) else x


def mean_token(x: Tokens) -> Tensor:
    """The mean over the tokens of a sequence, without padding and hidden tokens."""
    visible = (~x.padding).to(x.values.dtype)[..., None]
    return (x.values * visible).sum(-2) / visible.sum(-2).clamp(min=1.0)


def with_values(x: Modality, new: Tensor) -> Modality:
    """The same modality with other values; padding is repeated where there are several draws."""
    if not isinstance(x, Tokens):
        return new
    return Tokens(new, x.padding.repeat(new.shape[0] // x.padding.shape[0], 1))


def take(x: Modality, rows: Tensor | slice | tuple[Tensor | slice, ...]) -> Modality:
    """The given rows of a batch; a tuple indexes several leading dimensions."""
    return _each(lambda tensor: tensor[rows], x)


def split(x: Modality, sizes: Sequence[int]) -> list[Modality]:
    """The batch split into consecutive pieces."""
    if isinstance(x, Tokens):
        return [Tokens(*parts) for parts in zip(*(part.split(list(sizes)) for part in x), strict=True)]
    return list(x.split(list(sizes)))


def stack(batches: Sequence[Modality]) -> Modality:
    """Batches of equal size stacked along a new leading dimension; one that is repeated many times is not copied."""
    if all(b is batches[0] for b in batches):
        return _each(lambda tensor: tensor.expand(len(batches), *tensor.shape), batches[0])
    return _each(lambda *tensors: torch.stack(tensors), *batches)


def move(x: Modality, device: torch.device | str) -> Modality:
    """The same modality on another device."""
    return _each(lambda tensor: tensor.to(device), x)


def repeat(x: Modality, rows: Tensor | None, times: int) -> Modality:
    """Some rows of a batch, or all of them, repeated several times."""
    return join([x if rows is None else take(x, rows)] * times)


def join(pieces: Sequence[Modality]) -> Modality:
    """Batches concatenated along the batch dimension."""
    return pieces[0] if len(pieces) == 1 else _each(lambda *tensors: torch.cat(tensors), *pieces)


def _each(function: Callable[..., Tensor], *batches: Modality) -> Modality:
    """Apply a function of tensors to batches of tensors, or to both the values and the padding of tokens."""
    if isinstance(batches[0], Tokens):
        return Tokens(*(function(*parts) for parts in zip(*batches, strict=True)))
    return function(*batches)


def describe(x: object) -> str:
    """The description of a wrong input for an error message: shape and dtype of a tensor, otherwise its class."""
    return f"{tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
