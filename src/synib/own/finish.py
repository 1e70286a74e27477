"""What a trained model needs to be used: its calibration as numbers, and values that stand for missing modalities."""

from typing import Any

import torch
from torch import Tensor

from synib import keys
from synib.own.crossfit import Calibration
from synib.own.folds import Rows
from synib.own.recipe import TableRecipe
from synib.own.scaling import Scaling
from synib.tokens import optional

BACKGROUND = 64  # training rows of each modality that stand for all its values


def temperature_of(calibration: Calibration, gaussian: bool, stacked: bool) -> float:
    """What divides the logits, or multiplies a number's standard deviation; experts have their weights instead."""
    if gaussian:
        return float((calibration.bias[1] / 2).exp())
    return 1.0 if stacked else 1 / float(calibration.weights[0])


def background_of(recipe: TableRecipe, answers: Any, scaling: Scaling, train_rows: Rows) -> dict[str, Tensor]:
    """What training rows bring to the fusion: the same rows for all modalities, where they have them."""
    shuffled = train_rows[keys.permutation(keys.fold(keys.key(0), "background"), len(train_rows)).numpy()]
    background = {}
    with torch.no_grad():
        for name in recipe.table.modalities:
            rows = shuffled[recipe.table.present[name][shuffled]][:BACKGROUND]
            x = scaling(name, recipe.table.modalities[name][rows]).double()
            inputs = optional(x, torch.ones(len(x), dtype=torch.bool)) if name in recipe.missing else x
            background[name] = answers.encode(name, inputs).contiguous()
    return background
