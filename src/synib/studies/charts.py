"""The content of figures and tables, independent of how they are drawn."""

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
    """The name of a method in figures."""
    return LABELS.get(method, method)


def band(seeds: int) -> str:
    """What the band around a line shows, as a sentence."""
    return f"The band is ± one standard error over {seeds} seeds." if seeds > 1 else "One seed: no standard errors."


@dataclass(frozen=True)
class Series:
    """A line with its spread.

    Args:
        name: The method, or another role with its own colour.
        label: Its label in the legend.
        x, mean, se: Points, and the standard error of each.
        dashed: Draw it dashed.
        n: The number of values behind each mean, if known.
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
            rows: The rows of several lines.
            x: The column of the x axis.
            name, label, dashed: As in :class:`Series`.
            where: Column → its value in the rows of this line.
        """
        chosen = (r for r in rows if r["mean"] is not None and all(r[k] == v for k, v in where.items()))
        points = sorted(chosen, key=lambda r: r[x])
        at, mean, se = ([r[x] for r in points], [r["mean"] for r in points], [r["se"] or 0.0 for r in points])
        return cls(name, label, at, mean, se, dashed, [r.get("n") for r in points])


@dataclass(frozen=True)
class Chart:
    """A line chart.

    Args:
        file: Name of its file, without extension.
        title: What it shows, as a sentence.
        x, y: Axis labels.
        series: The lines.
        reading: How to read it, in one or two sentences.
        chance: The chance level.
        limits: Range of the y axis.
        ticks: Values to mark on the x axis; equidistant by default.
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
        remark: A few words written into the panel.
        y: Label of a separate y axis; by default all panels share one.
        limits: Range of its separate y axis.
        logarithmic: Whether its separate y axis is logarithmic.
        level: Position of a thin line across its separate y axis.
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
    """Line charts side by side, with the same axes (unless a panel has a separate y axis) and one legend for all.

    Args:
        file, title, x, y, reading, chance, limits: As in :class:`Chart`; for panels that share the y axis.
        panels: The charts.
        columns: Number of panels in a row.
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
        label: The quantity of the triangle.
        rows: For each point a row with the mixture (``p_u1, p_r, p_s``) and ``mean, se, n``; the mean is ``None`` if
            there is nothing to average.
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
        title: Name of the metric.
        rows: Method → a row of the summary (``mean, se, n, paper``), or nothing.
        chance: The chance level.
    """

    title: str
    rows: Mapping[str, Row | None]
    chance: float | None = None


@dataclass(frozen=True)
class Bars:
    """Means with their spread: one row per method, one panel per metric.

    Args:
        file, title, reading: As in :class:`Chart`.
        methods: The rows, from the top.
        panels: The metrics.
        spread: The spread around a mean: its 95 % confidence interval by Student's t, or its standard error.
        over: The repeats behind mean and spread.
        reference: The method whose mean is drawn as a thin line through its panel.
        kinds: A row that is not a method → the method whose colour it has.
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
        """One panel per metric, one row per method that has a mean of any of them.

        Args:
            file, title: As in :class:`Bars`.
            columns: Title of a panel → metric.
            summary: Rows of the summary for the figure.
            who: The methods, in order.
            chance: Title of a panel → chance level.
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
    """A table with one row per method, or other compared items.

    Args:
        title: What its values are.
        columns: The headings.
        rows: Method → for each column a row of the summary (``mean, se, n, paper``), or nothing.
        of: What is compared.
        note: What a reader should know about the values.
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
        """A table with one column per metric and one row per compared item.

        Args:
            title: What its values are.
            columns: Heading → metric.
            summary: Rows of the summary for the table.
            who: The compared items, in order.
            by: The column of the summary that names them.
            more: ``of`` and ``note``.
        """
        rows_of = {(row[by], row["metric"]): row for row in summary}
        rows = {name: [rows_of.get((name, metric)) for metric in columns.values()] for name in who}
        return cls(title, list(columns), rows, **more)
