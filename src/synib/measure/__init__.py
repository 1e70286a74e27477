"""What a model uses and how well it does."""

from synib.measure.estimate import Estimate, bootstrap
from synib.measure.metrics import accuracies, correct, interval, statistics
from synib.measure.ntk import NTK, ntk

__all__ = ["NTK", "Estimate", "accuracies", "bootstrap", "correct", "interval", "ntk", "statistics"]
