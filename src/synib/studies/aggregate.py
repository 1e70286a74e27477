"""Rows of results in groups, their means, and SynIB's leads over a rival in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synib.measure import interval
from synib.studies.charts import Row

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
            :func:`leads` pairs the rows of two methods.
        factors: Further columns to keep apart.
    """
    columns = ("method", *factors, unit)
    table: list[Row] = []
    for key, members in grouped(rows, *columns).items():
        numbers = {metric: [row[metric] for row in members if row[metric] is not None] for metric in metrics}
        averages = {metric: sum(n) / len(n) if n else None for metric, n in numbers.items()}
        table.append({**dict(zip(columns, key, strict=True)), "seed": key[-1], **averages})
    return table


def leads(results: Sequence[Row], metric: str, rival: str) -> dict[str, list[float]]:
    """How far every other method is above a rival, seed by seed, where both have the metric."""
    scores = {(row["method"], row["seed"]): row.get(metric) for row in results}
    above: dict[str, list[float]] = {method: [] for method, _ in scores if method != rival}
    for (method, seed), score in scores.items():
        other = scores.get((rival, seed))
        if method != rival and score is not None and other is not None:
            above[method].append(score - other)
    return above


def describe_leads(rows: Mapping[str, Row | None], test_share: float | None = None) -> list[str]:
    """Leads with their 95 % intervals as text; rows without a standard error are left out.

    Args:
        rows: Method → row of the summary.
        test_share: Where the repeats are folds of one data set, the share that each tests (:func:`~synib.measure.interval`).
    """
    return [
        "{} {:+.3f} [{:+.3f}, {:+.3f}]".format(
            method, row["mean"], *interval(row["mean"], row["se"], row["n"], test_share=test_share)
        )
        for method, row in rows.items()
        if row is not None and row["se"] is not None
    ]


def rule_of_intervals(test_share: float | None) -> str:
    """What the intervals of :func:`describe_leads` are called."""
    return "Student's t" if test_share is None else "corrected resampled t"


def synib_leads(
    rows: Mapping[tuple[str, str], Row], methods: Iterable[str], metric: str, test_share: float | None = None
) -> str:
    """The leads of SynIB's forms, each with its 95 % interval; empty if none has a standard error.

    Args:
        rows: (method, metric) → row of the summary.
        methods: The methods to look at.
        metric: The metric of the lead, such as ``test_accuracy_over_vanilla``.
        test_share: As in :func:`describe_leads`.
    """
    ours = {method: rows.get((method, metric)) for method in methods if method.startswith(SYNIB)}
    return ", ".join(describe_leads(ours, test_share))


def lead_sentences(
    rows: Mapping[tuple[str, str], Row],
    methods: Sequence[str],
    words: Mapping[str, str],
    unit: str,
    test_share: float | None = None,
) -> list[str]:
    """A sentence for each metric in which SynIB has leads.

    Args:
        rows, methods: As in :func:`synib_leads`.
        words: The metric of the lead → what it is called.
        unit: What the leads are paired by.
        test_share: As in :func:`describe_leads`.
    """
    texts = {name: synib_leads(rows, methods, metric, test_share) for metric, name in words.items()}
    return [
        f"SynIB's {name}, paired by {unit}, with 95 % intervals ({rule_of_intervals(test_share)}): {text}."
        for name, text in texts.items()
        if text
    ]
