"""Data sets: training, validation and test examples, with metadata on examples and coordinates."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from synib.checks import check_whole, is_whole, shown
from synib.tokens import Modality, take, values


@dataclass(frozen=True)
class Split:
    """Examples for training, model selection or testing.

    Args:
        modalities: Name → tensor (or :class:`~synib.Tokens`), batch first.
        target: The labels or values to predict.
        groups: Name → which examples belong to it (in PID-XOR: the source that determines the label).
        columns: Name → further information on each example (its id, its actor), which models do not see.
        sample_weight: Weight of each example in training, ``(examples,)``; equal weights by default.
    """

    modalities: Mapping[str, Modality]
    target: Tensor
    groups: Mapping[str, Tensor] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    sample_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: Tensor | slice) -> "Split":
        """Some of the examples."""
        numbers = torch.arange(len(self))[rows].tolist()
        return Split(
            {name: take(x, rows) for name, x in self.modalities.items()},
            self.target[rows],
            {name: members[rows] for name, members in self.groups.items()},
            {name: [column[i] for i in numbers] for name, column in self.columns.items()},
            None if self.sample_weight is None else self.sample_weight[rows],
        )


@dataclass(frozen=True)
class Dataset:
    """Training, validation and test examples.

    Args:
        train: Examples for fitting parameters.
        validation: Examples for choosing settings.
        test: Examples for reporting results; ``None`` if they must not be used.
        blocks: Modality → block name → its coordinates, if known.
    """

    train: Split
    validation: Split
    test: Split | None
    blocks: Mapping[str, Mapping[str, range]] = field(default_factory=dict)

    @property
    def widths(self) -> dict[str, int]:
        """Modality → size of its last dimension."""
        return {name: values(x).shape[-1] for name, x in self.train.modalities.items()}


def standardised(train: Split, validation: Split, test: Split, more: float = 0.0) -> tuple[Split, Split, Split]:
    """Splits of vectors standardised to mean 0 and standard deviation 1 over the training examples.

    Args:
        train, validation, test: The splits.
        more: Added to every standard deviation, so that nearly constant columns stay small.
    """
    scales = {name: (values(x).mean(0), values(x).std(0) + more) for name, x in train.modalities.items()}

    def scaled(split: Split) -> Split:
        modalities = {name: (values(x) - scales[name][0]) / scales[name][1] for name, x in split.modalities.items()}
        return replace(split, modalities=modalities)

    return scaled(train), scaled(validation), scaled(test)


def check_sizes(**sizes: int) -> None:
    """Raise ``ValueError`` unless every split has a whole number of examples, at least 1."""
    if not all(is_whole(n) and n >= 1 for n in sizes.values()):
        got = ", ".join(f"{name}={shown(n)}" for name, n in sizes.items())
        raise ValueError(f"Every split needs a whole number of examples, at least 1; got {got}.")


def generator(seed: int, label: str) -> torch.Generator:
    """A random generator for one purpose and seed, independent of those for others."""
    check_whole("seed", seed, least=None)
    return torch.Generator().manual_seed(zlib.crc32(f"{label}/{seed}".encode()))
