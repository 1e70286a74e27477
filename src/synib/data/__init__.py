"""Data sets: what one is, and what reading one from disk takes; each study has its own loader."""

from synib.data.dataset import Dataset, Split

__all__ = ["Dataset", "Split"]
