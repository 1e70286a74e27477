"""Three modalities: the label is the parity of three bits, and the first modality carries a shortcut."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from synib.data import Dataset, parity
from synib.data.parity import TestShortcut
from synib.engines import Cell
from synib.experiments.spurious_xor import SpuriousXOR


@dataclass(frozen=True)
class Parity(SpuriousXOR):
    """The parity of three bits in three modalities, with a shortcut in the first.

    Args:
        seeds, beta, methods, test_shortcut, epochs: As in :class:`SpuriousXOR`.
    """

    name: ClassVar[str] = "parity"
    title: ClassVar[str] = "Three-modality parity: synergy of more than two"
    about: ClassVar[str] = (
        "The label is the parity of three bits, one in each modality: any two modalities together say nothing about it. "
        "The first modality also carries a shortcut that gives the label away in training and is noise at test. "
        "1,000 training examples."
    )

    beta: tuple[float, ...] = (0.0, 0.4, 0.8, 1.0, 2.0)

    def data(self, cell: Cell) -> Dataset:
        return _data(cell.factors["beta"], cell.seed, cell.settings["data"]["test_shortcut"])

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        return None


@lru_cache(maxsize=64)
def _data(beta: float, seed: int, test_shortcut: TestShortcut) -> Dataset:
    return parity(3, beta, seed, train=1000, test_shortcut=test_shortcut)
