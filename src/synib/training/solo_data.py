"""From a split that may lie on disk to the pieces of batches that a device learns from, read ahead in a thread."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from synib import keys
from synib.data import Split
from synib.tokens import Modality, Tokens, take
from synib.training.solo_plan import Plan

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True)
class Piece:
    """What one device learns from at once: a part of a batch.

    Args:
        modalities, target, rows: The examples, and which of the training data they are.
        number: Which piece of its batch it is, ``None`` where the batch is one piece.
        share: Its part of the batch; 0 where the batch had no piece left for this device.
        last: Whether the device updates after it.
    """

    modalities: dict[str, Modality]
    target: Tensor
    rows: Tensor
    number: int | None
    share: float
    last: bool

    def to(self, device: torch.device) -> "Piece":
        """The same on a device; the copy goes on while the device is still busy with the piece before."""
        seen = {name: on(x, device) for name, x in self.modalities.items()}
        return replace(
            self,
            modalities=seen,
            target=self.target.to(device, non_blocking=True),
            rows=self.rows.to(device, non_blocking=True),
        )


class Batches:
    """The pieces of an epoch that fall to one device, each time from where training stands.

    Args:
        split: The training data.
        plan: Gives seed, batch size and pieces.
        rank, world: Which device this is, of how many.
        at: Says where training stands: the epoch, and how many of its batches are done.
        pin: Whether pieces are put where a GPU can fetch them by itself.
        ahead: How many pieces a thread reads ahead; 0 for no thread.
    """

    def __init__(
        self, split: Split, plan: Plan, rank: int, world: int, at: Callable[[], tuple[int, int]], pin: bool, ahead: int
    ) -> None:
        self.split, self.plan, self.rank, self.world = split, plan, rank, world
        self.at, self.pin, self.ahead = at, pin, ahead

    def __len__(self) -> int:
        return sum(1 for _ in self._places(torch.arange(len(self.split)), 0))

    def __iter__(self) -> Iterator[Piece]:
        epoch, done = self.at()
        order = keys.permutation(keys.fold(keys.key(self.plan.seed), "order", epoch), len(self.split))
        return read_ahead(self._read, self._places(order, done), self.ahead)

    def _places(self, order: Tensor, done: int) -> Iterator[tuple[Tensor, int | None, float, bool]]:
        for rows in order.split(self.plan.batch_size)[done:]:
            pieces = self.plan.pieces(rows, self.world)
            alone = self.plan.accumulate * self.world == 1
            turns = -(-len(pieces) // self.world)
            for turn in range(turns):
                number = turn * self.world + self.rank
                # Devices wait for each other: one that has no piece left takes part with a piece that does not count.
                mine, share = pieces[number % len(pieces)], 0.0
                if number < len(pieces):
                    share = len(mine) / len(rows)
                yield mine, None if alone else number, share, turn == turns - 1

    def _read(self, place: tuple[Tensor, int | None, float, bool]) -> Piece:
        rows, number, share, last = place
        target = self.split.target
        seen = {name: rows_of(x, rows) for name, x in self.split.modalities.items()}
        piece = Piece(seen, target[rows.to(target.device)], rows, number, share, last)
        if not self.pin:
            return piece
        pinned = {name: _pinned(x) for name, x in piece.modalities.items()}
        return replace(piece, modalities=pinned, target=_pin(piece.target), rows=_pin(rows))


def rows_of(x: Modality, rows: Tensor) -> Modality:
    """Rows of a modality, wherever it lies."""
    return take(x, rows.to((x.values if isinstance(x, Tokens) else x).device))


def on(x: Modality, device: torch.device) -> Modality:
    """A modality on a device, without waiting for it to arrive."""
    if isinstance(x, Tokens):
        return Tokens(x.values.to(device, non_blocking=True), x.padding.to(device, non_blocking=True))
    return x.to(device, non_blocking=True)


def _pinned(x: Modality) -> Modality:
    return Tokens(_pin(x.values), _pin(x.padding)) if isinstance(x, Tokens) else _pin(x)


def _pin(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_cuda else tensor.pin_memory()


def read_ahead(read: Callable[[S], T], places: Iterable[S], ahead: int) -> Iterator[T]:
    """What ``read`` gives for each place, in order; a thread is up to ``ahead`` places in front."""
    if ahead == 0:
        yield from map(read, places)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1, "synib-read-ahead") as pool:
        try:
            for place in places:
                waiting.append(pool.submit(read, place))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # whoever stops early does not wait for the rest
            for future in waiting:
                future.cancel()
