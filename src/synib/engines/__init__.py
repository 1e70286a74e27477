"""Who trains the cells."""

from synib.engines.cells import Cell, Learner, Recipe

__all__ = ["Cell", "Learner", "Recipe"]
