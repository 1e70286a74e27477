"""One file for each figure or table."""

from synib.experiments.base import Experiment
from synib.experiments.parity import Parity
from synib.experiments.search import Search
from synib.experiments.spurious_xor import SpuriousXOR

EXPERIMENTS: dict[str, type[Experiment]] = {kind.name: kind for kind in (SpuriousXOR, Parity, Search)}

__all__ = ["EXPERIMENTS", "Experiment", "Parity", "Search", "SpuriousXOR"]
