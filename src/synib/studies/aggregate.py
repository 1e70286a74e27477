"""Rows of results in groups, their means, and SynIB's leads over a rival as text."""

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
    """One row per method, factors and unit: means of the metrics over everything else.

    Args:
        rows: Rows of the results.
        metrics: The metrics to average; missing values are ignored.
        unit: The column (fold, speaker) whose values are independent repetitions. It is also stored as ``seed``, by
            which :func:`leads` pairs the rows of two methods.
        factors: Further columns to keep separate.
    """
    columns = ("method", *factors, unit)
    table: list[Row] = []
    for key, members in grouped(rows, *columns).items():
        numbers = {metric: [row[metric] for row in members if row[metric] is not None] for metric in metrics}
        averages = {metric: sum(n) / len(n) if n else None for metric, n in numbers.items()}
        table.append({**dict(zip(columns, key, strict=True)), "seed": key[-1], **averages})
    return table


def leads(results: Sequence[Row], metric: str, rival: str) -> dict[str, list[float]]:
    """The difference of every other method from a rival, paired by seed, where both have the metric."""
    scores = {(row["method"], row["seed"]): row.get(metric) for row in results}
    above: dict[str, list[float]] = {method: [] for method, _ in scores if method != rival}
    for (method, seed), score in scores.items():
        other = scores.get((rival, seed))
        if method != rival and score is not None and other is not None:
            above[method].append(score - other)
    return above


def describe_leads(rows: Mapping[str, Row | None], test_share: float | None = None) -> list[str]:
    """Leads with their 95 % confidence intervals as text; rows without a standard error are excluded.

    Args:
        rows: Method → row of the summary.
        test_share: If the repeats are folds of one data set, the fraction in each test set
            (:func:`~synib.measure.interval`).
    """
    return [
        "{} {:+.3f} [{:+.3f}, {:+.3f}]".format(
            method, row["mean"], *interval(row["mean"], row["se"], row["n"], test_share=test_share)
        )
        for method, row in rows.items()
        if row is not None and row["se"] is not None
    ]


def rule_of_intervals(test_share: float | None) -> str:
    """The name of the intervals of :func:`describe_leads`."""
    return "Student's t" if test_share is None else "corrected resampled t"


def synib_leads(
    rows: Mapping[tuple[str, str], Row], methods: Iterable[str], metric: str, test_share: float | None = None
) -> str:
    """The leads of SynIB's forms, each with its 95 % interval; empty if none has a standard error.

    Args:
        rows: (method, metric) → row of the summary.
        methods: The methods to include.
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
    """One sentence for each metric in which SynIB has leads.

    Args:
        rows, methods: As in :func:`synib_leads`.
        words: Metric of the lead → its name in the text.
        unit: The unit by which leads are paired.
        test_share: As in :func:`describe_leads`.
    """
    texts = {name: synib_leads(rows, methods, metric, test_share) for metric, name in words.items()}
    return [
        f"SynIB's {name}, paired by {unit}, with 95 % confidence intervals ({rule_of_intervals(test_share)}): {text}."
        for name, text in texts.items()
        if text
    ]
