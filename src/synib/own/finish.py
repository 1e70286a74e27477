"""Turn a trained model into a predictor: its calibration, and background values that replace missing modalities."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from synib import keys
from synib.methods import Experts
from synib.objective import Gaussian
from synib.own.crossfit import FREQUENCIES, Calibration
from synib.own.folds import Rows, kind_of
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe
from synib.own.scaling import Scaling
from synib.own.search_space import LINEAR
from synib.tokens import optional

LEARNED = 32  # training rows without a modality, from which on the model has learned to predict without it
BACKGROUND = 64  # training rows of each modality that represent its distribution


def predictor_of(
    recipe: TableRecipe,
    method: str,
    answers: Any,
    scaling: Scaling,
    settings: Mapping[str, Any],
    calibration: Calibration,
    train_rows: Rows,
    about: Mapping[str, Any],
) -> Predictor:
    """A trained model with its calibration and the background for missing modalities.

    Args:
        recipe: The recipe of the table.
        method: The method that trained the model.
        answers: The model in parts.
        scaling: The scaling of its training rows.
        settings: Its training settings.
        calibration: The calibration of its predictions.
        train_rows: The rows it was trained on.
        about: Provenance and scores, as plain values.
    """
    table = recipe.table
    lacking = {name: int((~table.present[name][train_rows]).sum()) for name in recipe.missing}
    stacked = method != FREQUENCIES and isinstance(answers.learner.method, Experts)  # has its weights already
    gaussian = isinstance(recipe.family, Gaussian)
    return Predictor(
        answers=answers,
        method=method,
        settings=settings,
        widths={n: int(x.shape[1]) for n, x in table.modalities.items()},
        classes=tuple(table.classes),
        missing=recipe.missing,
        learned=tuple(n for n in recipe.missing if lacking[n] >= LEARNED and method != LINEAR),
        scaling=scaling,
        temperature=temperature_of(calibration, gaussian, stacked),
        bias=tuple([0.0] * recipe.outputs if stacked or gaussian else calibration.bias.tolist()),
        background=background_of(recipe, answers, scaling, train_rows),
        about=about,
        kind=kind_of(table),
        raw={} if table.raw is None else table.raw.modalities,
    )


def temperature_of(calibration: Calibration, gaussian: bool, stacked: bool) -> float:
    """The factor that divides the logits or multiplies a Gaussian's standard deviation; 1 for experts, which have weights."""
    if gaussian:
        return float((calibration.bias[1] / 2).exp())
    return 1.0 if stacked else 1 / float(calibration.weights[0])


def background_of(recipe: TableRecipe, answers: Any, scaling: Scaling, train_rows: Rows) -> dict[str, Tensor]:
    """Encoded training rows of each modality: the same rows for all modalities, as far as they have them."""
    shuffled = train_rows[keys.permutation(keys.fold(keys.key(0), "background"), len(train_rows)).numpy()]
    background = {}
    with torch.no_grad():
        for name in recipe.table.modalities:
            rows = shuffled[recipe.table.present[name][shuffled]][:BACKGROUND]
            x = scaling(name, recipe.table.modalities[name][rows]).double()
            inputs = optional(x, torch.ones(len(x), dtype=torch.bool)) if name in recipe.missing else x
            background[name] = answers.encode(name, inputs).contiguous()
    return background
