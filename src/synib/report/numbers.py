"""Number formatting on the page, in the README and in the terminal."""

from collections.abc import Mapping
from typing import Any


def number(value: float, digits: int = 3) -> str:
    """A number with a fixed number of decimals; zero has no sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def value(cell: Mapping[str, Any], digits: int = 3) -> str:
    """The mean of a row of the summary; a p-value that would be rounded to 0 is shown as below the smallest shown value."""
    if str(cell.get("metric", "")).endswith("_p") and float(number(cell["mean"], digits)) == 0:
        return f"< {10**-digits:.{digits}f}"
    return number(cell["mean"], digits)


def published(value: float) -> str:
    """A number of the paper, with as many decimals as published."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.3f}"


def mean(cell: Mapping[str, Any] | None, digits: int = 3, error: bool = True) -> str:
    """The mean of a row of the summary with its spread; a dash if there is no mean."""
    if cell is None or cell["mean"] is None:
        return "–"
    return f"{value(cell, digits)} {spread(cell, digits) if error else ''}".strip()


def spread(cell: Mapping[str, Any], digits: int = 3) -> str:
    """The interval of a row (``low, high``) if it has one, otherwise its standard error; empty for a single value."""
    if cell.get("low") is not None:
        return f"[{number(cell['low'], digits)}, {number(cell['high'], digits)}]"
    return f"± {number(cell['se'], digits)}" if cell.get("se") is not None else ""
