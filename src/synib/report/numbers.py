"""Numbers as a reader sees them, the same on the page, in the README and in the terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from synib.studies.charts import Table

if TYPE_CHECKING:
    from rich.table import Table as Grid


DIGITS = 2
MOST = 8  # columns beside each other


def number(value: float, digits: int = 3) -> str:
    """A number with so many decimals, and zero without a sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def published(value: float) -> str:
    """A number of the paper's, with the decimals that it gives."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.3f}"


def mean(cell: Mapping[str, Any] | None, digits: int = 3, error: bool = True) -> str:
    """The mean of a row of the summary, with its spread; a dash where there is none."""
    if cell is None or cell["mean"] is None:
        return "–"
    return f"{number(cell['mean'], digits)} {spread(cell, digits) if error else ''}".strip()


def spread(cell: Mapping[str, Any], digits: int = 3) -> str:
    """The interval of a row that brings one (``low, high``), or else its standard error; nothing of one number."""
    if cell.get("low") is not None:
        return f"[{number(cell['low'], digits)}, {number(cell['high'], digits)}]"
    return f"± {number(cell['se'], digits)}" if cell.get("se") is not None else ""


def table(shown: Table, count: int, what: str, width: int) -> "Grid":
    """A table as wide as the terminal at most: without errors where they would not fit, and a wide one line by line."""
    from rich.table import Table as Grid

    if len(shown.columns) > MOST:
        grid = Grid(shown.of, "", title=shown.title, title_justify="left")
        for one, cells in shown.rows.items():
            for column, cell in zip(shown.columns, cells, strict=True):
                grid.add_row(one, column, mean(cell, DIGITS))
        return grid
    roomy = width >= 20 + 14 * len(shown.columns)
    spread = " ± standard error" if roomy else ""
    grid = Grid(title=f"{shown.title}, mean{spread} over {what}s, n = {count}", title_justify="left")
    grid.add_column(shown.of, no_wrap=True)
    for column in shown.columns:
        grid.add_column(column, justify="right")
    for one, cells in shown.rows.items():
        grid.add_row(one, *(mean(cell, DIGITS, roomy) for cell in cells))
    return grid
