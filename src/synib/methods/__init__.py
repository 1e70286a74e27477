"""How a step learns: one file for each method."""

import difflib
from collections.abc import Callable
from typing import Any

from synib.methods.confidence import Confidence
from synib.methods.masked_input import MaskedInput, masked_oracle, masked_random
from synib.methods.synib import synib_amortized, synib_learned, synib_marginal, synib_oracle, synib_random
from synib.methods.vanilla import Vanilla
from synib.objective import Objective

METHODS: dict[str, Callable[..., Objective]] = {
    "vanilla": Vanilla,
    "confidence": Confidence,
    "masked-random": masked_random,
    "masked-oracle": masked_oracle,
    "synib-random": synib_random,
    "synib-learned": synib_learned,
    "synib-amortized": synib_amortized,
    "synib-marginal": synib_marginal,
    "synib-oracle": synib_oracle,
}


def build(name: str, **settings: Any) -> Objective:
    """The method of that name with these settings."""
    make = METHODS[check_method(name)]
    try:
        return make(**settings)
    except TypeError as mistake:
        given = ", ".join(settings) or "none"
        raise ValueError(f"{name} cannot be made from these settings ({given}): {mistake}.") from mistake


def check_method(name: str) -> str:
    """The name, if there is such a method; otherwise the close ones are named."""
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(METHODS)}."
        raise ValueError(f"No method is called {name!r}: {hint}")
    return name


__all__ = ["METHODS", "Confidence", "MaskedInput", "Vanilla", "build", "check_method"]
