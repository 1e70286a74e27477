"""What affect's models are trained on, and what is known of their tests without a network."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from synib.data import Dataset, Split
from synib.data.files import Source
from synib.measure import f1_by_class, synergy_subset
from synib.studies import features
from synib.studies.affect import multibench as affect
from synib.studies.features import FOLDS
from synib.tokens import Modality, Tokens, take

Form = Literal["features", "sequences"]

MULTIBENCH = "multibench"  # the one split of the pickles
OFFICIAL, INDEPENDENT = "official", "speaker-independent"
OTHERS = "other-shows"  # a search's: Friends, which one scheme tests, has no say in settings
TESTED_SHOW = "FRIENDS"
ALL = tuple(range(FOLDS))
# Name → scheme → folds of nearly one size. Such are trained together, each cut to the smallest of them at the end of the file:
# by 11 of 1,163 examples at most. Sheldon alone is more than a fifth of the speakers' lines, and one of the folds.
TOGETHER: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {
    "mosi": {OFFICIAL: (ALL,)},
    "mustard": {OFFICIAL: ((0, 2, 3), (1, 4)), INDEPENDENT: ((0,), (1, 2, 3, 4)), OTHERS: (ALL,)},
    "ur-funny": {},
}
SEQUENCES: dict[str, tuple[Source, Callable[..., Dataset]]] = {
    "mosi": (affect.MOSI, affect.mosi),
    "mustard": (affect.MUSTARD, affect.mustard),
    "ur-funny": (affect.UR_FUNNY, affect.ur_funny),
}
FEATURES = {"mosi": features.MOSI, "mustard": features.MUSTARD}
WHOLE = 8  # training examples are a multiple of it: a last batch of one would have no other example to be shuffled with
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the regressions' squared weights; validation decides


class Place(NamedTuple):
    """Whose data, which part of them is tested, and what of an example is seen."""

    name: str
    form: Form
    folder: str
    scheme: str
    fold: int
    modalities: tuple[str, ...]


class Known(NamedTuple):
    """What is known of test examples without a network.

    Attributes:
        subset: The synergy subset: those that every regression on one modality gets wrong.
        scores: ``alone_<who>_test_accuracy`` and ``alone_<who>_macro_f1`` of the regressions (by modality), of one on the
            frame's size and rate (``frame``), and of the better of the two constant answers (``constant``).
    """

    subset: Tensor
    scores: dict[str, float]


def folder_of(name: str, form: Form, root: str) -> str:
    """The folder of a data set's file; where that is missing, ``ValueError`` says where to get it."""
    source = FEATURES[name] if form == "features" else SEQUENCES[name][0]
    return str(Path(source.file(root or None)).parent)


def together(name: str, scheme: str, fold: int) -> tuple[int, ...]:
    """The folds that are trained together with this one."""
    return next(folds for folds in TOGETHER[name][scheme] if fold in folds)


@lru_cache(maxsize=32)
def data_of(place: Place) -> Dataset:
    """The data of a fold, as large as those of the folds that are trained together with it."""
    data = _read(place)
    if place.form == "sequences":
        return data
    alike = [_read(place._replace(fold=fold)) for fold in together(place.name, place.scheme, place.fold)]
    train, validation = (min(len(getattr(one, part)) for one in alike) for part in ("train", "validation"))
    train -= train % WHOLE
    return replace(data, train=_rows(data.train, range(train)), validation=_rows(data.validation, range(validation)))


@lru_cache(maxsize=32)
def _read(place: Place) -> Dataset:
    name, form, folder, scheme, fold, modalities = place
    if form == "sequences":
        return SEQUENCES[name][1](folder, modalities=modalities)
    if name == "mosi":
        return features.mosi(folder, fold=fold, modalities=modalities)
    if scheme == OTHERS:
        data = features.mustard(folder, fold=fold, modalities=modalities)
        return Dataset(_rows(data.train, _others(data.train)), _rows(data.validation, _others(data.validation)), None)
    return features.mustard(folder, scheme=cast(features.Scheme, scheme), fold=fold, modalities=modalities)


def _others(split: Split) -> list[int]:
    return [i for i, show in enumerate(split.columns["show"]) if show != TESTED_SHOW]


def _rows(split: Split, rows: Sequence[int]) -> Split:
    at = torch.tensor(rows)
    return Split(
        {name: take(x, at) for name, x in split.modalities.items()},
        split.target[at],
        {name: members[at] for name, members in split.groups.items()},
        {name: [column[i] for i in rows] for name, column in split.columns.items()},
    )


@lru_cache(maxsize=32)
def known(place: Place) -> Known:
    """The synergy subset of a fold's test examples, and how far one gets without a network."""
    data = data_of(place)
    assert data.test is not None
    parts = (data.train, data.validation, data.test)
    targets = [part.target for part in parts]
    alone = {
        name: regress([_vectors(part.modalities[name]) for part in parts], targets[:2]) for name in data.test.modalities
    }
    subset = synergy_subset(alone, targets[2]).strict
    if "frame_size" in data.test.columns:
        alone["frame"] = regress(_one_hot([_frames(part) for part in parts]), targets[:2])
    alone["constant"] = torch.full_like(targets[2], int(targets[2].double().mean() > 0.5))
    scores = {}
    for who, labels in alone.items():
        scores[f"alone_{who}_test_accuracy"] = (labels == targets[2]).double().mean().item()
        scores[f"alone_{who}_macro_f1"] = macro_f1(labels, targets[2])
    return Known(torch.from_numpy(subset), scores)


def macro_f1(labels: Tensor, target: Tensor) -> float:
    """Mean F1 of both classes."""
    return float(np.nanmean(f1_by_class(labels, target, 2)))


def regress(x: Sequence[Tensor], y: Sequence[Tensor]) -> Tensor:
    """Labels of test rows by a logistic regression on training rows, its penalty chosen by validation log-loss.

    Args:
        x: Training, validation and test rows.
        y: Training and validation labels, 0 and 1.
    """
    spread, mean = torch.std_mean(x[0].double(), 0, correction=0)
    scale = torch.where(spread > 1e-6, 1 / spread.clamp(min=1e-6), 0.0)
    train, validation, test = ((one.double() - mean) * scale for one in x)
    fits = [_fit(train, y[0], strength) for strength in STRENGTHS]
    losses = [float(_loss(validation @ w + b, y[1])) for w, b in fits]
    w, b = fits[int(np.argmin(losses))]
    return (test @ w + b > 0).long()


def _fit(x: Tensor, y: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    w, b = x.new_zeros(x.shape[1], requires_grad=True), x.new_zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([w, b], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = _loss(x @ w + b, y) + 0.5 * strength * w.square().sum()
        torch.autograd.backward([loss])
        return loss

    optimiser.step(closure)
    return w.detach(), b.detach()


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, y.double())


def _vectors(x: Modality) -> Tensor:
    """One vector for each example: of a sequence the mean of its steps."""
    if not isinstance(x, Tokens):
        return x
    there = (~x.padding)[:, :, None]
    return (x.values * there).sum(1) / there.sum(1).clamp(min=1)


def _frames(split: Split) -> list[Any]:
    """Of each clip the size of a frame and how many there are in a second."""
    return [*zip(split.columns["frame_size"], map(round, split.columns["fps"]), strict=True)]


def _one_hot(parts: Sequence[Sequence[Any]]) -> list[Tensor]:
    """A column for each value of each field that the first part has."""
    values = [sorted(set(field)) for field in zip(*parts[0], strict=True)]
    return [
        torch.tensor([[float(of == v) for of, each in zip(row, values, strict=True) for v in each] for row in part])
        for part in parts
    ]
