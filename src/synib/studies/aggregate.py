"""Rows of results in groups, their means, and SynIB's leads over a rival in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synib.studies.base import Row, describe_leads

SYNIB = ("synib", "experts")  # prefixes of the names of SynIB's forms


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Values of the columns → the rows that have them."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def means(rows: Iterable[Row], metrics: Sequence[str], unit: str, *factors: str) -> list[Row]:
    """A row for each method, factors and unit: the metrics' means over everything else that varies.

    Args:
        rows: Of the results.
        metrics: Those to average; missing values are left out.
        unit: The column (fold, speaker) whose values are independent repetitions. It also becomes ``seed``, by which
            :func:`~synib.studies.base.leads` pairs the rows of two methods.
        factors: Further columns to keep apart.
    """
    columns = ("method", *factors, unit)
    table: list[Row] = []
    for key, members in grouped(rows, *columns).items():
        numbers = {metric: [row[metric] for row in members if row[metric] is not None] for metric in metrics}
        averages = {metric: sum(n) / len(n) if n else None for metric, n in numbers.items()}
        table.append({**dict(zip(columns, key, strict=True)), "seed": key[-1], **averages})
    return table


def synib_leads(rows: Mapping[tuple[str, str], Row], methods: Iterable[str], metric: str) -> str:
    """The leads of SynIB's forms, each with its 95 % interval; empty if none has a standard error.

    Args:
        rows: (method, metric) → row of the summary.
        methods: The methods to look at.
        metric: The metric of the lead, such as ``test_accuracy_over_vanilla``.
    """
    return ", ".join(
        describe_leads({method: rows.get((method, metric)) for method in methods if method.startswith(SYNIB)})
    )
