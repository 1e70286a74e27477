"""Whether the final model, trained on all rows, has learned what the cross-validated models have."""

from collections.abc import Sequence

import torch
from torch import Tensor

from synib.own.crossfit import frequencies
from synib.own.fitting import answers_of
from synib.own.folds import Rows
from synib.own.recipe import TableRecipe
from synib.training import Learner

ATTEMPTS = 3  # seeds of the final training
COMPARED = 20_000  # training rows on which losses are compared, at most
SHARE, LEAST = 0.25, 0.02  # tolerated loss: a share of what the models gain over a constant, and at least so many nats


def training_loss(recipe: TableRecipe, fold: int, learner: Learner) -> tuple[Tensor, Tensor]:
    """The mean log-loss of a model (or of each of its experts) on its training rows, and that of their class frequencies."""
    rows = _spread(recipe.parts[fold].train)
    split = recipe.view(fold, rows)
    outputs = answers_of(learner, split)
    constant = frequencies(recipe.family, split.target, outputs.shape[-1]).expand(len(rows), -1)
    losses = torch.stack([recipe.family.mean_nll(one, split.target) for one in outputs])
    return losses.double(), recipe.family.mean_nll(constant, split.target).double()


def largest_loss(recipe: TableRecipe, learners: Sequence[Learner]) -> Tensor:
    """The largest training loss with which a final model counts as trained, from the models of the folds.

    Training may fail from some initial weights, most of all where the target rests on an interaction. The cross-validated
    scores are then not those of the final model, although its data and settings are the same. Its training loss shows that.
    """
    losses, constants = zip(*(training_loss(recipe, i, learner) for i, learner in enumerate(learners)), strict=True)
    worst = torch.stack(losses).amax(0)
    return worst + (SHARE * (torch.stack(constants).mean() - worst)).clamp(min=LEAST)


def _spread(rows: Rows) -> Rows:
    return rows if len(rows) <= COMPARED else rows[:: -(-len(rows) // COMPARED)]
