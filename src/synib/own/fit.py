"""Fit a model to a user's data; method, settings and calibration are chosen by cross-validation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from synib.checks import check_whole, shown
from synib.methods import check_method
from synib.own.behaviour import behaviour
from synib.own.crossfit import FREQUENCIES, CrossFit
from synib.own.fit_run import FitRun
from synib.own.fit_scores import Score, choice_in_words, scores_of
from synib.own.folds import Fold, Rows, cross_validation, kind_of
from synib.own.near_copies import dependence_groups
from synib.own.predictor import Predictor
from synib.own.search_space import LINEAR, by_preference, compared, recommended
from synib.own.table import Table
from synib.training.device import choose_device

AUTO = "auto"  # the additive model, or one whose cross-validated log-loss is clearly lower
SYNIB = "synib"  # the form of SynIB that docs/results/forms recommends
BUDGET = 3  # settings to try for each method
NESTED = 1000  # below this number of rows, cross-validation is nested
Progress = Callable[[float, float], None]


def fit(
    table: Table,
    method: str = AUTO,
    *,
    seeds: int = 1,
    budget: int = BUDGET,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    columns: Mapping[str, str] | None = None,
    baselines: bool = True,
    incomplete: bool = True,
    on_progress: Progress = lambda done, total: None,
) -> Predictor:
    """Train a model on a user's data and estimate its scores by cross-validation.

    Rows are divided into 5 folds. Every row is predicted by models trained on the other folds; settings, seed, method and
    calibration are chosen on these predictions. They are evaluated by choosing them again without the row's fold (below
    1,000 rows with models that never saw that fold: nested cross-validation). The final model is then trained on all rows
    with the chosen settings. Test rows of a split column are not used; if the column names validation rows, these replace
    the folds, and the final model is not trained on them.

    Args:
        table: The data.
        method: ``"auto"`` compares SynIB, plain fusion, the additive model, each modality alone and the class frequencies by
            cross-validated log-loss. The additive model is kept unless another is clearly better, by more than two standard
            errors of the difference. ``"synib"``, or the name of a method such as ``"vanilla"``, trains that method. SynIB
            means ``experts`` (a synergy expert and unimodal ones) for classes, the form that did best
            (docs/results/forms), and ``synib-marginal`` for numbers and labels.
        seeds: Models from different initial weights for each setting, of which the best is kept.
        budget: How many settings of each method to try.
        epochs: Passes over the training rows.
        seed: Seed for the fold assignment and for training.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        columns: Modality → the column that it was read from, stored with the model.
        baselines: If a method is named, whether simpler models are trained for comparison too.
        incomplete: Whether a second model is trained for rows that lack modalities; without it, predictions for such rows
            are averaged over the values of other rows.
        on_progress: Called with the work done and the total work; on a GPU from other threads, one at a time.

    Returns:
        The trained model, with its scores in ``about``.
    """
    check_whole("seeds", seeds)
    check_whole("seed", seed, None)
    requested = _method(table, method)
    comparable = compared(table)
    methods = [*comparable, *([requested] if requested not in (*comparable, AUTO) else [])]
    if requested != AUTO and not baselines:
        methods = [FREQUENCIES] + [requested] * (requested != FREQUENCIES)
    device = choose_device(device)
    if table.split is None and (dependent := dependence_groups(table)) is not None:
        table = replace(table, group=dependent.astype(str))  # copies of a row count as one group
    folds, rows, fold_of_row = cross_validation(table, seed)
    nested = len(folds) > 1 and len(rows) < NESTED
    run = FitRun(table, folds, methods, budget, seeds, seed, epochs, device, nested, on_progress)
    judged, learners = run.candidates(rows)
    group = None if table.group is None else np.unique(table.group[rows], return_inverse=True)[1].reshape(-1)
    weight = None if table.weight is None else np.asarray(table.weight, dtype=np.float64)[rows]
    order = by_preference(table, methods)
    cross = CrossFit(run.recipe.family, judged, table.target[rows], fold_of_row, order, group, weight)
    considered = [m for m in methods if m in comparable] if requested == AUTO else [requested]
    number = cross.choose(considered)
    chosen, calibration = judged[number], cross.calibration(number)
    has_validation = table.split is not None and "validation" in table.split
    train_rows = folds[0].train if has_validation else np.sort(np.concatenate([fold.test for fold in folds]))
    of_folds = learners.get(number, [])
    validated = of_folds[0] if has_validation and of_folds else None
    learner, scaling, settings = run.final(
        chosen, train_rows, calibration, validated, of_folds=() if has_validation else of_folds
    )
    if "fold" in run.kept:
        train_rows = folds[run.kept["fold"]].train
    scores = {m: _scores(table, cross, [m], rows, len(folds)) for m in methods}
    about = {
        "source": table.source,
        "rows": {"train": len(train_rows), "validation": len(rows) if has_validation else 0, "test": _tests(table)},
        "columns": dict(columns or {}),
        "asked": method,
        "judged": _judged(table, folds, has_validation),
        "folds": len(cross.folds),
        "scores": _scores(table, cross, considered, rows, len(folds)),
        "of_methods": scores,
        "choice": choice_in_words(chosen.method, requested == AUTO, cross, considered, table.kind)
        + run.refit_in_words(),
        "budget": budget,
        "seeds": seeds,
        "kept": run.kept or {"seed": chosen.seed},
        "settings_log_loss": {m: [cross.mean_loss(i) for i, c in enumerate(judged) if c.method == m] for m in methods},
    }
    model = run.predictor(chosen, (learner, scaling, settings), calibration, train_rows, about)
    if incomplete and chosen.method != FREQUENCIES:
        model = run.completed(model, chosen, learners[number], partial(cross.calibration, number), train_rows)
    run.finish()
    return replace(model, about=about | {"behaviour": behaviour(model, table, train_rows)})


def _method(table: Table, method: str) -> str:
    """The method for a name, if it can be trained on these data."""
    if not isinstance(method, str):
        raise ValueError(f"method must be a name, such as 'auto' or 'vanilla'; got {shown(method)}.")
    name = recommended(table) if method == SYNIB else method
    if name in (AUTO, FREQUENCIES):
        return name
    if name == LINEAR:
        if kind_of(table) in ("regression", "multilabel"):
            raise ValueError(
                "linear is a logistic regression, which needs a target of classes: use additive or vanilla."
            )
        return name
    check_method(name)
    modality = name.removeprefix("unimodal-")
    if modality != name and modality not in table.modalities:
        raise ValueError(
            f"There is no modality {modality!r} to train on; the modalities are {', '.join(table.modalities)}."
        )
    if name == "experts" and kind_of(table) in ("regression", "multilabel"):
        target = "a number" if kind_of(table) == "regression" else "several labels"
        raise ValueError(f"experts needs a target of classes, but the target is {target}: use synib or synib-marginal.")
    return name


def _scores(table: Table, cross: CrossFit, methods: Sequence[str], rows: Rows, folds: int) -> dict[str, Score]:
    """Cross-validated scores; the interval of the log-loss is extended downwards, as the final model has more training rows."""
    scores = scores_of(table, cross.honest(methods), rows, folds)
    loss = scores["log_loss"]
    if loss["low"] is not None:
        loss["low"] -= cross.more_rows(cross.choose(methods))
        loss["low"] = loss["low"] if table.kind == "regression" else max(0.0, loss["low"])
    return scores


def _tests(table: Table) -> int:
    return 0 if table.split is None else int((np.asarray(table.split) == "test").sum())


def _judged(table: Table, folds: Sequence[Fold], has_validation: bool) -> str:
    if has_validation:
        return f"the {len(folds[0].test):,} validation rows, with choice and calibration cross-fitted"
    groups = "" if table.group is None else ", with each group in one fold"
    return f"{len(folds)}-fold cross-validation of training, choice and calibration{groups}"
