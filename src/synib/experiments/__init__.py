"""One file for each figure or table."""

from synib.experiments.base import Experiment
from synib.experiments.parity import Parity
from synib.experiments.spurious_xor import SpuriousXOR

EXPERIMENTS: dict[str, type[Experiment]] = {kind.name: kind for kind in (SpuriousXOR, Parity)}

__all__ = ["EXPERIMENTS", "Experiment", "Parity", "SpuriousXOR"]
