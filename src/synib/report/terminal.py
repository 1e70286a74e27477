"""Tables for the terminal."""

from typing import TYPE_CHECKING

from synib.experiments.charts import Table
from synib.report.numbers import mean

if TYPE_CHECKING:
    from rich.table import Table as Grid

DIGITS = 2
MOST = 8  # columns beside each other


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
