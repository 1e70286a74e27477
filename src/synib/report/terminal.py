"""Tables in the terminal."""

from typing import TYPE_CHECKING

from synib.report.numbers import mean
from synib.studies.charts import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

DIGITS = 2
MAX_COLUMNS = 8


def terminal_table(table: Table, n: int, unit: str, width: int) -> "RichTable":
    """A table that fits into the terminal: without errors if it is narrow, one value per line if it has many columns.

    Args:
        table: The table.
        n: The number of repetitions behind each mean.
        unit: The kind of repetitions, such as ``"seed"``.
        width: Width of the terminal in characters.
    """
    from rich.table import Table as RichTable

    if len(table.columns) > MAX_COLUMNS:
        rich_table = RichTable(table.of, "", title=table.title, title_justify="left")
        for name, cells in table.rows.items():
            for column, cell in zip(table.columns, cells, strict=True):
                rich_table.add_row(name, column, mean(cell, DIGITS))
        return rich_table
    errors = width >= 20 + 14 * len(table.columns)
    spread = " ± standard error" if errors else ""
    rich_table = RichTable(title=f"{table.title}, mean{spread} over {unit}s, n = {n}", title_justify="left")
    rich_table.add_column(table.of, no_wrap=True)
    for column in table.columns:
        rich_table.add_column(column, justify="right")
    for name, cells in table.rows.items():
        rich_table.add_row(name, *(mean(cell, DIGITS, errors) for cell in cells))
    return rich_table
