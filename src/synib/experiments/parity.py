"""Three modalities: the label is the parity of three bits, and the first modality carries a shortcut."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.experiments.spurious_xor import SpuriousXOR


@dataclass(frozen=True)
class Parity(SpuriousXOR):
    """The parity of three bits in three modalities, with a shortcut in the first.

    Args:
        seeds, beta, methods, test_shortcut, epochs, overrides: As in :class:`SpuriousXOR`.
    """

    name: ClassVar[str] = "parity"
    title: ClassVar[str] = "Three-modality parity: synergy of more than two"
    about: ClassVar[str] = (
        "The label is the parity of three bits, one in each modality: any two modalities together say nothing about it. "
        "The first modality also carries a shortcut that gives the label away in training and is noise at test. "
        "1,000 training examples."
    )
    modalities: ClassVar[int] = 3
    examples: ClassVar[int] = 1000

    beta: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        return None
