"""Tables in the terminal, as wide as it is."""

import io

import pytest
from rich.console import Console

from synib.report.terminal import MAX_COLUMNS, terminal_table
from synib.studies.charts import Table

CELL = {"mean": 0.5, "se": 0.1, "n": 3, "paper": None}


def shown(columns, width):
    text = io.StringIO()
    made = Table(
        "accuracy", [f"c{i}" for i in range(columns)], {"vanilla": [CELL] * columns, "synib": [None] * columns}
    )
    Console(file=text, width=width).print(terminal_table(made, 3, "fold", width))
    return text.getvalue()


def test_a_roomy_table_says_errors_and_what_they_are_over():
    text = shown(2, 100)
    assert "accuracy, mean ± standard error over folds, n = 3" in " ".join(text.split())
    assert text.count("0.50 ± 0.10") == 2
    assert text.count("–") == 2


def test_a_narrow_terminal_gets_means_alone():
    text = shown(2, 40)
    assert "0.50" in text
    assert "±" not in text


@pytest.mark.parametrize(("columns", "lines"), [(MAX_COLUMNS, 1), (MAX_COLUMNS + 1, MAX_COLUMNS + 1)])
def test_a_table_with_many_columns_has_a_line_for_each_number(columns, lines):
    assert sum("vanilla" in line for line in shown(columns, 200).splitlines()) == lines
