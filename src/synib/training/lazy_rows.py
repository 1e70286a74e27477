"""Rows of a large table that are read and standardised batch by batch, so that folds and models share one array."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from synib.files.pages import RowReader
from synib.tokens import Modality, Tokens, optional, take


@dataclass(frozen=True)
class LazyRows:
    """Some rows of one modality, standardised when they are taken. Indexing gives what the same tensor would give.

    Args:
        reader: Reads rows of the whole table.
        index: The numbers of these rows.
        mean, factor: Of each column; a row becomes ``(row - mean) * factor``.
        present: Which of these rows have the modality; ``None`` if all do.
    """

    reader: RowReader
    index: Tensor
    mean: Tensor
    factor: Tensor
    present: Tensor | None = None

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Tensor | slice) -> Modality:
        x = self.reader(self.index[rows]).sub_(self.mean).mul_(self.factor)
        return x if self.present is None else optional(x, self.present[rows])

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.index), self.reader.width))

    def reordered(self, rows: Tensor) -> "LazyRows":
        """These rows in another order, or some of them; nothing is read."""
        present = None if self.present is None else self.present[rows]
        return replace(self, index=self.index[rows], present=present)


def in_order(x: Modality, rows: Tensor) -> Modality:
    """Rows of a modality in another order, or some of them; lazy ones stay lazy."""
    return cast(Modality, x.reordered(rows)) if isinstance(x, LazyRows) else take(x, rows)


class StackedRows:
    """The rows of several models side by side. What models see alike is read and standardised once.

    Args:
        rows: Those of each model, as many for each, all of one table.
    """

    def __init__(self, rows: Sequence[LazyRows]) -> None:
        different = list({id(x): x for x in rows}.values())
        places = {id(x): i for i, x in enumerate(different)}
        self._model = torch.tensor([places[id(x)] for x in rows])
        self._reader = rows[0].reader
        self._index = torch.stack([x.index for x in different])
        self._mean = torch.stack([x.mean for x in different])[:, None]
        self._factor = torch.stack([x.factor for x in different])[:, None]
        present = [x.present for x in different if x.present is not None]
        self._present = torch.stack(present) if present else None

    def __getitem__(self, where: tuple[Tensor | slice, Tensor | slice]) -> Modality:
        """Rows of every model: ``[:, a:b]``, or for each model rows of its own, ``[models, rows]``."""
        rows = where[1]
        if isinstance(rows, slice):
            source, place = torch.arange(len(self._index)), self._model
            at = torch.arange(self._index.shape[1])[None, rows]
        else:
            first, place = _distinct(self._model, rows)
            source, at = self._model[first], rows[first]
        index = self._index[source[:, None], at]
        x = self._reader(index.flatten()).view(*index.shape, -1).sub_(self._mean[source]).mul_(self._factor[source])
        present = None if self._present is None else self._present[source[:, None], at]
        if present is not None:
            x = torch.where(present[..., None], x, 0.0)
        if len(place) > len(source):
            x, present = x[place], None if present is None else present[place]
        return x if present is None else Tokens(x[:, :, None], ~present[..., None])


def _distinct(source: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The first model of each different pair of a source and an order of rows, and which of these each model has."""
    pairs: dict[tuple[int, bytes], int] = {}
    first: list[int] = []
    place: list[int] = []
    for model, (number, order) in enumerate(zip(source.tolist(), rows.numpy(), strict=True)):
        key = number, order.tobytes()
        if key not in pairs:
            pairs[key] = len(first)
            first.append(model)
        place.append(pairs[key])
    return torch.tensor(first), torch.tensor(place)
