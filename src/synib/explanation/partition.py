"""The parts of a modality: columns, tokens, named blocks, patches of a picture or of a spectrogram."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib.checks import check_whole, shown
from synib.tokens import Modality, Tokens, values

REST = "rest"  # the coordinates that are in no named block
PartsOf = str | Mapping[str, Iterable[int]] | ArrayLike


class Partition:
    """Which part each coordinate of a modality belongs to.

    Args:
        label: The part number of each coordinate, shaped like one row's values, or with dimensions of size 1.
        names: A name for each part.
    """

    def __init__(self, label: Tensor, names: Sequence[str]) -> None:
        self.label, self.names = label, tuple(names)

    def __len__(self) -> int:
        return len(self.names)

    def swapped(self, x: Modality, other: Modality, own: Tensor) -> Modality:
        """Mix two rows: some parts come from ``x``, all others from ``other``.

        Args:
            x, other: One row each, ``(1, ...)``.
            own: Which parts come from ``x`` in each mixture, ``(mixtures, parts)``.
        """
        mask = own[:, self.label.to(own.device)]
        if not isinstance(x, Tokens) or not isinstance(other, Tokens):
            return torch.where(mask, values(x), values(other))
        mixed = torch.where(mask, x.values, other.values)
        are_tokens = self.label.shape[-1] == 1  # tokens are exchanged with their padding
        padding = torch.where(mask.squeeze(-1), x.padding, other.padding) if are_tokens else x.padding
        return Tokens(mixed, padding.expand(len(own), -1))


def partition(parts: PartsOf, x: Modality, name: str = "modality") -> Partition:
    """The parts of a modality.

    Args:
        parts: ``"coordinates"`` (each number is a part), ``"tokens"`` (each index of the second dimension is a part), a dict
            of block → indices of the last dimension (all others form one more part, ``"rest"``), or an array with the part
            number of each coordinate, such as :func:`patches` returns.
        x: The modality.
        name: Its name, for errors.
    """
    v = values(x)
    shape = v.shape[1:]
    if isinstance(parts, str):
        if parts == "tokens" and v.ndim >= 3:
            label = torch.arange(shape[0]).reshape(shape[0], *[1] * (len(shape) - 1))
            return Partition(label, [f"token {i}" for i in range(shape[0])])
        if parts != "coordinates":
            raise ValueError(
                f"Parts of {name!r} must be 'coordinates', 'tokens' (for a modality with at least 3 dimensions), a dict of "
                f"blocks or an array of part numbers; got {parts!r} for shape {tuple(v.shape)}."
            )
        count = int(np.prod(shape))
        return Partition(torch.arange(count).reshape(shape), [f"column {i}" for i in range(count)])
    if isinstance(parts, Mapping):
        return _blocks(parts, shape, name)
    try:
        label = torch.as_tensor(np.asarray(parts))
        wrong = label.is_floating_point() or bool((label < 0).any())
        label = label.long().reshape(shape if label.numel() == np.prod(shape) else label.shape)
        torch.broadcast_shapes(label.shape, shape)
    except (TypeError, ValueError, RuntimeError):
        wrong = True
    if wrong or label.ndim != len(shape):
        raise ValueError(
            f"An array of parts of {name!r} must hold an integer from 0 for each of its coordinates, {tuple(shape)}; got "
            f"{shown(parts)}."
        )
    present, number = label.unique(return_inverse=True)
    return Partition(number.reshape(label.shape), [f"part {int(i)}" for i in present])


def patches(shape: tuple[int, int], size: int | tuple[int, int]) -> NDArray[np.int64]:
    """The patch number of each pixel of a picture, ``(height, width)``; patches at the edge may be smaller.

    >>> patches((2, 4), 2)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1]])
    """
    height, width = shape
    tall, wide = size if isinstance(size, tuple) else (size, size)
    check_whole("The height of a patch", tall)
    check_whole("The width of a patch", wide)
    rows, columns = np.arange(height) // tall, np.arange(width) // wide
    return np.asarray(rows[:, None] * (columns[-1] + 1) + columns, dtype=np.int64)


def _blocks(blocks: Mapping[str, Iterable[int]], shape: Sequence[int], name: str) -> Partition:
    width = shape[-1]
    label = np.full(width, -1)
    for number, (block, indices) in enumerate(blocks.items()):
        at: Any = np.asarray(list(indices))
        if at.dtype.kind not in "iu" or not len(at) or at.min() < 0 or at.max() >= width:
            raise ValueError(f"Block {block!r} of {name!r} must hold integers from 0 to {width - 1}; got {shown(at)}.")
        if (label[at] >= 0).any():
            raise ValueError(f"Block {block!r} of {name!r} shares coordinates with another block.")
        label[at] = number
    names = [*map(str, blocks)]
    if (label < 0).any():
        label[label < 0] = len(names)
        names.append(REST)
    return Partition(torch.from_numpy(label).reshape(*[1] * (len(shape) - 1), width), names)
