"""Data of the irony experiment: RAVDESS's features or CREMA-D's media, each with an irony assignment."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data import Dataset
from synib.measure import auc, f1_by_class
from synib.studies import features
from synib.studies.irony import crema_d, ravdess
from synib.studies.irony.clips import Clips
from synib.studies.irony.construction import SPLITS, Irony
from synib.studies.irony.donors import Donors, Rows

Source = Literal["ravdess", "crema-d"]
CLASSES = {"ravdess": len(ravdess.EMOTIONS) + 1, "crema-d": len(crema_d.EMOTIONS) + 1}  # the emotions, and irony
FOLDS = len(ravdess.FOLDS)  # CREMA-D has as many


class IronyData(NamedTuple):
    """The data of a cell, and their assignment."""

    irony: Irony
    data: Dataset


@lru_cache(maxsize=64)
def ravdess_irony(folder: str, alpha: float, donors: Donors, fold: int, assignment: int) -> IronyData:
    """RAVDESS's features with irony; many such data sets fit into memory."""
    clips = ravdess_features(folder, fold)
    irony = Irony.make(
        clips.ids, clips.label, ravdess.CONTRADICTIONS, clips.splits, alpha, donors=donors, seed=assignment
    )
    return IronyData(irony, irony.dataset(clips.video, clips.audio))


@lru_cache(maxsize=1)
def crema_d_irony(
    folder: str, skip_broken: bool, alpha: float, donors: Donors, fold: int, assignment: int
) -> IronyData:
    """CREMA-D's frames and spectrograms with irony: 5 GB on disk, one data set at a time."""
    media = _media(folder, skip_broken)
    skipped = tuple(media.skipped)
    irony = crema_d.make_irony(media.clips, alpha, fold, donors=donors, seed=assignment, without=skipped)
    return IronyData(irony, media.dataset({}, irony, scratch=Path(folder) / "synib-cache"))


@lru_cache(maxsize=1)
def _media(folder: str, skip_broken: bool) -> Clips:
    return crema_d.read_clips(folder, skip_broken=skip_broken, workers=min(8, os.cpu_count() or 1))


class Features(NamedTuple):
    """Features of all clips in the order of their names, each split's positions, and what is known of each clip."""

    ids: list[str]
    label: Rows
    video: Tensor
    audio: Tensor
    splits: dict[str, Rows]
    columns: dict[str, NDArray[Any]]


@lru_cache(maxsize=FOLDS)
def ravdess_features(folder: str, fold: int = 0) -> Features:
    """RAVDESS's features, standardised for each actor."""
    # Standardised by actor, features are the same in every fold.
    data = features.ravdess(folder, fold=fold, standardise="actor")
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    ids = [name for part in parts for name in part.columns["id"]]
    order = np.argsort(np.array(ids), kind="stable")
    position = np.argsort(order)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    splits = {name: np.sort(rows) for name, rows in zip(SPLITS, np.split(position, ends), strict=True)}
    x = {m: torch.cat([cast(Tensor, part.modalities[m]) for part in parts])[order] for m in ("visual", "audio")}
    label = torch.cat([part.target for part in parts]).numpy()[order]
    columns = {
        name: np.array([value for part in parts for value in part.columns[name]])[order] for name in data.train.columns
    }
    return Features([ids[i] for i in order], label, x["visual"], x["audio"], splits, columns)


def actor_counts(fold: int) -> list[int]:
    """The number of RAVDESS's actors in the training, validation and test split."""
    validation, test = (len(ravdess.FOLDS[k % FOLDS]) for k in (fold + 1, fold))
    return [sum(map(len, ravdess.FOLDS)) - validation - test, validation, test]


SIMILAR_FOLDS = [fold for fold in range(FOLDS) if actor_counts(fold) == actor_counts(0)]


def emotion_scores(irony: Irony) -> dict[str, float]:
    """Irony F1 and AUC on the test set of rules that know the true emotion of one modality, fitted on training examples."""
    train, test = irony.splits["train"], irony.splits["test"]
    last = len(irony.classes) - 1
    ironic = test.label == last

    def f1(predicted: np.ndarray) -> float:
        return float(f1_by_class(predicted, ironic, 2)[1])

    scores = {"all_irony_f1": f1(np.ones_like(ironic)), "all_irony_auc": 0.5}
    for who, modality in (("voice", "audio"), ("face", "video")):
        in_train, in_test = (irony.labels[getattr(t, modality)] for t in (train, test))
        counts, totals = (np.bincount(k, minlength=last) for k in (in_train[train.label == last], in_train))
        rate = counts / np.maximum(totals, 1)
        flagged = [irony.classes.index(name) for name in irony.leak("train")[modality].flagged]
        scores |= {
            f"{who}_irony_f1": f1(np.isin(in_test, flagged)),
            f"{who}_irony_auc": auc(rate[in_test], ironic),
        }
    return scores
