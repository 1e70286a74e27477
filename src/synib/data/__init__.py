"""Data sets: their common form, and helpers for reading them from disk; each study has its own loader."""

from synib.data.dataset import Dataset, Split

__all__ = ["Dataset", "Split"]
