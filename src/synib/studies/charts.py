"""What figures and tables show, without saying how they are drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Row = Mapping[str, Any]

# What figures call the methods; one that is not here is called by its name.
LABELS = {
    "vanilla": "vanilla fusion",
    "confidence": "confidence penalty",
    "masked-oracle": "masked inputs, oracle",
    "masked-random": "masked inputs, random",
    "synib-random": "SynIB, random masks",
    "synib-learned": "SynIB, learned masks",
    "synib-amortized": "SynIB, amortised masks",
    "synib-marginal": "SynIB, marginal",
    "synib-oracle": "SynIB, oracle masks",
}


def label(method: str) -> str:
    """What figures call a method."""
    return LABELS.get(method, method)


@dataclass(frozen=True)
class Series:
    """A line with its spread.

    Args:
        name: The method, or another role that has a colour of its own.
        label: What the legend calls it.
        x, mean, se: Points, and the standard error of each.
        dashed: Draw it dashed.
        n: How many numbers each mean is of, where that is known.
    """

    name: str
    label: str
    x: Sequence[float]
    mean: Sequence[float]
    se: Sequence[float]
    dashed: bool = False
    n: Sequence[int | None] = ()

    @classmethod
    def of(cls, rows: Iterable[Row], x: str, name: str, label: str, dashed: bool = False, **where: Any) -> Self:
        """The line through the means of rows (of a summary, or of curves) against one of their columns.

        Args:
            rows: Those of several lines.
            x: The column of the x axis.
            name, label, dashed: As in :class:`Series`.
            where: Column → the value that the rows of this line have in it.
        """
        chosen = (r for r in rows if r["mean"] is not None and all(r[k] == v for k, v in where.items()))
        points = sorted(chosen, key=lambda r: r[x])
        at, mean, se = ([r[x] for r in points], [r["mean"] for r in points], [r["se"] or 0.0 for r in points])
        return cls(name, label, at, mean, se, dashed, [r.get("n") for r in points])


@dataclass(frozen=True)
class Chart:
    """A line chart.

    Args:
        file: Name of its file, without ending.
        title: What it shows, as a sentence.
        x, y: Axis labels.
        series: The lines.
        reading: How to read it, in a sentence or two.
        chance: Where guessing lies.
        limits: Range of the y axis.
        ticks: Values to mark on the x axis; even steps by default.
    """

    file: str
    title: str
    x: str
    y: str
    series: Sequence[Series]
    reading: str
    chance: float | None = None
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] = field(default_factory=tuple)


@dataclass(frozen=True)
class Panel:
    """One of several line charts side by side.

    Args:
        title: What it shows.
        series: The lines.
        remark: A few words written into it.
        y: Label of a y axis of its own; by default all panels share one.
        limits: Range of its own y axis.
        logarithmic: Whether its own y axis is.
        level: Where to draw a thin line across its own y axis.
    """

    title: str
    series: Sequence[Series]
    remark: str = ""
    y: str = ""
    limits: tuple[float, float] | None = None
    logarithmic: bool = False
    level: float | None = None


@dataclass(frozen=True)
class Panels:
    """Line charts side by side, with the same axes (unless a panel has its own y axis) and one legend for all.

    Args:
        file, title, x, y, reading, chance, limits: As in :class:`Chart`; for panels that share the y axis.
        panels: The charts.
        columns: How many in a row.
    """

    file: str
    title: str
    x: str
    y: str
    panels: Sequence[Panel]
    reading: str
    columns: int = 4
    chance: float | None = None
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Triangle:
    """A quantity over the probability simplex.

    Args:
        label: What it is a triangle of.
        rows: For each point a row with the mixture (``p_u1, p_r, p_s``) and ``mean, se, n``; a mean of ``None`` where there
            is nothing to average.
    """

    label: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Triangles:
    """Rows of triangles with one colour scale for all.

    Args:
        file, title, reading: As in :class:`Chart`.
        rows: Label of the row → its triangles.
        limits: Ends of the colour scale.
    """

    file: str
    title: str
    rows: Mapping[str, Sequence[Triangle]]
    reading: str
    limits: tuple[float, float] = (0.5, 1.0)


@dataclass(frozen=True)
class Ranks:
    """One metric of several methods.

    Args:
        title: What the metric is called.
        rows: Method → a row of the summary (``mean, se, n, paper``), or nothing.
        chance: Where guessing lies.
    """

    title: str
    rows: Mapping[str, Row | None]
    chance: float | None = None


@dataclass(frozen=True)
class Bars:
    """Means with their spread: a row for each method, side by side a panel for each metric.

    Args:
        file, title, reading: As in :class:`Chart`.
        methods: The rows, from the top.
        panels: The metrics.
        spread: What is drawn to both sides of a mean: its 95 % interval by Student's t, or its standard error.
        over: What mean and spread are over.
        reference: The method whose mean is a thin line through its panel.
        kinds: A row that is no method → the method whose colour it has.
    """

    file: str
    title: str
    methods: Sequence[str]
    panels: Sequence[Ranks]
    reading: str
    spread: Literal["interval", "error"] = "interval"
    over: str = "seeds"
    reference: str = "vanilla"
    kinds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        file: str,
        title: str,
        columns: Mapping[str, str],
        summary: Iterable[Row],
        who: Iterable[str],
        chance: Mapping[str, float] | None = None,
        **more: Any,
    ) -> Self:
        """A panel for each metric, a row for each method that has a mean of any of them.

        Args:
            file, title: As in :class:`Bars`.
            columns: A panel's title → metric.
            summary: Rows of the summary that the figure is made from.
            who: The methods, in order.
            chance: A panel's title → where guessing lies.
            more: ``reading``, ``spread``, ``over``, ``reference`` and ``kinds``.
        """
        rows_of = {(row["method"], row["metric"]): row for row in summary if row["mean"] is not None}
        methods = [method for method in who if any((method, metric) in rows_of for metric in columns.values())]
        panels = [
            Ranks(name, {method: rows_of.get((method, metric)) for method in methods}, (chance or {}).get(name))
            for name, metric in columns.items()
        ]
        return cls(file, title, methods, panels, **more)


@dataclass(frozen=True)
class HeatMap:
    """A quantity over two settings, or over the coordinates of a picture.

    Args:
        title: What it shows.
        rows, columns: Their labels, from the top and from the left.
        cells: For each row, for each column, a row of the summary (``mean, se, n``), or nothing.
        outlined: Row and column of the cells to outline, counted from 0.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[Row | None]]
    outlined: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class HeatMaps:
    """Heat maps side by side with one colour scale.

    Args:
        file, title, x, reading: As in :class:`Chart`.
        maps: The heat maps. Where all have the same rows, only the first of a line has labels for them.
        y: Label of the y axes, where the labels of the rows do not say what they are.
        limits: Ends of the colour scale.
        numbers: Whether every cell has its mean written into it.
    """

    file: str
    title: str
    x: str
    maps: Sequence[HeatMap]
    reading: str
    y: str = ""
    limits: tuple[float, float] = (0.5, 1.0)
    numbers: bool = True


Figure = Chart | Panels | Triangles | Bars | HeatMaps


@dataclass(frozen=True)
class Table:
    """A table with a row for each method, or whatever else is compared.

    Args:
        title: What its numbers are.
        columns: Their headings.
        rows: Method → for each column a row of the summary (``mean, se, n, paper``), or nothing.
        of: What is compared.
        note: What a reader should know about the numbers.
    """

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Row | None]]
    of: str = "method"
    note: str = ""

    @classmethod
    def of_metrics(
        cls,
        title: str,
        columns: Mapping[str, str],
        summary: Iterable[Row],
        who: Iterable[str],
        by: str = "method",
        **more: str,
    ) -> Self:
        """A column for each metric, a row for each of those named.

        Args:
            title: What its numbers are.
            columns: Heading → metric.
            summary: Rows of the summary that the table is made from.
            who: What is compared, in order.
            by: The column of the summary that names it.
            more: ``of`` and ``note``.
        """
        rows_of = {(row[by], row["metric"]): row for row in summary}
        rows = {name: [rows_of.get((name, metric)) for metric in columns.values()] for name in who}
        return cls(title, list(columns), rows, **more)
