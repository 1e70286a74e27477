"""Fit a model to a user's data: settings and temperature chosen on validation rows."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from synib import keys
from synib.measure.stats import tempered
from synib.own.answers import Answers
from synib.own.fitting import log_loss, train
from synib.own.folds import final, kind_of
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe
from synib.own.search_space import recommended
from synib.own.table import Table
from synib.tokens import optional

SYNIB = "synib"  # stands for the form that docs/results/forms recommend
BACKGROUND = 64  # training rows of each modality that stand for all its values
LEARNED = 32  # training rows that lack a modality: from so many on, what the model learned of its absence is used


def fit(
    table: Table,
    method: str = SYNIB,
    *,
    seeds: int = 1,
    budget: int = 6,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    columns: Mapping[str, str] | None = None,
    on_progress: Callable[[float, float], None] = lambda done, total: None,
) -> Predictor:
    """Train a model on a user's data. A fifth of the rows chooses settings and temperature and is not trained on.

    Rows that a split column keeps for testing are not touched; those that it names for validation choose.

    Args:
        table: The data.
        method: ``"synib"``, or a method by its name, such as ``"vanilla"``. SynIB means ``experts`` (a synergy expert beside
            unimodal ones, weighed on validation rows) for classes, the form that did best (docs/results/forms), and
            ``synib-marginal`` for numbers.
        seeds: Models from different initial weights for each candidate, of which the best on validation rows is kept.
        budget: How many settings to try.
        epochs: Passes over the training rows.
        seed: Seed for the choice of validation rows and for training.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        columns: Modality → the column that it was read from, kept with the model.
        on_progress: Called with the work done and the total work.
    """
    name = recommended(table) if method == SYNIB else method
    if name == "experts" and kind_of(table) in ("regression", "multilabel"):
        target = "a number" if kind_of(table) == "regression" else "several labels"
        raise ValueError(f"experts adds log-odds of classes, and the target is {target}: use synib or synib-marginal.")
    fold = final(table, seed=seed)
    outcome = train(
        table,
        [fold],
        [name],
        seeds=seeds,
        seed=seed,
        budget=budget,
        epochs=epochs,
        device=device,
        on_progress=on_progress,
    )
    recipe, trained = outcome.recipe, outcome.methods[name]
    train_rows, validation, _ = recipe.parts[0]
    weight = None if table.weight is None else table.weight[validation]
    losses = [
        log_loss(recipe.family, tempered(recipe.family, parameters, t), table.target[validation], weight)
        for parameters, t in zip(trained.validation[0], trained.temperature[:, 0], strict=True)
    ]
    best = int(np.argmin(losses))
    # In double precision a row's prediction does not depend on the rows beside it.
    answers = Answers(trained.learners[0][best], recipe.outputs).double()
    lacking = {n: int((~table.present[n][train_rows]).sum()) for n in recipe.missing}
    about = {
        "source": table.source,
        "rows": dict(zip(("train", "validation", "test"), map(len, recipe.parts[0]), strict=True)),
        "columns": dict(columns or {}),
        "asked": method,
        "chosen": "lowest log-loss on the validation rows after one temperature, mean over seeds",
        "budget": budget,
        "seeds": seeds,
        "validation_log_loss": [float(loss) for loss in trained.losses[0]],
        "kept": {"seed": seed + best, "validation_log_loss": losses[best]},
    }
    return Predictor(
        answers=answers,
        method=name,
        settings=trained.chosen[0],
        widths={n: int(x.shape[1]) for n, x in table.modalities.items()},
        classes=tuple(table.classes),
        missing=recipe.missing,
        learned=tuple(n for n in recipe.missing if lacking[n] >= LEARNED),
        scaling=recipe.scaling(0),
        temperature=float(trained.temperature[best, 0]),
        background=_background(recipe, answers),
        about=about,
        kind=kind_of(table),
    )


def _background(recipe: TableRecipe, answers: Answers) -> dict[str, Tensor]:
    """What training rows bring to the fusion: the same rows for all modalities, where they have them."""
    train_rows = recipe.parts[0].train
    shuffled = train_rows[keys.permutation(keys.fold(keys.key(0), "background"), len(train_rows)).numpy()]
    background = {}
    with torch.no_grad():
        for name in recipe.table.modalities:
            rows = shuffled[recipe.table.present[name][shuffled]][:BACKGROUND]
            x = recipe.scaling(0)(name, recipe.table.modalities[name][rows]).double()
            inputs = optional(x, torch.ones(len(x), dtype=torch.bool)) if name in recipe.missing else x
            background[name] = answers.encode(name, inputs).contiguous()
    return background
