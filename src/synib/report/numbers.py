"""Numbers as a reader sees them, the same on the page, in the README and in the terminal."""

from collections.abc import Mapping
from typing import Any


def number(value: float, digits: int = 3) -> str:
    """A number with so many decimals, and zero without a sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def published(value: float) -> str:
    """A number of the paper's, with the decimals that it gives."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.3f}"


def mean(cell: Mapping[str, Any] | None, digits: int = 3, error: bool = True) -> str:
    """The mean of a row of the summary, with its standard error; a dash where there is none."""
    if cell is None or cell["mean"] is None:
        return "–"
    spread = f" ± {number(cell['se'], digits)}" if error and cell["se"] is not None else ""
    return number(cell["mean"], digits) + spread
