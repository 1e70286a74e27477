"""The data of the irony experiment: RAVDESS's features or CREMA-D's media files, and what is known without a model."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.data import Dataset
from synib.measure import auc, f1_by_class
from synib.studies import features
from synib.studies.irony import clips, crema_d, ravdess
from synib.studies.irony.construction import SPLITS, Irony
from synib.studies.irony.donors import Contradictions, Donors

Source = Literal["ravdess", "crema-d"]
MAPS: Mapping[str, Contradictions] = {"ravdess": ravdess.CONTRADICTIONS, "crema-d": crema_d.CONTRADICTIONS}
FOLDS = len(ravdess.FOLDS)  # and as many of CREMA-D

ABOUT = {
    "ravdess": (
        "Actors of RAVDESS in eight emotions: statistics of their voices (Whisper) and their faces (action units), each actor "
        "standardised by the actor's own clips. In some clips the voice is another clip's of a contradicting emotion, and the "
        "label is a ninth class, irony: α times as many as a mean emotion has, in every split. Donors are chosen as in the "
        "paper, whose map lets the voice alone tell much about irony, or balanced, so that neither voice nor face tells "
        "anything alone. Five folds: an actor at test is in no training or validation example of the fold. Actors at test are "
        "standardised by their own clips too, without labels. Settings were searched, 27 candidates for each method, on "
        "validation data of folds 0 to 2, four draws of who is ironic each, at α = 0.5 with the paper's donors: of the "
        "candidates whose macro F1 is within 0.01 of the method's best, the one that ranks irony best (AUC). The same settings "
        "serve every α and both ways to choose donors. The validation actors of folds 0 to 2 are those that folds 1 to 3 test. "
        "Experts also fit to validation labels how they are added up, here and in the search. The paper's own numbers are of "
        "CREMA-D-Irony (six emotions, ResNets on frames and spectrograms), so none stand beside these."
    ),
    "crema-d": (
        "CREMA-D-Irony: actors in six emotions, a ResNet-18 on three frames of the face and one on the spectrogram of the "
        "voice. In some clips the voice is another clip's of a contradicting emotion, and the label is a "
        "seventh class, irony: α times as many as a mean emotion has, in every split. Donors are chosen as in the paper, whose "
        "map lets the voice alone tell much about irony, or balanced, so that neither voice nor face tells anything alone. "
        "Five folds: no actor is in two splits of one. Nothing was searched: learning rate, schedule, patience and what "
        "SynIB's masks need are the paper's, the rest is the middle of what is searched on RAVDESS. Of each model the epoch "
        "with the best validation accuracy is kept. What differs from the paper: networks do not begin from unimodal training "
        "on CREMA-D, frames are not cropped and flipped at random, SynIB's masks act on latents, its reference is uniform, and "
        "the paper's means are over three folds."
    ),
}


class Made(NamedTuple):
    """A cell's data, and the assignment that they were made by."""

    irony: Irony
    data: Dataset


@lru_cache(maxsize=64)
def of_features(folder: str, alpha: float, donors: Donors, fold: int, assignment: int) -> Made:
    """RAVDESS's features, of which many data sets fit into memory."""
    found = _features(folder, fold)
    made = Irony.make(found.ids, found.label, MAPS["ravdess"], found.splits, alpha, donors=donors, seed=assignment)
    return Made(made, made.dataset(found.video, found.audio))


@lru_cache(maxsize=1)
def of_media(folder: str, skip_broken: bool, alpha: float, donors: Donors, fold: int, assignment: int) -> Made:
    """CREMA-D's frames and spectrograms, 5 GB: on disk, and one data set at a time."""
    media = _media(folder, skip_broken)
    names = [crema_d.parse(name) for name in media.ids]
    made = crema_d.make_irony(names, alpha, fold, donors=donors, seed=assignment, without=tuple(media.skipped))
    return Made(made, media.dataset({}, made, scratch=Path(folder) / "synib-cache"))


@lru_cache(maxsize=1)
def _media(folder: str, skip_broken: bool) -> clips.Clips:
    return crema_d.read_clips(folder, skip_broken=skip_broken, workers=min(8, os.cpu_count() or 1))


class Features(NamedTuple):
    """All clips in the order of their names, and who is in which split."""

    ids: list[str]
    label: NDArray[np.int64]
    video: Tensor
    audio: Tensor
    splits: dict[str, NDArray[np.int64]]


@lru_cache(maxsize=FOLDS)
def _features(folder: str, fold: int) -> Features:
    # Standardised by actor, features are the same in every fold.
    data = features.ravdess(folder, fold=fold, standardise="actor")
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    ids = [name for part in parts for name in part.columns["id"]]
    order = np.argsort(np.array(ids), kind="stable")
    place = np.argsort(order)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    splits = {name: np.sort(rows) for name, rows in zip(SPLITS, np.split(place, ends), strict=True)}
    x = {m: torch.cat([cast(Tensor, part.modalities[m]) for part in parts])[order] for m in ("visual", "audio")}
    label = torch.cat([part.target for part in parts]).numpy()[order]
    return Features([ids[i] for i in order], label, x["visual"], x["audio"], splits)


def actors(fold: int) -> list[int]:
    """How many actors of RAVDESS train, validate and are tested."""
    validation, test = (len(ravdess.FOLDS[k % FOLDS]) for k in (fold + 1, fold))
    return [sum(map(len, ravdess.FOLDS)) - validation - test, validation, test]


FOLDS_ALIKE = [fold for fold in range(FOLDS) if actors(fold) == actors(0)]


def without_model(irony: Irony) -> dict[str, float]:
    """Irony F1 and AUC at test of who knows the true emotion of one modality, and has counted in training."""
    train, test = irony.splits["train"], irony.splits["test"]
    last = len(irony.classes) - 1
    ironic = test.label == last

    def f1(said: NDArray[np.bool_]) -> float:
        return float(f1_by_class(said, ironic, 2)[1])

    told = {"all_irony_f1": f1(np.ones_like(ironic)), "all_irony_auc": 0.5}
    for who, modality in (("voice", "audio"), ("face", "video")):
        known, asked = (irony.labels[getattr(t, modality)] for t in (train, test))
        counts, all_counts = (np.bincount(k, minlength=last) for k in (known[train.label == last], known))
        rate = counts / np.maximum(all_counts, 1)
        flagged = [irony.classes.index(name) for name in irony.leak("train")[modality].flagged]
        told |= {
            f"{who}_irony_f1": f1(np.isin(asked, flagged)),
            f"{who}_irony_auc": auc(rate[asked], ironic),
        }
    return told
