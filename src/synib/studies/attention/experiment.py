"""Attention fusion on the test set: every form with its chosen settings, the ceiling, and leads with corrected intervals."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synib.studies.attention.search import TASKS, AttentionForms
from synib.studies.fair.experiment import MARGINAL, Fair


@dataclass(frozen=True)
class Attention(AttentionForms, Fair):
    """Attention fusion of spoken × written digits: which methods learn the synergy in a transformer over tokens?"""

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = (
        "Attention fusion: which methods learn synergy in a transformer over the tokens of both modalities?"
    )
    about: ClassVar[str] = (
        "Spoken and written digits with cues, as 24 frames of a spectrogram and 16 patches of an image. A transformer "
        "layer for each modality, and one in which a class token attends to the tokens of both, are trained from scratch; "
        "width 32, 40 epochs. "
        "Masks select tokens or the whole modality; corrupted tokens are swapped with those of another example. Every "
        "penalty is annealed, every form has an equal search of settings (attention-search). The ceiling is the same "
        "network trained by plain fusion on as many examples without any cue. Share is (synergy - chance) / (ceiling "
        "without cues - chance). Forms, grid, selection rule, seeds and claims were fixed before the first run (PLAN.md)."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "form": ("vanilla",)}
    package: ClassVar[str] = __package__
    primary: ClassVar[Collection[tuple[str, str, str]]] = [
        (task, MARGINAL, rival) for task in TASKS for rival in ("vanilla", "confidence, annealed")
    ]

    seeds: int = 6
