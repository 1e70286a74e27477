"""Training: one step and one epoch loop, for a single model, for many at once, and on a cluster."""

from synib.training.cells import Cell, Examining, Learner, Recipe, Watching
from synib.training.folder import Folder
from synib.training.step import backward

__all__ = ["Cell", "Examining", "Folder", "Learner", "Recipe", "Watching", "backward"]
