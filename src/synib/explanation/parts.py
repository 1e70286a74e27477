"""Contributions of the parts of a modality to the evidence: Shapley values, with parts of other rows as replacements."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib import keys, tokens
from synib.explanation.answers import Readout
from synib.explanation.partition import Partition
from synib.measure.encoded import Encoded
from synib.measure.stats import interval

Numbers = NDArray[np.float64]
EXACT = 6  # up to this number of parts, all subsets are evaluated
OTHERS = 4  # values of the other modalities over which each draw is averaged
NUMBERS = 1 << 23  # values of mixed inputs at a time


class RowParts(ABC):
    """Parts that differ from row to row, such as the words of a text. Subclasses count parts and mix rows."""

    @abstractmethod
    def count(self, row: int) -> int:
        """The number of parts of a row."""

    @abstractmethod
    def swapped(self, row: int, fill: int, own: NDArray[np.bool_]) -> NDArray[Any]:
        """The modality's values, ``(inputs, width)``, for mixtures of a row and a background row.

        Args:
            row: The row.
            fill: The number of the background row.
            own: Which parts come from the row in each mixture, ``(inputs, parts)``.
        """


@dataclass(frozen=True)
class PartScores:
    """The contribution of each part of a modality to the evidence for the answer.

    Args:
        modality: Its name.
        rows: The rows that were explained.
        names: The parts.
        label: The part number of each coordinate.
        together: Contribution to the interaction with the other modalities, ``(rows, parts)``, padded with NaN for rows with
            fewer parts than others.
        together_low, together_high: Its interval over draws.
        alone: Contribution to the evidence of the modality alone.
        alone_low, alone_high: Its interval over draws.
        exact: Whether all subsets of parts were evaluated.
        draws: Number of background rows that replaced parts.
    """

    modality: str
    rows: tuple[int, ...]
    names: tuple[str, ...]
    label: NDArray[np.int64]
    together: Numbers
    together_low: Numbers
    together_high: Numbers
    alone: Numbers
    alone_low: Numbers
    alone_high: Numbers
    exact: bool
    draws: int

    def on_coordinates(self, scores: Numbers) -> Numbers:
        """The score of its part for each coordinate of one row, shaped like the row."""
        return scores[self.label]


def part_scores(
    encoded: Encoded,
    readout: Readout,
    parts: Partition | RowParts,
    name: str,
    rows: Sequence[int],
    *,
    first: int = 0,
    draws: int = 32,
    seed: int = 0,
    level: float = 0.95,
) -> PartScores:
    r"""Shapley values of the parts of one modality, for some rows.

    With *T* the parts that come from the row, and all others from a background row, two games are defined for each row,

    .. math:: w(T) = f(x_m^{T}, x_\text{rest}) - \mathbb E_b f(x_m^{T}, b_\text{rest}), \qquad
              w'(T) = \mathbb E_b f(x_m^{T}, b_\text{rest}).

    Contributions to *w* (``together``) add up to the interaction of the modality with the others, and those to *w'*
    (``alone``) to its evidence alone, apart from sampling error. With up to 6 parts all subsets are evaluated for each
    background row. With more parts, random orders are drawn, each with its reverse and another background row. Modalities
    that are not mixed are encoded once, and so is each mixed input.

    Args:
        encoded: The model with rows and background.
        readout: The explained quantity of the first rows.
        parts: The parts.
        name: The modality.
        rows: The rows to explain.
        first: Number of the first background example.
        draws: Background rows for each row, and pairs of orders.
        seed: Seed for draws and orders.
        level: Confidence level.
    """
    key = keys.fold(keys.key(seed), "parts", name)
    games = [_game(encoded, readout, parts, name, row, first, draws) for row in rows]
    most_parts = max((game.count for game in games), default=0)
    values = torch.full((len(games), draws, most_parts, 2), torch.nan, dtype=torch.float64)
    for at, (row, game) in enumerate(zip(rows, games, strict=True)):
        values[at, :, : game.count] = game.contributions(keys.fold(key, row)).cpu()
    mean = values.mean(1)
    half_width = torch.full_like(mean, torch.nan)
    if draws > 1:
        half_width = interval(0.0, 1.0, draws, level)[1] * values.std(1) / math.sqrt(draws)
    ends = [np.moveaxis(x.numpy(), 2, 0) for x in (mean, mean - half_width, mean + half_width)]
    (together, alone), (together_low, alone_low), (together_high, alone_high) = ends
    if isinstance(parts, Partition):
        names = parts.names
        label = parts.label.expand(tokens.values(encoded.modalities[name]).shape[1:]).numpy()
    else:
        names, label = tuple(f"part {k}" for k in range(most_parts)), np.zeros(0, np.int64)
    return PartScores(
        name, tuple(rows), names, label, together, together_low, together_high, alone, alone_low, alone_high,
        all(game.subsets is not None for game in games), draws,
    )  # fmt: skip


def _game(
    encoded: Encoded, readout: Readout, parts: Partition | RowParts, name: str, row: int, first: int, draws: int
) -> "_Game":
    x = encoded.modalities[name]
    row_values = tokens.take(x, slice(row, row + 1))
    if isinstance(parts, Partition):

        def swap(fill: int, own: Tensor) -> tokens.Modality:
            return parts.swapped(row_values, tokens.take(x, slice(fill, fill + 1)), own)

        count = len(parts)
    else:

        def swap(fill: int, own: Tensor) -> tokens.Modality:
            swapped = torch.as_tensor(np.asarray(parts.swapped(row, fill - first, own.cpu().numpy())))
            like = tokens.values(row_values)
            return tokens.with_values(row_values, swapped.to(like).reshape(-1, *like.shape[1:]))

        count = parts.count(row)
    return _Game(encoded, readout, name, row, first, draws, count, swap)


class _Game:
    """The games of the parts of one row of a modality.

    Args:
        encoded, readout, name, first, draws: As for :func:`part_scores`.
        row: The row.
        count: Number of its parts.
        swap: A function of the background example, and of which parts come from the row, that returns the modality's values.
    """

    def __init__(
        self,
        encoded: Encoded,
        readout: Readout,
        name: str,
        row: int,
        first: int,
        draws: int,
        count: int,
        swap: Callable[[int, Tensor], tokens.Modality],
    ) -> None:
        self.encoded, self.readout, self.name, self.row = encoded, readout, name, row
        self.first, self.draws, self.count, self.swap = first, draws, count, swap
        self.rest = [other for other in encoded.names if other != name]
        self.subsets = _subsets(count) if count <= EXACT else None
        self.inputs = 2 * (count + 1) if self.subsets is None else 2**count  # per draw

    def contributions(self, key: Tensor) -> Tensor:
        """The contribution of each part to both games, for each draw: ``(draws, parts, 2)``."""
        fills = self._background(keys.fold(key, "fill"), self.draws)
        others = {o: self._background(keys.fold(key, "others", o), self.draws * OTHERS) for o in self.rest}
        numbers = tokens.values(self.encoded.modalities[self.name])[0].numel()
        at_once = max(1, NUMBERS // (self.inputs * numbers))
        result = []
        for start in range(0, self.draws, at_once):
            batch = torch.arange(start, min(start + at_once, self.draws))
            owns = [self._own_parts(keys.fold(key, "order", int(d))) for d in batch]
            swapped = [self.swap(int(fills[d]), own) for d, own in zip(batch.tolist(), owns, strict=True)]
            worth = self._worth(tokens.join(swapped), others, batch)
            result += [self._shapley(own, w) for own, w in zip(owns, worth, strict=True)]
        return torch.stack(result)

    def _background(self, key: Tensor, draws: int) -> Tensor:
        size = self.encoded.size - self.first
        return self.first + keys.permutation(key, size, self.encoded.device)[torch.arange(draws) % size]

    def _own_parts(self, key: Tensor) -> Tensor:
        """Which parts come from the row in each mixed input of a draw, ``(inputs, parts)``."""
        if self.subsets is not None:
            return self.subsets.to(self.encoded.device)
        rank = keys.permutation(key, self.count, self.encoded.device)
        joined = torch.arange(self.count + 1, device=rank.device)[:, None]
        return torch.cat([rank < joined, (self.count - 1 - rank) < joined])

    def _shapley(self, own: Tensor, worth: Tensor) -> Tensor:
        """The contribution of each part, ``(parts, 2)``, over all subsets, or over an order and its reverse."""
        if self.subsets is not None:
            return _shapley_weights(self.subsets).to(worth) @ worth
        halves = zip(own.chunk(2), worth.chunk(2), strict=True)
        return torch.stack([(o[1:] & ~o[:-1]).to(w).mT @ w.diff(dim=0) for o, w in halves]).mean(0)

    def _worth(self, swapped: tokens.Modality, others: dict[str, Tensor], batch: Tensor) -> Tensor:
        """The value of both games for each mixed input, ``(draws of the batch, inputs of a draw, 2)``."""
        encoded = {self.name: self.encoded.fusion_input(self.name, swapped)}
        device, weights = self.encoded.device, self.readout.weights[self.row]
        inputs = torch.arange(len(batch) * self.inputs, device=device)

        def evidence(rows: Tensor, sampled: dict[str, Tensor], otherwise: Tensor) -> Tensor:
            parameters = self.encoded.mixed({self.name: rows, **sampled}, otherwise, fusion_inputs=encoded)
            return parameters.reshape(len(rows), -1) @ weights

        all_own = evidence(inputs, {}, torch.full_like(inputs, self.row))
        draw = batch.to(device).repeat_interleave(self.inputs)
        background_index = (draw[:, None] * OTHERS + torch.arange(OTHERS, device=device)).flatten()
        sampled = {o: drawn[background_index] for o, drawn in others.items()}
        alone = evidence(inputs.repeat_interleave(OTHERS), sampled, background_index).unflatten(0, (-1, OTHERS)).mean(1)
        return torch.stack([all_own - alone, alone], -1).unflatten(0, (len(batch), self.inputs))


def _subsets(count: int) -> Tensor:
    return torch.tensor(list(itertools.product([False, True], repeat=count)))


def _shapley_weights(subsets: Tensor) -> Tensor:
    """The matrix that maps a game's values at all subsets to its Shapley values, ``(parts, subsets)``."""
    count, size = subsets.shape[1], subsets.sum(1)
    factorial = torch.tensor([math.factorial(i) for i in range(count + 1)], dtype=torch.float64)
    joins = factorial[(size - 1).clamp(min=0)] * factorial[count - size] / factorial[count]
    leaves = factorial[size] * factorial[(count - size - 1).clamp(min=0)] / factorial[count]
    return torch.where(subsets, joins[:, None], -leaves[:, None]).mT.contiguous()
