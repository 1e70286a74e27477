"""Spoken × written digits as tokens: frames of a spectrogram and patches of an image, fused by a small transformer."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from synib.data import Dataset, Split
from synib.models import FusionModel, attention_model
from synib.objective import Categorical, Family
from synib.studies.digits.data import BANDS, FRAMES, RULES, SIDE, RuleName
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.forms.catalogue import Task
from synib.tokens import Tokens, values
from synib.training import Cell

PATCH = 7  # pixels; an image has 4 × 4 patches
ACROSS = SIDE // PATCH
SHAPES = {"audio": (FRAMES, BANDS), "image": (ACROSS * ACROSS, PATCH * PATCH)}
MODEL = {"width": 32, "layers": 1, "fusion_layers": 1, "heads": 2}
TRAINING = {"epochs": 40, "batch_size": 128, "unimodal_weight": 1.0, "weight_decay": 1e-4, "detach_heads": True}
STEPS = 1280  # 32 batches in each epoch


@dataclass(frozen=True)
class AttentionDigits(DigitsScarce):
    """Attention fusion of spoken × written digits: the parity of their sum."""

    of_model: ClassVar[tuple[str, ...]] = (*MODEL, "dropout", "detach_heads")

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {method: {**TRAINING, **MODEL} for method in super().defaults()}

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        classes = RULES[self.label_rule].classes
        options = {name: cell.settings[name] for name in self.of_model}
        return attention_model(SHAPES, 1 if classes == 2 else classes, **options)


@dataclass(frozen=True)
class AttentionHalves(AttentionDigits):
    """Attention fusion of spoken × written digits: is exactly one of them at least 5?"""

    label_rule: ClassVar[RuleName] = "halves"


@dataclass(frozen=True)
class AttentionModulo(AttentionDigits):
    """Attention fusion of spoken × written digits from 0 to 8: their sum modulo 3."""

    label_rule: ClassVar[RuleName] = "modulo-3"
    family: ClassVar[Family] = Categorical()


def attention_tasks(root: str) -> dict[str, Task]:
    """All tasks, by name; ``root`` is the folder of the data."""
    scores, both, rates = "accuracy, and on examples without a cue", ("audio", "image"), (3e-4, 3e-3)
    parity = Task(AttentionDigits(root=root), scores, both, STEPS, rates)
    return {
        "digits": parity,
        "digits-halves": parity._replace(experiment=AttentionHalves(root=root)),
        "digits-modulo-3": parity._replace(experiment=AttentionModulo(root=root)),
    }


def as_tokens(data: Dataset) -> Dataset:
    """The digits' data with 24 frames of 40 bands and 16 patches of 7 × 7 pixels as tokens, none of them hidden."""

    def of_split(split: Split) -> Split:
        audio, image = (values(split.modalities[name]) for name in ("audio", "image"))
        frames = audio.unflatten(1, (BANDS, FRAMES)).transpose(1, 2)
        patches = (
            image.unflatten(1, (ACROSS, PATCH, ACROSS, PATCH)).transpose(2, 3).reshape(len(image), *SHAPES["image"])
        )
        return replace(split, modalities={"audio": _all_visible(frames), "image": _all_visible(patches)})

    parts = (None if part is None else of_split(part) for part in (data.train, data.validation, data.test))
    return Dataset(*parts)  # type: ignore[arg-type]


def _all_visible(steps: Tensor) -> Tokens:
    return Tokens(steps.contiguous(), torch.zeros(steps.shape[:2], dtype=torch.bool))
