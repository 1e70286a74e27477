"""What a model uses and how well it does."""

from synib.measure.metrics import accuracies, correct, statistics

__all__ = ["accuracies", "correct", "statistics"]
