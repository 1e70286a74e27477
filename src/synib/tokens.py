"""A modality made of tokens, and the few batch operations that hold for tensors and tokens alike."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Tokens(NamedTuple):
    """A sequence modality with its padding, for models that attend.

    Args:
        values: Token vectors, ``(batch, tokens, width)``.
        padding: ``(batch, tokens)``, true where attention must not look (PyTorch's ``key_padding_mask``).
    """

    values: Tensor
    padding: Tensor


Modality = Tensor | Tokens


def optional(x: Tensor, present: Tensor) -> Tokens:
    """A modality that rows may lack: one token for each row, hidden where there is none.

    Whatever stands in a hidden row does not count, NaN included. :class:`~synib.models.OptionalEncoder` encodes it.

    Args:
        x: Vectors, ``(batch, width)``.
        present: ``(batch,)``, true where a row has the modality.
    """
    if not isinstance(x, Tensor) or x.ndim != 2:
        raise ValueError(f"A modality that rows may lack is (batch, width); got {describe(x)}.")
    if not isinstance(present, Tensor) or present.dtype != torch.bool or present.shape != x.shape[:1]:
        raise ValueError(f"present says true or false of each of {x.shape[0]} rows; got {describe(present)}.")
    return Tokens(torch.where(present[:, None], x, 0.0)[:, None], ~present[:, None])


def present(x: Modality) -> Tensor | None:
    """Which rows have anything of a modality, ``(batch,)``; ``None`` where all do, as of plain tensors."""
    return ~x.padding.all(-1) if isinstance(x, Tokens) else None


def values(x: Modality) -> Tensor:
    """The numbers of a modality, without its padding."""
    return x.values if isinstance(x, Tokens) else x


def mean_token(x: Tokens) -> Tensor:
    """The mean of a sequence's tokens; padding and hidden tokens do not count."""
    visible = (~x.padding).to(x.values.dtype)[..., None]
    return (x.values * visible).sum(-2) / visible.sum(-2).clamp(min=1.0)


def with_values(x: Modality, new: Tensor) -> Modality:
    """The same modality holding other numbers; padding is repeated where there are several draws."""
    if not isinstance(x, Tokens):
        return new
    return Tokens(new, x.padding.repeat(new.shape[0] // x.padding.shape[0], 1))


def take(x: Modality, rows: Tensor | slice | tuple[Tensor | slice, ...]) -> Modality:
    """The given rows of a batch; a tuple is an index of the dimensions in front, where there are several."""
    return _each(lambda tensor: tensor[rows], x)


def split(x: Modality, sizes: Sequence[int]) -> list[Modality]:
    """A batch cut into consecutive pieces."""
    if isinstance(x, Tokens):
        return [Tokens(*parts) for parts in zip(*(part.split(list(sizes)) for part in x), strict=True)]
    return list(x.split(list(sizes)))


def stack(batches: Sequence[Modality]) -> Modality:
    """Batches of one size side by side, in a new dimension in front; one that is there many times is not copied."""
    if all(b is batches[0] for b in batches):
        return _each(lambda tensor: tensor.expand(len(batches), *tensor.shape), batches[0])
    return _each(lambda *tensors: torch.stack(tensors), *batches)


def move(x: Modality, device: torch.device | str) -> Modality:
    """The same on another device."""
    return _each(lambda tensor: tensor.to(device), x)


def repeat(x: Modality, rows: Tensor | None, times: int) -> Modality:
    """Some rows of a batch, or all of them, several times one after the other."""
    return join([x if rows is None else take(x, rows)] * times)


def join(pieces: Sequence[Modality]) -> Modality:
    """Batches put one after the other."""
    return pieces[0] if len(pieces) == 1 else _each(lambda *tensors: torch.cat(tensors), *pieces)


def _each(function: Callable[..., Tensor], *batches: Modality) -> Modality:
    """A function of tensors, applied to batches of tensors, or to the values and to the padding of tokens."""
    if isinstance(batches[0], Tokens):
        return Tokens(*(function(*parts) for parts in zip(*batches, strict=True)))
    return function(*batches)


def describe(x: object) -> str:
    """What came instead of a modality, for a sentence: shape and type of a tensor, or a class."""
    return f"{tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
