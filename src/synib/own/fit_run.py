"""The training of a fit: all candidates, the chosen model, and its second model for rows that lack modalities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.methods import Experts
from synib.methods.hooks import RevisesWeights
from synib.own.answers import Answers, Frequencies
from synib.own.cell_training import cost_of, train_cells
from synib.own.crossfit import FREQUENCIES, Calibration, Candidate, frequencies
from synib.own.finish import predictor_of
from synib.own.fitting import answers_of, expert_scales
from synib.own.folds import Fold, Rows, held_out
from synib.own.incomplete import SecondTrainer, TrainedPart
from synib.own.logistic_model import Regression, settings_of
from synib.own.predictor import Predictor
from synib.own.recipe import TableRecipe, make_method
from synib.own.refit import ATTEMPTS, largest_loss, training_loss
from synib.own.scaling import Scaling
from synib.own.search_space import LINEAR, RIDGES, candidates
from synib.own.table import Table
from synib.training import Cell, Learner

FEW = 5000  # below this number of rows, the weights of the second model are fitted on all folds, otherwise on one
Progress = Callable[[float, float], None]


@dataclass
class FitRun:
    """Trains all candidates of a fit, and the chosen model."""

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
        self.kept: dict[str, int] = {}  # how the final training went
        self.recipe = TableRecipe(self.table, self.folds, self.epochs)
        self.pairs = [(i, j) for i in range(len(self.folds)) for j in range(i)] if self.nested else []
        pair_folds = [self._without_both(i, j) for i, j in self.pairs]
        self.work: list[tuple[str, bool, TableRecipe, list[Cell]]] = []
        for method in self.methods:
            for single, parts in ((True, self.folds), (False, pair_folds)):
                if parts and method not in (FREQUENCIES, LINEAR):
                    recipe = self._recipe(method, parts)
                    cells = recipe.cells(method, self.budget, self.seeds, self.seed)
                    self.work.append((method, single, recipe, cells))
        costs = [cost_of(recipe, cells) for _, _, recipe, cells in self.work]
        cost_per_model = [total / len(cells) for total, (*_, cells) in zip(costs, self.work, strict=True)]
        self.last_cost = max(cost_per_model, default=0.0)  # cost of the final model, and of each second model
        refits = len(self.folds) if len(self.table.target) < FEW else 1
        self.total, self.done = sum(costs) + (2 + refits) * self.last_cost, 0.0

    def candidates(self, rows: Rows) -> tuple[list[Candidate], dict[int, list[Learner]]]:
        """Every candidate with its out-of-fold predictions for these rows, and its models of the folds."""
        self.on_progress(0.0, self.total)
        result = [self._frequencies(rows)]
        fold_learners: dict[tuple[str, int, int], list[Learner]] = {}
        predictions: dict[tuple[str, int, int, bool], list[NDArray[Any]]] = {}
        for method, single, recipe, cells in self.work:
            work = cost_of(recipe, cells) / len(cells)
            trained = train_cells(recipe, cells, self.device, after_epoch=partial(self._advance, work=work))
            for number, settings in enumerate(candidates(method, self.budget, self.table.kind)):
                for seed in range(self.seed, self.seed + self.seeds):
                    answers, learners = [], []
                    for fold, part in enumerate(recipe.parts):
                        cell = Cell("own", method, {"fold": fold}, recipe.settings(method, settings, fold), seed)
                        learner = trained[cell.id].learner().eval()
                        scales = expert_scales(learner, recipe.view(fold, part.train))
                        test_answers = (
                            answers_of(learner, recipe.view(fold, part.test)) / scales[:, None, None]
                        ).numpy()
                        answers.append(recipe.scaling(fold).undo(recipe.family, test_answers))
                        learners.append(learner)
                    predictions[method, number, seed, single] = answers
                    if single:
                        fold_learners[method, number, seed] = learners
        for single, parts in ((True, self.folds), (False, [self._without_both(i, j) for i, j in self.pairs])):
            if LINEAR in self.methods and parts:
                for number, (answers, learners) in enumerate(self._regressions(parts)):
                    predictions[LINEAR, number, self.seed, single] = answers
                    if single:
                        fold_learners[LINEAR, number, self.seed] = learners
        candidate_learners: dict[int, list[Learner]] = {}
        for method, number, seed in (key[:3] for key in predictions if key[3]):
            answers = predictions[method, number, seed, True]
            paired = self._paired(rows, predictions[method, number, seed, False]) if self.pairs else None
            candidate_learners[len(result)] = fold_learners[method, number, seed]
            settings = candidates(method, self.budget, self.table.kind)[number]
            result.append(Candidate(method, settings, seed, self._joined(rows, answers), paired=paired))
        return result, candidate_learners

    def _regressions(self, parts: Sequence[Fold]) -> list[tuple[list[NDArray[Any]], list[Learner]]]:
        """For each penalty, the predictions of logistic regressions for the test rows of each fold, and the regressions."""
        recipe = self.recipe if parts is self.folds else TableRecipe(self.table, parts, self.epochs, self.recipe.width)
        fitted = [Regression(recipe, k, part.train).learners() for k, part in enumerate(recipe.parts)]
        tests = [recipe.split(k, part.test) for k, part in enumerate(recipe.parts)]
        by_penalty = [[of_part[number] for of_part in fitted] for number in range(len(RIDGES))]
        return [
            ([answers_of(learner, x).numpy() for learner, x in zip(regressions, tests, strict=True)], regressions)
            for regressions in by_penalty
        ]

    def _joined(self, rows: Rows, answers: Sequence[NDArray[Any]]) -> Tensor:
        """Predictions of all folds, in the order of the rows."""
        joined = np.empty((len(answers[0]), len(rows), answers[0].shape[-1]))
        for part, of_fold in zip(self.folds, answers, strict=True):
            joined[:, np.searchsorted(rows, part.test)] = of_fold
        return torch.from_numpy(joined)

    def _paired(self, rows: Rows, answers: Sequence[NDArray[Any]]) -> Tensor:
        """For each fold, predictions for all other rows by models that were trained without this fold."""
        joined = np.full((len(self.folds), len(answers[0]), len(rows), answers[0].shape[-1]), np.nan)
        for (i, j), of_both in zip(self.pairs, answers, strict=True):
            test_rows = self._without_both(i, j).test
            for outer, inner in ((i, j), (j, i)):
                of_inner = np.isin(test_rows, self.folds[inner].test)
                joined[outer][:, np.searchsorted(rows, test_rows[of_inner])] = of_both[:, of_inner]
        return torch.from_numpy(joined)

    def _without_both(self, i: int, j: int) -> Fold:
        """A fold with two of the folds as test rows, and the others as training rows."""
        test = np.union1d(self.folds[i].test, self.folds[j].test)
        train = np.setdiff1d(self.folds[i].train, test)
        return Fold(train, train[: max(2, len(train) // 5)], test)

    def _recipe(self, method: str, parts: Sequence[Fold]) -> TableRecipe:
        """The recipe of a method; one that uses validation rows during training gets them from the training rows."""
        if self._revises(method):
            parts = [Fold(*held_out(self.table, fold.train, seed=self.seed), fold.test) for fold in parts]
        elif parts is self.folds:
            return self.recipe
        return TableRecipe(self.table, parts, self.epochs, self.recipe.width)

    def final(
        self,
        chosen: Candidate,
        rows: Rows,
        calibration: Calibration,
        trained: Learner | None = None,
        fold: int = 0,
        of_folds: Sequence[Learner] = (),
    ) -> tuple[Any, Scaling, dict[str, Any]]:
        """The chosen model, trained on these rows unless a trained one is given; its scaling; and all its settings.

        With the models of the folds, training is repeated from other seeds while its loss is much higher than theirs; if
        that does not help, the model of the first fold is returned.
        """
        scaling = Scaling.fit(self.table, rows)
        if chosen.method == FREQUENCIES:
            constant = Frequencies(tuple(self.table.modalities), self._constant(rows))
            return constant, Scaling(scaling.columns), {"hidden": []}
        if chosen.method == LINEAR:
            recipe = TableRecipe(self.table, [Fold(rows, rows[:2], rows[:0])], self.epochs, self.recipe.width)
            path = RIDGES[: RIDGES.index(chosen.settings["ridge"]) + 1]
            learner, scaling = trained or Regression(recipe, 0, rows).learners(path)[-1], recipe.scaling(0)
            settings = {**settings_of(self.recipe.outputs), **chosen.settings}
        elif trained is not None:
            recipe = self._recipe(chosen.method, self.folds)
            settings, learner = recipe.settings(chosen.method, chosen.settings, fold), trained
            scaling = recipe.scaling(fold)
        else:
            revising_part = (
                Fold(*held_out(self.table, rows, seed=self.seed), rows[:0]) if self._revises(chosen.method) else None
            )
            # The recipe needs validation rows, but nothing is chosen or fitted on these.
            part = revising_part or Fold(rows, held_out(self.table, rows, seed=self.seed)[1], rows[:0])
            recipe = TableRecipe(self.table, [part], self.epochs, self.recipe.width)
            settings = recipe.settings(chosen.method, chosen.settings, 0)
            kept = self._refit(chosen, recipe, settings, of_folds)
            if kept is None:  # the model of a fold has the scores that are shown
                return self.final(chosen, rows, calibration, of_folds[0])
            learner, scaling = kept, recipe.scaling(0)
        method = learner.method
        if isinstance(method, Experts):
            scales = expert_scales(learner, recipe.view(fold, recipe.parts[fold].train))
            method.weights = (calibration.weights / scales).to(method.weights)
            method.bias = calibration.bias.to(method.bias)
        # In double precision a row's prediction does not depend on the other rows of its batch.
        return Answers(learner, self.recipe.outputs).double(), scaling, settings

    def _refit(
        self, chosen: Candidate, recipe: TableRecipe, settings: dict[str, Any], of_folds: Sequence[Learner]
    ) -> Learner | None:
        """The chosen model trained on all rows, from the first seed with which it learns what the models of the folds have."""
        limit = largest_loss(self._recipe(chosen.method, self.folds), of_folds) if of_folds else None
        for attempt in range(ATTEMPTS):
            seed = chosen.seed + attempt * self.seeds
            cell = Cell("own", chosen.method, {"fold": 0}, settings, seed)
            shard = train_cells(recipe, [cell], self.device, after_epoch=lambda s: self._advance(s, self.last_cost))
            learner = shard[cell.id].learner().eval()
            if limit is None or bool((training_loss(recipe, 0, learner)[0] <= limit).all()):
                self.kept = {"seed": seed, "attempts": attempt + 1}
                return learner
        self.kept = {"seed": chosen.seed, "attempts": ATTEMPTS, "fold": 0}
        return None

    def refit_in_words(self) -> str:
        """What is worth knowing about the final training."""
        if "fold" in self.kept:
            return (
                f" Training on all rows failed from {ATTEMPTS} seeds (its loss stayed above that of the cross-validated "
                "models), so the model of the first fold is kept."
            )
        return ""

    def predictor(
        self,
        chosen: Candidate,
        trained: tuple[Any, Scaling, dict[str, Any]],
        calibration: Calibration,
        rows: Rows,
        about: Mapping[str, Any],
    ) -> Predictor:
        """The predictor of the chosen model."""
        learner, scaling, settings = trained
        return predictor_of(self.recipe, chosen.method, learner, scaling, settings, calibration, rows, about)

    def completed(
        self,
        model: Predictor,
        chosen: Candidate,
        learners: Sequence[Learner],
        calibration: Callable[[int], Calibration],
        rows: Rows,
    ) -> Predictor:
        """The model with a second one for rows that lack modalities, weighted on rows that neither was trained on.

        Args:
            model: The final model.
            chosen: The chosen candidate.
            learners: Its models of the folds.
            calibration: Fold → the calibration of the chosen candidate without this fold.
            rows: The rows that the final model was trained on.
        """
        folds = self.folds if len(rows) < FEW else self.folds[:1]
        parts = []
        for number, (fold, learner) in enumerate(zip(folds, learners, strict=False)):
            part = model
            if len(self.folds) > 1:
                of_fold = calibration(number)
                trained = self.final(chosen, fold.train, of_fold, learner, number)
                part = self.predictor(chosen, trained, of_fold, fold.train, {})
            parts.append(TrainedPart(self.table, part, fold.train, fold.test))
        after = partial(self._advance, work=self.last_cost)
        trainer = SecondTrainer(self.epochs, self.recipe.width, self.seed, self.device, after)
        return trainer.complete(parts, TrainedPart(self.table, model, rows, rows[:0]))

    def finish(self) -> None:
        self.on_progress(self.total, self.total)

    def _revises(self, method: str) -> bool:
        if method in (FREQUENCIES, LINEAR):
            return False
        settings = self.recipe.settings(method, candidates(method, 1, self.table.kind)[0], 0)
        return isinstance(make_method(method, self.recipe.family, settings), RevisesWeights)

    def _frequencies(self, rows: Rows) -> Candidate:
        constants = [self._constant(part.train).expand(1, len(part.test), -1).numpy() for part in self.folds]
        paired = None
        if self.pairs:
            pair_folds = [self._without_both(i, j) for i, j in self.pairs]
            paired = self._paired(
                rows, [self._constant(f.train).expand(1, len(f.test), -1).numpy() for f in pair_folds]
            )
        joined = self._joined(rows, constants)
        return Candidate(FREQUENCIES, {}, self.seed, joined, calibrated=False, paired=paired)

    def _constant(self, rows: Rows) -> Tensor:
        """The distribution of the targets of these rows."""
        weight = None if self.table.weight is None else torch.as_tensor(self.table.weight[rows])
        return frequencies(self.recipe.family, torch.as_tensor(self.table.target[rows]), self.recipe.outputs, weight)

    def _advance(self, shard: Sequence[Cell], work: float) -> None:
        self.done += work * len(shard) / shard[0].settings["epochs"]
        self.on_progress(min(self.done, self.total), self.total)
