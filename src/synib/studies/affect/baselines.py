"""Test scores of baselines without a network, and the synergy subset defined by unimodal regressions."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from synib.data import Split
from synib.measure import f1_by_class, synergy_subset
from synib.studies.affect.data import DataSpec, load
from synib.studies.unimodal import regress, unimodal_labels

PREFIX = "alone_"  # of the scores below; each row of the results has them, the same for all methods


class Baselines(NamedTuple):
    """Baseline results on the test examples.

    Attributes:
        subset: The synergy subset: examples that every unimodal regression predicts wrongly.
        scores: ``alone_<who>_test_accuracy`` and ``alone_<who>_macro_f1`` of the regressions (by modality), of one on the
            size and rate of the frames (``frame``), and of the better constant prediction (``constant``).
    """

    subset: Tensor
    scores: dict[str, float]


@lru_cache(maxsize=32)
def baselines(spec: DataSpec) -> Baselines:
    """The synergy subset of a fold's test examples, and the scores of regressions and of a constant."""
    data = load(spec)
    assert data.test is not None
    target = data.test.target
    labels = unimodal_labels(data)
    subset = synergy_subset(labels, target).strict
    if "frame_size" in data.test.columns:
        frames = one_hot([_frames(part) for part in (data.train, data.validation, data.test)])
        labels["frame"] = regress(frames, [data.train.target, data.validation.target])
    labels["constant"] = torch.full_like(target, int(target.double().mean() > 0.5))
    scores = {}
    for who, predicted in labels.items():
        scores[f"{PREFIX}{who}_test_accuracy"] = (predicted == target).double().mean().item()
        scores[f"{PREFIX}{who}_macro_f1"] = macro_f1(predicted, target)
    return Baselines(torch.from_numpy(subset), scores)


def macro_f1(labels: Tensor, target: Tensor) -> float:
    """Macro F1 of both classes."""
    return float(np.nanmean(f1_by_class(labels, target, 2)))


def one_hot(parts: Sequence[Sequence[tuple[Any, ...]]]) -> list[Tensor]:
    """One-hot columns of the values that each field has in the first split; other values are all zeros."""
    values = [sorted(set(field)) for field in zip(*parts[0], strict=True)]
    return [
        torch.tensor([[float(x == v) for x, known in zip(row, values, strict=True) for v in known] for row in part])
        for part in parts
    ]


def _frames(split: Split) -> list[tuple[str, int]]:
    """Size of a clip's frames, and frames per second."""
    return [*zip(split.columns["frame_size"], map(round, split.columns["fps"]), strict=True)]
