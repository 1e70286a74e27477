"""How a step learns: one file for each method."""

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from synib.methods.agm import AGM
from synib.methods.confidence import Confidence
from synib.methods.dnr import DnR
from synib.methods.ensemble import Ensemble
from synib.methods.experts import Experts, experts
from synib.methods.masked_input import MaskedInput, masked_oracle, masked_random
from synib.methods.mcr import MCR
from synib.methods.mmpareto import MMPareto
from synib.methods.ogm import OGM
from synib.methods.reconboost import ReconBoost
from synib.methods.synib import synib_amortized, synib_learned, synib_marginal, synib_oracle, synib_random
from synib.methods.unimodal import Unimodal
from synib.methods.vanilla import Vanilla
from synib.objective import Objective

METHODS: dict[str, Callable[..., Objective]] = {
    "unimodal": Unimodal,
    "ensemble": Ensemble,
    "vanilla": Vanilla,
    "confidence": Confidence,
    "masked-random": masked_random,
    "masked-oracle": masked_oracle,
    "synib-random": synib_random,
    "synib-learned": synib_learned,
    "synib-amortized": synib_amortized,
    "synib-marginal": synib_marginal,
    "synib-oracle": synib_oracle,
    "experts": experts,
    "dnr": DnR,
    "mmpareto": MMPareto,
    "reconboost": ReconBoost,
    "mcr": MCR,
    "ogm": OGM,
    "agm": AGM,
}
ALONE = "unimodal-"  # and the modality's name: unimodal-image is unimodal with modality="image"


def build(name: str, **settings: Any) -> Objective:
    """The method of that name with these settings."""
    check_method(name)
    alone = name.startswith(ALONE)
    make = partial(Unimodal, name.removeprefix(ALONE)) if alone else METHODS[name]
    try:
        return make(**settings)
    except TypeError as mistake:
        given = ", ".join(settings) or "none"
        raise ValueError(f"{name} cannot be made from these settings ({given}): {mistake}.") from mistake


def check_method(name: str) -> str:
    """The name, if there is such a method; otherwise the close ones are named."""
    if name not in METHODS and not (name.startswith(ALONE) and name != ALONE):
        close = difflib.get_close_matches(name, METHODS, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(METHODS)}."
        raise ValueError(f"No method is called {name!r}: {hint}")
    return name


__all__ = [
    "AGM",
    "MCR",
    "METHODS",
    "OGM",
    "Confidence",
    "DnR",
    "Ensemble",
    "Experts",
    "MMPareto",
    "MaskedInput",
    "ReconBoost",
    "Unimodal",
    "Vanilla",
    "build",
    "check_method",
]
