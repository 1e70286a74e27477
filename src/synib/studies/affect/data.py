"""Data of the affect experiments: MOSI, MUStARD and UR-FUNNY as feature vectors or as sequences, in folds."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

import torch

from synib.data import Dataset
from synib.data.files import Source
from synib.studies import features
from synib.studies.affect import multibench
from synib.studies.features import FOLDS

Form = Literal["features", "sequences"]

MULTIBENCH = "multibench"  # the one split of sequences
OFFICIAL, INDEPENDENT = "official", "speaker-independent"
OTHER_SHOWS = "other-shows"  # for searches: settings are chosen without Friends, which INDEPENDENT tests
TESTED_SHOW = "FRIENDS"
# MOSI's video features are left out: they look fitted to the labels of the training videos, the validation videos among them.
# A regression on them is right for 9 of 10 utterances in training videos that it has not seen, and for half of those at test.
MODALITIES: dict[tuple[str, Form], tuple[str, ...]] = {
    ("mosi", "features"): ("text", "audio"),
    ("mustard", "features"): ("text", "audio", "video"),
    ("mosi", "sequences"): ("vision", "text"),
    ("mustard", "sequences"): ("vision", "text"),
    ("ur-funny", "sequences"): ("vision", "text"),
}
ALL = tuple(range(FOLDS))
# Data set → scheme → folds of nearly the same size. These are trained together, each cut at its end to the size of the
# smallest: by 11 of 1,163 examples at most. Sheldon alone speaks more than a fifth of the lines, and is a fold of his own.
SIMILAR_FOLDS: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {
    "mosi": {OFFICIAL: (ALL,)},
    "mustard": {OFFICIAL: ((0, 2, 3), (1, 4)), INDEPENDENT: ((0,), (1, 2, 3, 4)), OTHER_SHOWS: (ALL,)},
    "ur-funny": {},
}
SEQUENCES: dict[str, tuple[Source, Callable[..., Dataset]]] = {
    "mosi": (multibench.MOSI, multibench.mosi),
    "mustard": (multibench.MUSTARD, multibench.mustard),
    "ur-funny": (multibench.UR_FUNNY, multibench.ur_funny),
}
FEATURES = {"mosi": features.MOSI, "mustard": features.MUSTARD}
MULTIPLE = 8  # divides the number of training examples: a last batch of a single example could not be shuffled


class DataSpec(NamedTuple):
    """The data on which a model is trained and tested."""

    name: str
    form: Form
    folder: str
    scheme: str
    fold: int

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that models see."""
        return MODALITIES[self.name, self.form]


def data_folder(name: str, form: Form, root: str) -> str:
    """The folder of a data set's file; a missing file raises ``ValueError`` with its source."""
    source = FEATURES[name] if form == "features" else SEQUENCES[name][0]
    return str(Path(source.file(root or None)).parent)


def similar_folds(name: str, scheme: str, fold: int) -> tuple[int, ...]:
    """The folds that are trained together with this one, itself included."""
    return next(folds for folds in SIMILAR_FOLDS[name][scheme] if fold in folds)


@lru_cache(maxsize=32)
def load(spec: DataSpec) -> Dataset:
    """The data of a fold, truncated to the size of the folds that are trained together with it."""
    data = read(spec)
    if spec.form == "sequences":
        return data
    others = [read(spec._replace(fold=fold)) for fold in similar_folds(spec.name, spec.scheme, spec.fold)]
    train = min(len(other.train) for other in others)
    validation = min(len(other.validation) for other in others)
    return replace(
        data,
        train=data.train.take(slice(0, train - train % MULTIPLE)),
        validation=data.validation.take(slice(0, validation)),
    )


@lru_cache(maxsize=32)
def read(spec: DataSpec) -> Dataset:
    """The complete data of a fold."""
    if spec.form == "sequences":
        return SEQUENCES[spec.name][1](spec.folder, modalities=spec.modalities)
    if spec.name == "mosi":
        return features.mosi(spec.folder, fold=spec.fold, modalities=spec.modalities)
    if spec.scheme == OTHER_SHOWS:
        data = features.mustard(spec.folder, fold=spec.fold, modalities=spec.modalities)
        train, validation = (
            split.take(torch.tensor([i for i, show in enumerate(split.columns["show"]) if show != TESTED_SHOW]))
            for split in (data.train, data.validation)
        )
        return Dataset(train, validation, None)
    scheme = cast(features.Scheme, spec.scheme)
    return features.mustard(spec.folder, scheme=scheme, fold=spec.fold, modalities=spec.modalities)
