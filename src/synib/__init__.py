"""synib: make multimodal models use the information that only a combination of modalities carries.

``synib.read``, ``synib.Table``, ``synib.audit``, ``synib.fit``, ``synib.load``, ``synib.explain`` and ``synib.recorded`` are
imported when they are first used.
"""

import importlib

TYPE_CHECKING = False  # to type checkers it is true; importing it from typing would take longer than all else here

if TYPE_CHECKING:
    from synib.explanation.explain import explain
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
    from synib.methods import Confidence, OnLatents, Vanilla
    from synib.models import FusionModel
    from synib.objective import (
        Annealing,
        Bernoulli,
        BlackBoxModel,
        Categorical,
        Fixed,
        Gaussian,
        LinearWarmup,
        MultiLabel,
        Prior,
        SynIB,
        Uniform,
        Unimodal,
    )
    from synib.own.audit import audit
    from synib.own.fit import fit
    from synib.own.saved import load
    from synib.own.table import Table, read
    from synib.tokens import Tokens
    from synib.training.recorded_step import recorded

__version__ = "0.2.0"

__all__ = [
    "AmortizedMask",
    "Annealing",
    "Bernoulli",
    "BlackBoxModel",
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
    "MultiLabel",
    "Noise",
    "OnLatents",
    "OracleMask",
    "Prior",
    "RandomMask",
    "ShuffledNoise",
    "StandardNoise",
    "SynIB",
    "Table",
    "Tokens",
    "Uniform",
    "Unimodal",
    "Vanilla",
    "audit",
    "explain",
    "fit",
    "load",
    "read",
    "recorded",
]

_OWN = {
    "Table": "own.table",
    "audit": "own.audit",
    "explain": "explanation.explain",
    "fit": "own.fit",
    "load": "own.saved",
    "read": "own.table",
    "recorded": "training.recorded_step",
}
_PACKAGES = ("masks", "methods", "models", "objective", "tokens", "keys")  # what defines these names


def __getattr__(name: str) -> object:
    """Import a public name, and torch with it, on first use, so that the command starts quickly."""
    if name in _PACKAGES:
        return importlib.import_module(f"synib.{name}")
    if name in _OWN:
        value = globals()[name] = getattr(importlib.import_module(f"synib.{_OWN[name]}"), name)
        return value
    if name in __all__:
        for package in _PACKAGES:
            module = importlib.import_module(f"synib.{package}")
            if hasattr(module, name):
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'synib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_OWN])
