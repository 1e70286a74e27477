"""Colours with sufficient contrast on a light and on a dark page."""

import colorsys
from functools import cache

from synib.report.styles import GRID, GUIDE, HIGHLIGHT, MISSING, MUTED_TEXT, ON_TILES, OTHERS, STYLES, TEXT, style

LIGHT, DARK = "#ffffff", "#1d242d"  # backgrounds of figures


def on_light(name: str) -> str:
    """The colour of a method, dark enough for a light page."""
    return readable(style(name)["color"], LIGHT)


@cache
def dark_colours() -> dict[str, str]:
    """Every colour of a light page → its replacement on a dark page."""
    methods = [*(looks["color"] for looks in STYLES.values()), *OTHERS]
    return {readable(colour, LIGHT): readable(colour, DARK) for colour in methods} | {
        LIGHT: DARK,
        TEXT: "#e8ebef",
        MUTED_TEXT: "#a3adba",
        GUIDE: "#77818f",
        GRID: "#333c48",
        HIGHLIGHT: "#3a2a20",
        MISSING: "#566172",
        **{colour: colour for colour in ON_TILES},
    }


def readable(colour: str, background: str, minimum: float = 3.0) -> str:
    """The colour, lightened or darkened until its contrast to the background reaches WCAG's 3:1 for graphics."""
    if contrast(colour, background) >= minimum:
        return colour
    hue, lightness, saturation = colorsys.rgb_to_hls(*_rgb(colour))
    is_dark = luminance(background) < 0.2
    if is_dark:
        lightness = max(lightness, 1 - lightness)  # the darkest on a light page is the lightest on a dark one
    while contrast(changed := _hex(colorsys.hls_to_rgb(hue, lightness, saturation)), background) < minimum:
        lightness += 0.01 if is_dark else -0.01
    return changed


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG: from 1 (equal) to 21 (black on white)."""
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def _hex(rgb: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)
