"""Who trains the cells."""

from synib.engines.cells import Cell
from synib.engines.folder import Folder
from synib.engines.learner import Examining, Learner, Recipe, Watching

__all__ = ["Cell", "Examining", "Folder", "Learner", "Recipe", "Watching"]
