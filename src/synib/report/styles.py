"""One colour and one marker for each method and each source, wherever it appears."""

import zlib
from typing import Any

# Grey for what SynIB is compared with, blues for the paper's forms, orange for ours: told apart without colour by marker.
STYLES: dict[str, dict[str, Any]] = {
    "vanilla": {"color": "#8a8f98", "marker": "o"},
    "confidence": {"color": "#b98a5e", "marker": "s"},
    "masked-random": {"color": "#c9b458", "marker": "<"},
    "masked-oracle": {"color": "#7d8f3a", "marker": ">"},
    "synib-random": {"color": "#6fa8dc", "marker": "^"},
    "synib-learned": {"color": "#2f6fb5", "marker": "v"},
    "synib-amortized": {"color": "#4aa7b0", "marker": "8"},
    "synib-marginal": {"color": "#d9541e", "marker": "D"},
    "synib-oracle": {"color": "#1b2a49", "marker": "*"},
    "experts": {"color": "#a8328a", "marker": "H"},
    "unimodal": {"color": "#c3c7cd", "marker": "."},
    "ensemble": {"color": "#5f6672", "marker": "d"},
    "ogm": {"color": "#9c7a54", "marker": "1"},
    "agm": {"color": "#8d6b94", "marker": "2"},
    "dnr": {"color": "#6b8f71", "marker": "3"},
    "mmpareto": {"color": "#a06a6a", "marker": "4"},
    "reconboost": {"color": "#5c8aa8", "marker": "+"},
    "mcr": {"color": "#b0a160", "marker": "x"},
    "products": {"color": "#c8553d", "marker": (4, 0)},
    # The sources of the label. The green is lighter than the red, so that who cannot tell the hues can tell the shades.
    "U1": {"color": "#2b6cc4", "marker": "P"},
    "U2": {"color": "#b39ddb", "marker": "X"},
    "R": {"color": "#3fae7c", "marker": "p"},
    "S": {"color": "#c0202f", "marker": "h"},
    # What a model is given.
    "intact": {"color": "#2a2d34", "marker": (5, 0)},
    "x1": {"color": "#e07b39", "marker": (6, 0)},
    "x2": {"color": "#5b8def", "marker": (7, 0)},
    "ideal": {"color": "#b4b8bf", "marker": ""},
    # Pairs of sources.
    "U1·R": {"color": "#1f8a86", "marker": "|"},
    "U1·S": {"color": "#7b3f9e", "marker": "_"},
    "R·S": {"color": "#b07a1e", "marker": ","},
}
# For methods that are not ours: what they get follows from their name.
OTHERS = ("#444444", "#7a5195", "#2a9d8f", "#bc5090", "#8f5a00", "#3d5a80", "#6a994e", "#9d4edd")


def style(name: str) -> dict[str, Any]:
    """The colour and marker of a method, a source, or whatever else a line stands for."""
    return STYLES.get(name) or {"color": OTHERS[zlib.crc32(name.encode()) % len(OTHERS)], "marker": "o"}


def brief(text: str, most: int = 40) -> str:
    """A name that has room in a picture."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
