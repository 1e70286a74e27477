"""The data loader of one device, from a split that may be memory-mapped."""

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
    """The rows of one micro-batch on one device.

    Args:
        rows: Indices of the examples.
        number: Index of the micro-batch in its batch; ``None`` if the batch is not split.
        share: Its share of the batch's weight; 0 if the batch has no micro-batch left for this device.
    """

    rows: Tensor
    number: int | None
    share: float


class Piece(NamedTuple):
    """One micro-batch on one device; a named tuple, whose tensors torch and Lightning can pin and move.

    Args:
        modalities, target, sample_weight: The examples.
        place: The rows of the micro-batch.
    """

    modalities: dict[str, Modality]
    target: Tensor
    sample_weight: Tensor | None
    place: PieceRows


class Pieces(Sampler[PieceRows]):
    """The micro-batches of one device in an epoch.

    Every device has equally many, because devices wait for each other: one without a micro-batch repeats another with
    weight 0.

    Args:
        weight: Weight of each training example.
        plan: Provides seed, batch size and number of micro-batches.
        rank, world: Rank of this device, and number of devices.
    """

    def __init__(self, weight: Tensor, plan: Plan, rank: int, world: int) -> None:
        self.weight, self.n = weight, len(weight)
        self.plan, self.rank, self.world, self.epoch = plan, rank, world, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch; called by Lightning."""
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
    """A split that returns many rows at once."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __getitem__(self, place: PieceRows) -> Piece:
        split, rows = self.split, place.rows
        seen = {name: rows_of(x, rows) for name, x in split.modalities.items()}
        at = rows.to(split.target.device)
        weight = None if split.sample_weight is None else split.sample_weight[at]
        return Piece(seen, split.target[at], weight, place)


def loader(split: Split, plan: Plan, rank: int, world: int, pin: bool, ahead: int) -> DataLoader[Any]:
    """The data loader of one device for Lightning.

    Args:
        split: The training data.
        plan: Provides seed, batch size and number of micro-batches.
        rank, world: Rank of this device, and number of devices.
        pin: Whether to use pinned memory, for asynchronous copies to a GPU.
        ahead: Number of micro-batches that a worker prefetches; 0 for no worker.
    """
    workers: dict[str, Any] = {"num_workers": 1, "prefetch_factor": ahead, "persistent_workers": True} if ahead else {}
    weight = torch.ones(len(split)) if split.sample_weight is None else split.sample_weight.cpu()
    pieces = Pieces(weight.double(), plan, rank, world)
    return DataLoader(Rows(split), batch_size=None, sampler=pieces, pin_memory=pin, **workers)


def rows_of(x: Modality, rows: Tensor) -> Modality:
    """Rows of a modality, in memory or memory-mapped."""
    return take(x, rows.to(values(x).device))
