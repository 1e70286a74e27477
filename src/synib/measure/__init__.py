"""What a model uses and how well it does."""

from synib.measure.estimate import Estimate, bootstrap
from synib.measure.metrics import accuracies, correct, interval, statistics

__all__ = ["Estimate", "accuracies", "bootstrap", "correct", "interval", "statistics"]
