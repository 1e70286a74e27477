"""Bring your own data: folds, models trained on them, and their evaluation."""
