"""Who trains the cells."""

from synib.training.cells import Cell
from synib.training.folder import Folder
from synib.training.learner import Examining, Learner, Recipe, Watching

__all__ = ["Cell", "Examining", "Folder", "Learner", "Recipe", "Watching"]
