"""Matched irony on RAVDESS: one actor is tested; training, validation and test have irony rates of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.data import Dataset
from synib.objective import Objective, Prior
from synib.studies import features
from synib.studies.irony.construction import SPLITS, Irony
from synib.studies.irony.data import IronyData, ravdess_features
from synib.studies.irony.donors import Rows, Triplets
from synib.studies.irony.experiment import IronyRates
from synib.studies.irony.leak import mismatch_leak
from synib.studies.irony.ravdess import CONTRADICTIONS
from synib.training import Cell

ACTORS = 24
VALIDATING = 3  # actors after the tested one, in the order of their numbers
RATE = 2.0  # irony rate of validation and test data, whatever that of training is
DRAWS = {"validation": 4, "test": 8}  # irony assignments, one after the other
KEY = ("actor", "statement", "intensity")
COMPONENTS = 128  # of the voice's 1,024 numbers
TRAINING = {"hidden": 128, "latent": 64, "epochs": 30}  # smaller and shorter than in the study of folds, for a CPU
STEPS = 570  # 19 batches in each epoch


def actor_splits(actors: Rows, tested: int) -> dict[str, Rows]:
    """Split → positions: one actor tests, the next ``VALIDATING`` validate, the others train."""
    if not 1 <= tested <= ACTORS:
        raise ValueError(f"The tested actor is numbered 1 to {ACTORS}; got {tested}.")
    after = (actors - tested) % ACTORS
    parts = (after > VALIDATING, (after >= 1) & (after <= VALIDATING), after == 0)
    return {name: np.flatnonzero(part) for name, part in zip(SPLITS, parts, strict=True)}


@lru_cache(maxsize=2 * ACTORS)
def matched_irony(folder: str, alpha: float, tested: int) -> IronyData:
    """RAVDESS's features with matched irony.

    Args:
        folder: Of the data.
        alpha: Irony rate of the training data.
        tested: The actor that is tested; also the seed of the training data's assignment.
    """
    irony = matched_assignment(folder, alpha, tested)
    return IronyData(irony, irony.dataset(ravdess_features(folder).video, _components(folder, tested)))


def matched_assignment(folder: str, alpha: float, tested: int) -> Irony:
    """Which face and voice make an example, in each split; arguments as for :func:`matched_irony`."""
    clips = ravdess_features(folder)
    columns = clips.columns
    within = list(zip(*(columns[name].tolist() for name in KEY), strict=True))

    def assign(name: str, rows: Rows, rate: float, seed: int) -> Irony:
        splits = {name: rows}
        return Irony.make(
            clips.ids, clips.label, CONTRADICTIONS, splits, rate, donors="matched", seed=seed, within=within
        )

    splits = actor_splits(columns["actor"], tested)
    irony = assign("train", splits["train"], alpha, tested)
    triplets = dict(irony.splits)
    for name, draws in DRAWS.items():
        drawn = [assign(name, splits[name], RATE, seed).splits[name] for seed in range(draws)]
        triplets[name] = Triplets(*(np.concatenate(part) for part in zip(*drawn, strict=True)))
    return replace(irony, splits=triplets)


@lru_cache(maxsize=ACTORS)
def _components(folder: str, tested: int) -> Tensor:
    """The voices' leading principal components, computed on the training actors' clips; together they have unit variance."""
    clips = ravdess_features(folder)
    rows = actor_splits(clips.columns["actor"], tested)["train"]
    audio = clips.audio.double()
    mean = audio[rows].mean(0)
    values, vectors = torch.linalg.eigh((audio[rows] - mean).T.cov())
    count = min(COMPONENTS, len(values))
    # The sign of a component is arbitrary: its largest entry is positive.
    leading = vectors[:, -count:].flip(1)
    leading = leading * leading.gather(0, leading.abs().argmax(0, keepdim=True)).sign()
    return ((audio - mean) @ leading / values[-count:].mean().sqrt()).float()


def leaks(folder: str, alpha: float, tested: int, split: str) -> dict[str, float]:
    """AUC of irony for rules without a model, in one split; 0.5 is chance.

    By the true emotion of the voice or of the face alone, and by a mismatch of actor, statement, intensity or recording.
    """
    irony = matched_irony(folder, alpha, tested).irony
    columns = ravdess_features(folder).columns
    t = irony.splits[split]
    ironic = t.label == len(irony.classes) - 1
    unimodal = irony.leak(split)
    return {
        "emotion of the voice": unimodal["audio"].auc,
        "emotion of the face": unimodal["video"].auc,
        **{
            f"another {'recording' if name == 'id' else name}": mismatch_leak(
                columns[name][t.video], columns[name][t.audio], ironic
            )
            for name in (*KEY, "id")
        },
    }


@dataclass(frozen=True)
class MatchedIrony(IronyRates):
    """Matched irony as a task: the seed is the place of the tested actor, from 0."""

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {method: own | TRAINING for method, own in super().defaults().items()}

    def searched_at(self) -> dict[str, Any]:
        return {"alpha": 0.5}

    def prefer(self, scores: Any) -> int:
        """The best AUC of irony."""
        return max(range(len(scores)), key=lambda i: scores[i]["validation_irony_auc"])

    def irony_data(self, cell: Cell) -> IronyData:
        folder = str(features.RAVDESS.find(self.root or None))
        return matched_irony(folder, float(cell.factors["alpha"]), cell.seed + 1)  # type: ignore[arg-type]

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """A cell's method; the reference ``"prior"`` is made of the training data's classes."""
        settings: Mapping[str, Any] = cell.settings
        if settings.get("reference") == "prior":
            settings = {**settings, "reference": Prior(data.train.target, self.family)}
        return super().method(replace(cell, settings=settings), data)
