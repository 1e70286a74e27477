"""What a model uses and how well it does."""

from synib.measure.metrics import accuracies, correct, interval, statistics

__all__ = ["accuracies", "correct", "interval", "statistics"]
