"""Colours and markers: one of each for every method and every source of the label, and the colours shared by all figures."""

import zlib
from typing import Any

TEXT, MUTED_TEXT = "#1c2430", "#5b6573"
GREY, RULE, GUIDE, GRID = "#8a8f98", "#c5c8ce", "#9aa1ab", "#eceef1"
HIGHLIGHT = "#fdf1ea"  # behind the rows of SynIB
ON_TILES = ("#000000", "#fffffe")  # numbers and outlines on coloured tiles, the same on a light and on a dark page
MISSING = "#c9ced6"  # outline of a tile without a value

# Baselines are grey, the paper's forms of SynIB blue, this package's forms orange; markers differ for readers without colour.
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
    # Sources of the label. The green is lighter than the red, for readers who cannot tell these hues apart.
    "U1": {"color": "#2b6cc4", "marker": "P"},
    "U2": {"color": "#b39ddb", "marker": "X"},
    "R": {"color": "#3fae7c", "marker": "p"},
    "S": {"color": "#c0202f", "marker": "h"},
    # Inputs of a model.
    "intact": {"color": "#2a2d34", "marker": (5, 0)},
    "x1": {"color": "#e07b39", "marker": (6, 0)},
    "x2": {"color": "#5b8def", "marker": (7, 0)},
    "ideal": {"color": "#b4b8bf", "marker": ""},
    # Pairs of sources.
    "U1·R": {"color": "#1f8a86", "marker": "|"},
    "U1·S": {"color": "#7b3f9e", "marker": "_"},
    "R·S": {"color": "#b07a1e", "marker": ","},
}
# Colours of other names, chosen by a hash of the name.
OTHERS = ("#444444", "#7a5195", "#2a9d8f", "#bc5090", "#8f5a00", "#3d5a80", "#6a994e", "#9d4edd")


def style(name: str) -> dict[str, Any]:
    """Colour and marker of a method, a source of the label, or another line."""
    return STYLES.get(name) or {"color": OTHERS[zlib.crc32(name.encode()) % len(OTHERS)], "marker": "o"}


def shorten(text: str, length: int = 40) -> str:
    """The text, truncated to fit into a figure."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
