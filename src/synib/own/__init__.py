"""Bring your own data: folds, models trained on them, and what can be said of both."""
