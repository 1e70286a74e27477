"""synib: make multimodal models use what only the modalities together say.

``synib.read``, ``synib.audit`` and ``synib.fit`` are imported when they are first used.
"""

from importlib import import_module
from typing import Any

from synib.masks import (
    AmortizedMask,
    ClassShuffledNoise,
    HideTokens,
    LearnedMask,
    Mask,
    MatchedNoise,
    Noise,
    OracleMask,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
)
from synib.methods import Confidence, Vanilla
from synib.models import FusionModel
from synib.objective import (
    Annealing,
    Bernoulli,
    Categorical,
    Fixed,
    Gaussian,
    LinearWarmup,
    Prior,
    SynIB,
    Uniform,
    Unimodal,
)
from synib.tokens import Tokens

__version__ = "0.1.0"

_ON_FIRST_USE = {"audit": "synib.own.audit", "fit": "synib.own.fit", "read": "synib.own.table"}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'synib' has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_FIRST_USE])


__all__ = [
    "AmortizedMask",
    "Annealing",
    "Bernoulli",
    "Categorical",
    "ClassShuffledNoise",
    "Confidence",
    "Fixed",
    "FusionModel",
    "Gaussian",
    "HideTokens",
    "LearnedMask",
    "LinearWarmup",
    "Mask",
    "MatchedNoise",
    "Noise",
    "OracleMask",
    "Prior",
    "RandomMask",
    "ShuffledNoise",
    "StandardNoise",
    "SynIB",
    "Tokens",
    "Uniform",
    "Unimodal",
    "Vanilla",
]
