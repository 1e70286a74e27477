"""From a split that may lie on disk to the pieces of batches that one device learns from, as a torch ``DataLoader``."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from synib import keys
from synib.data import Split
from synib.tokens import Modality, take, values
from synib.training.plan import Plan


class PieceRows(NamedTuple):
    """Which rows one device learns from at once.

    Args:
        rows: The examples.
        number: Which piece of its batch it is, ``None`` where the batch is one piece.
        share: Its part of the batch's weight; 0 where the batch had no piece left for this device.
    """

    rows: Tensor
    number: int | None
    share: float


class Piece(NamedTuple):
    """What one device learns from at once, a part of a batch; torch and Lightning pin and move the tensors of a named tuple.

    Args:
        modalities, target, sample_weight: The examples.
        place: Which they are.
    """

    modalities: dict[str, Modality]
    target: Tensor
    sample_weight: Tensor | None
    place: PieceRows


class Pieces(Sampler[PieceRows]):
    """The pieces of an epoch that fall to one device.

    Every device has equally many, since devices wait for each other: one that has no piece left repeats one, which does not
    count.

    Args:
        weight: How much each training example counts.
        plan: Gives seed, batch size and pieces.
        rank, world: Which device this is, of how many.
    """

    def __init__(self, weight: Tensor, plan: Plan, rank: int, world: int) -> None:
        self.weight, self.n = weight, len(weight)
        self.plan, self.rank, self.world, self.epoch = plan, rank, world, 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next; Lightning calls it."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.n // self.plan.batch_size) * self.plan.accumulate

    def __iter__(self) -> Iterator[PieceRows]:
        order = keys.permutation(keys.fold(keys.key(self.plan.seed), "order", self.epoch), self.n)
        count = self.plan.accumulate * self.world
        for rows in order.split(self.plan.batch_size):
            pieces = self.plan.pieces(rows, self.world)
            for turn in range(self.plan.accumulate):
                number = turn * self.world + self.rank
                own = float(self.weight[pieces[number]].sum()) if number < len(pieces) else 0.0
                share = own and own / float(self.weight[rows].sum())
                yield PieceRows(pieces[number % len(pieces)], number if count > 1 else None, share)


class Rows(Dataset[Piece]):
    """A split that is asked for many rows at once."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __getitem__(self, place: PieceRows) -> Piece:
        split, rows = self.split, place.rows
        seen = {name: rows_of(x, rows) for name, x in split.modalities.items()}
        at = rows.to(split.target.device)
        weight = None if split.sample_weight is None else split.sample_weight[at]
        return Piece(seen, split.target[at], weight, place)


def loader(split: Split, plan: Plan, rank: int, world: int, pin: bool, ahead: int) -> DataLoader[Any]:
    """The pieces of one device as Lightning takes them.

    Args:
        split: The training data.
        plan: Gives seed, batch size and pieces.
        rank, world: Which device this is, of how many.
        pin: Whether pieces are put where a GPU can fetch them by itself.
        ahead: How many pieces a worker reads ahead; 0 for no worker.
    """
    workers: dict[str, Any] = {"num_workers": 1, "prefetch_factor": ahead, "persistent_workers": True} if ahead else {}
    weight = torch.ones(len(split)) if split.sample_weight is None else split.sample_weight.cpu()
    pieces = Pieces(weight.double(), plan, rank, world)
    return DataLoader(Rows(split), batch_size=None, sampler=pieces, pin_memory=pin, **workers)


def rows_of(x: Modality, rows: Tensor) -> Modality:
    """Rows of a modality, wherever it lies."""
    return take(x, rows.to(values(x).device))
