"""A data set in three parts, with what its makers know about its examples and coordinates."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Examples to train, select or test on.

    Args:
        modalities: Name → tensor, batch first.
        target: What is to be predicted.
        groups: Name → which examples belong to it (for PID-XOR: the source that determines the label).
    """

    modalities: Mapping[str, Tensor]
    target: Tensor
    groups: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True)
class Dataset:
    """Training, validation and test examples.

    Args:
        train: To fit parameters on.
        validation: To choose settings on.
        test: Read once; ``None`` where it must not be looked at.
        blocks: For each modality, block name → its coordinates, where they are known.
    """

    train: Split
    validation: Split
    test: Split | None
    blocks: Mapping[str, Mapping[str, range]] = field(default_factory=dict)

    @property
    def widths(self) -> dict[str, int]:
        """Modality → size of its last dimension."""
        return {name: x.shape[-1] for name, x in self.train.modalities.items()}


def generator(seed: int, label: str) -> torch.Generator:
    """A random stream of its own for each purpose and seed."""
    return torch.Generator().manual_seed(zlib.crc32(f"{label}/{seed}".encode()))
