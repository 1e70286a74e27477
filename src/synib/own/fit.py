"""Fit a model to a user's data: the method, its settings and its calibration are chosen by cross-validation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole, shown
from synib.methods import Experts, check_method
from synib.methods.hooks import RevisesWeights
from synib.objective import Gaussian
from synib.own.answers import Answers, Frequencies
from synib.own.behaviour import behaviour
from synib.own.crossfit import FREQUENCIES, Calibration, Candidate, CrossFit, frequencies
from synib.own.finish import background_of, temperature_of
from synib.own.fit_scores import Score, choice_in_words, scores_of
from synib.own.fitting import answers_of, cost_of, expert_scales, train_cells
from synib.own.folds import Fold, Rows, cross_validation, held_out, kind_of
from synib.own.logistic_model import Regression, settings_of
from synib.own.near_copies import dependence_groups
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe, make_method
from synib.own.scaling import Scaling
from synib.own.search_space import LINEAR, RIDGES, by_preference, candidates, compared, recommended
from synib.own.table import Table
from synib.training import Cell, Learner
from synib.training.device import choose_device

AUTO = "auto"  # the additive model, or one whose cross-validated log-loss is clearly lower
SYNIB = "synib"  # stands for the form that docs/results/forms recommend
BUDGET = 3  # settings of each method
LEARNED = 32  # training rows that lack a modality: from so many on, what the model learned of its absence is used
NESTED = 1000  # rows below which choice and calibration are judged by models that never saw the judged rows
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
    on_progress: Progress = lambda done, total: None,
) -> Predictor:
    """Train a model on a user's data; its scores, in ``about``, are those of rows that had no part in it.

    Rows are cut into 5 folds. Every row is predicted by models that were trained on the other folds; settings, seed, method
    and calibration are chosen on these predictions, and judged by choosing them again without the row's fold (below 1,000
    rows with models that never saw that fold: nested cross-validation). The model itself is then trained on all rows with
    what was chosen. Rows that a split column keeps for testing are not touched; where it names validation rows, these
    take the place of the folds, and are not trained on.

    Args:
        table: The data.
        method: ``"auto"`` compares SynIB, plain fusion, the additive model, each modality alone and the class frequencies by
            cross-validated log-loss. The additive model is kept unless another is clearly better, by more than two standard
            errors of the difference.
            ``"synib"``, or a method by its name, such as ``"vanilla"``, trains that one. SynIB means ``experts`` (a
            synergy expert beside unimodal ones) for classes, the form that did best (docs/results/forms), and
            ``synib-marginal`` for numbers and labels.
        seeds: Models from different initial weights for each setting, of which the best is kept.
        budget: How many settings of each method to try.
        epochs: Passes over the training rows.
        seed: Seed for the fold assignment and for training.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        columns: Modality → the column that it was read from, kept with the model.
        baselines: Whether simpler models are trained as well where a method is named, to report their scores beside it.
        on_progress: Called with the work done and the total work.
    """
    check_whole("seeds", seeds)
    check_whole("seed", seed, None)
    asked = _method(table, method)
    comparable = compared(table)
    methods = [*comparable, *([asked] if asked not in (*comparable, AUTO) else [])]
    if asked != AUTO and not baselines:
        methods = [FREQUENCIES] + [asked] * (asked != FREQUENCIES)
    device = choose_device(device)
    if table.split is None and (together := dependence_groups(table)) is not None:
        table = replace(table, group=together.astype(str))  # copies of a row count as one group
    folds, rows, fold_of_row = cross_validation(table, seed)
    nested = len(folds) > 1 and len(rows) < NESTED
    run = _Run(table, folds, methods, budget, seeds, seed, epochs, device, nested, on_progress)
    judged, learners = run.candidates(rows)
    group = None if table.group is None else np.unique(table.group[rows], return_inverse=True)[1].reshape(-1)
    weight = None if table.weight is None else np.asarray(table.weight, dtype=np.float64)[rows]
    order = by_preference(table, methods)
    cross = CrossFit(run.recipe.family, judged, table.target[rows], fold_of_row, order, group, weight)
    among = [m for m in methods if m in comparable] if asked == AUTO else [asked]
    number = cross.choose(among)
    chosen, calibration = judged[number], cross.calibration(number)
    named = table.split is not None and "validation" in table.split
    train_rows = folds[0].train if named else np.sort(np.concatenate([fold.test for fold in folds]))
    learner, scaling, settings = run.final(chosen, train_rows, learners.get(number) if named else None, calibration)
    scores = {m: _scores(table, cross, [m], rows, len(folds)) for m in methods}
    about = {
        "source": table.source,
        "rows": {"train": len(train_rows), "validation": len(rows) if named else 0, "test": _tests(table)},
        "columns": dict(columns or {}),
        "asked": method,
        "judged": _judged(table, folds, named),
        "folds": len(cross.folds),
        "scores": _scores(table, cross, among, rows, len(folds)),
        "of_methods": scores,
        "choice": choice_in_words(chosen.method, asked == AUTO, cross, among, table.kind),
        "budget": budget,
        "seeds": seeds,
        "kept": {"seed": chosen.seed},
        "settings_log_loss": {m: [cross.mean_loss(i) for i, c in enumerate(judged) if c.method == m] for m in methods},
    }
    is_constant = chosen.method == FREQUENCIES
    lacking = {n: int((~table.present[n][train_rows]).sum()) for n in run.recipe.missing}
    stacked = not is_constant and isinstance(learner.learner.method, Experts)  # has its weights already
    gaussian = isinstance(run.recipe.family, Gaussian)
    model = Predictor(
        answers=learner,
        method=chosen.method,
        settings=settings,
        widths={n: int(x.shape[1]) for n, x in table.modalities.items()},
        classes=tuple(table.classes),
        missing=run.recipe.missing,
        learned=tuple(n for n in run.recipe.missing if lacking[n] >= LEARNED and chosen.method != LINEAR),
        scaling=scaling,
        temperature=temperature_of(calibration, gaussian, stacked),
        bias=tuple([0.0] * run.recipe.outputs if stacked or gaussian else calibration.bias.tolist()),
        background=background_of(run.recipe, learner, scaling, train_rows),
        about=about,
        kind=kind_of(table),
        raw={} if table.raw is None else table.raw.modalities,
    )
    return replace(model, about=about | {"behaviour": behaviour(model, table, train_rows)})


@dataclass
class _Run:
    """Training of everything that is compared, and of what is chosen."""

    table: Table
    folds: Sequence[Fold]
    methods: Sequence[str]
    budget: int
    seeds: int
    seed: int
    epochs: int | None
    device: str
    nested: bool
    on_progress: Progress

    def __post_init__(self) -> None:
        self.recipe = TableRecipe(self.table, self.folds, self.epochs)
        self.pairs = [(i, j) for i in range(len(self.folds)) for j in range(i)] if self.nested else []
        both = [self._without_both(i, j) for i, j in self.pairs]
        self.work: list[tuple[str, bool, TableRecipe, list[Cell]]] = []
        for method in self.methods:
            for single, parts in ((True, self.folds), (False, both)):
                if parts and method not in (FREQUENCIES, LINEAR):
                    recipe = self._recipe(method, parts)
                    cells = recipe.cells(method, self.budget, self.seeds, self.seed)
                    self.work.append((method, single, recipe, cells))
        costs = [cost_of(recipe, cells) for _, _, recipe, cells in self.work]
        each = [total / len(cells) for total, (*_, cells) in zip(costs, self.work, strict=True)]
        self.total, self.last = sum(costs), max(each, default=0.0)  # the last is the final model
        self.done = 0.0

    def candidates(self, rows: Rows) -> tuple[list[Candidate], dict[int, Learner]]:
        """Every candidate with its predictions of these rows, by models that were not trained on them."""
        self.on_progress(0.0, self.total + self.last)
        result = [self._frequencies(rows)]
        first: dict[tuple[str, int, int], Learner] = {}
        said: dict[tuple[str, int, int, bool], list[NDArray[Any]]] = {}
        for method, single, recipe, cells in self.work:
            work = cost_of(recipe, cells) / len(cells)
            trained = train_cells(recipe, cells, self.device, after_epoch=partial(self._advance, work=work))
            for number, settings in enumerate(candidates(method, self.budget)):
                for seed in range(self.seed, self.seed + self.seeds):
                    answers = []
                    for fold, part in enumerate(recipe.parts):
                        cell = Cell("own", method, {"fold": fold}, recipe.settings(method, settings, fold), seed)
                        learner = trained[cell.id].learner().eval()
                        scales = expert_scales(learner, recipe.view(fold, part.train))
                        of_test = (answers_of(learner, recipe.view(fold, part.test)) / scales[:, None, None]).numpy()
                        answers.append(recipe.scaling(fold).undo(recipe.family, of_test))
                        if len(self.folds) == 1:
                            first[method, number, seed] = learner
                    said[method, number, seed, single] = answers
        for single, parts in ((True, self.folds), (False, [self._without_both(i, j) for i, j in self.pairs])):
            if LINEAR in self.methods and parts:
                for number, (answers, learners) in enumerate(self._regressions(parts)):
                    said[LINEAR, number, self.seed, single] = answers
                    if len(self.folds) == 1:
                        first[LINEAR, number, self.seed] = learners[0]
        kept: dict[int, Learner] = {}
        for method, number, seed in (key[:3] for key in said if key[3]):
            answers = said[method, number, seed, True]
            paired = self._paired(rows, said[method, number, seed, False]) if self.pairs else None
            if (method, number, seed) in first:
                kept[len(result)] = first[method, number, seed]
            settings = candidates(method, self.budget)[number]
            result.append(Candidate(method, settings, seed, self._joined(rows, answers), paired=paired))
        return result, kept

    def _regressions(self, parts: Sequence[Fold]) -> list[tuple[list[NDArray[Any]], list[Learner]]]:
        """For each penalty, the predictions of logistic regressions for the test rows of each part, and the regressions."""
        recipe = self.recipe if parts is self.folds else TableRecipe(self.table, parts, self.epochs, self.recipe.width)
        fitted = [Regression(recipe, k, part.train).learners() for k, part in enumerate(recipe.parts)]
        tests = [recipe.split(k, part.test) for k, part in enumerate(recipe.parts)]
        by_penalty = [[of_part[number] for of_part in fitted] for number in range(len(RIDGES))]
        return [([answers_of(one, x).numpy() for one, x in zip(of, tests, strict=True)], of) for of in by_penalty]

    def _joined(self, rows: Rows, answers: Sequence[NDArray[Any]]) -> Tensor:
        """Predictions of all folds as those of all rows."""
        joined = np.empty((len(answers[0]), len(rows), answers[0].shape[-1]))
        for part, of_fold in zip(self.folds, answers, strict=True):
            joined[:, np.searchsorted(rows, part.test)] = of_fold
        return torch.from_numpy(joined)

    def _paired(self, rows: Rows, answers: Sequence[NDArray[Any]]) -> Tensor:
        """For each fold, predictions of all other rows by models that were trained without it."""
        joined = np.full((len(self.folds), len(answers[0]), len(rows), answers[0].shape[-1]), np.nan)
        for (i, j), of_both in zip(self.pairs, answers, strict=True):
            both = self._without_both(i, j).test
            for outer, inner in ((i, j), (j, i)):
                of_inner = np.isin(both, self.folds[inner].test)
                joined[outer][:, np.searchsorted(rows, both[of_inner])] = of_both[:, of_inner]
        return torch.from_numpy(joined)

    def _without_both(self, i: int, j: int) -> Fold:
        """A fold that tests two of the folds, and is trained on the others."""
        test = np.union1d(self.folds[i].test, self.folds[j].test)
        train = np.setdiff1d(self.folds[i].train, test)
        return Fold(train, train[: max(2, len(train) // 5)], test)

    def _recipe(self, method: str, parts: Sequence[Fold]) -> TableRecipe:
        """A method that looks at validation rows while it trains gets some of its own, from its training rows."""
        if self._revises(method):
            parts = [Fold(*held_out(self.table, fold.train, seed=self.seed), fold.test) for fold in parts]
        elif parts is self.folds:
            return self.recipe
        return TableRecipe(self.table, parts, self.epochs, self.recipe.width)

    def final(
        self, chosen: Candidate, rows: Rows, trained: Learner | None, calibration: Calibration
    ) -> tuple[Any, Scaling, dict[str, Any]]:
        """The chosen model, trained on these rows (unless it is already), what scales them, and all its settings."""
        scaling = Scaling.fit(self.table, rows)
        if chosen.method == FREQUENCIES:
            self.on_progress(self.total + self.last, self.total + self.last)
            constant = Frequencies(tuple(self.table.modalities), self._constant(rows))
            return constant, Scaling(scaling.columns), {"hidden": []}
        if chosen.method == LINEAR:
            recipe = TableRecipe(self.table, [Fold(rows, rows[:2], rows[:0])], self.epochs, self.recipe.width)
            path = RIDGES[: RIDGES.index(chosen.settings["ridge"]) + 1]
            learner, scaling = trained or Regression(recipe, 0, rows).learners(path)[-1], recipe.scaling(0)
            settings = {**settings_of(self.recipe.outputs), **chosen.settings}
        elif trained is not None:
            recipe = self._recipe(chosen.method, self.folds)
            settings, learner, scaling = recipe.settings(chosen.method, chosen.settings, 0), trained, recipe.scaling(0)
        else:
            own = Fold(*held_out(self.table, rows, seed=self.seed), rows[:0]) if self._revises(chosen.method) else None
            # Nothing is chosen or fitted on these validation rows.
            fold = own or Fold(rows, held_out(self.table, rows, seed=self.seed)[1], rows[:0])
            recipe = TableRecipe(self.table, [fold], self.epochs, self.recipe.width)
            settings = recipe.settings(chosen.method, chosen.settings, 0)
            cell = Cell("own", chosen.method, {"fold": 0}, settings, chosen.seed)
            shard = train_cells(recipe, [cell], self.device, after_epoch=lambda s: self._advance(s, self.last))
            learner, scaling = shard[cell.id].learner().eval(), recipe.scaling(0)
        method = learner.method
        if isinstance(method, Experts):
            scales = expert_scales(learner, recipe.view(0, recipe.parts[0].train))
            method.weights = (calibration.weights / scales).to(method.weights)
            method.bias = calibration.bias.to(method.bias)
        self.on_progress(self.total + self.last, self.total + self.last)
        # In double precision a row's prediction does not depend on the rows beside it.
        return Answers(learner, self.recipe.outputs).double(), scaling, settings

    def _revises(self, method: str) -> bool:
        if method in (FREQUENCIES, LINEAR):
            return False
        settings = self.recipe.settings(method, candidates(method, 1)[0], 0)
        return isinstance(make_method(method, self.recipe.family, settings), RevisesWeights)

    def _frequencies(self, rows: Rows) -> Candidate:
        constants = [self._constant(part.train).expand(1, len(part.test), -1).numpy() for part in self.folds]
        paired = None
        if self.pairs:
            both = [self._without_both(i, j) for i, j in self.pairs]
            paired = self._paired(rows, [self._constant(f.train).expand(1, len(f.test), -1).numpy() for f in both])
        joined = self._joined(rows, constants)
        return Candidate(FREQUENCIES, {}, self.seed, joined, calibrated=False, paired=paired)

    def _constant(self, rows: Rows) -> Tensor:
        """The distribution of the targets of these rows."""
        weight = None if self.table.weight is None else torch.as_tensor(self.table.weight[rows])
        return frequencies(self.recipe.family, torch.as_tensor(self.table.target[rows]), self.recipe.outputs, weight)

    def _advance(self, shard: Sequence[Cell], work: float) -> None:
        self.done += work * len(shard) / shard[0].settings["epochs"]
        self.on_progress(self.done, self.total + self.last)


def _method(table: Table, method: str) -> str:
    """The method that a name stands for, if it can be trained on these data."""
    if not isinstance(method, str):
        raise ValueError(f"method is a name, such as 'auto' or 'vanilla'; got {shown(method)}.")
    name = recommended(table) if method == SYNIB else method
    if name in (AUTO, FREQUENCIES):
        return name
    if name == LINEAR:
        if kind_of(table) in ("regression", "multilabel"):
            raise ValueError("linear is a logistic regression, for a target of classes: use additive or vanilla.")
        return name
    check_method(name)
    modality = name.removeprefix("unimodal-")
    if modality != name and modality not in table.modalities:
        raise ValueError(f"There is no modality {modality!r} to train alone: there are {', '.join(table.modalities)}.")
    if name == "experts" and kind_of(table) in ("regression", "multilabel"):
        target = "a number" if kind_of(table) == "regression" else "several labels"
        raise ValueError(f"experts adds log-odds of classes, and the target is {target}: use synib or synib-marginal.")
    return name


def _scores(table: Table, cross: CrossFit, methods: Sequence[str], rows: Rows, folds: int) -> dict[str, Score]:
    """Cross-validated scores; the lower end of the log-loss allows for a model that is trained on all rows."""
    scores = scores_of(table, cross.honest(methods), rows, folds)
    loss = scores["log_loss"]
    if loss["low"] is not None:
        loss["low"] -= cross.more_rows(cross.choose(methods))
        loss["low"] = loss["low"] if table.kind == "regression" else max(0.0, loss["low"])
    return scores


def _tests(table: Table) -> int:
    return 0 if table.split is None else int((np.asarray(table.split) == "test").sum())


def _judged(table: Table, folds: Sequence[Fold], named: bool) -> str:
    if named:
        return f"the {len(folds[0].test):,} validation rows, calibrated and chosen by cross-fitting"
    groups = "" if table.group is None else ", no group in two of them"
    return f"{len(folds)}-fold cross-validation of everything that was chosen and fitted{groups}"
