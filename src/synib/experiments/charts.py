"""What a figure shows, without saying how it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """A line with its spread.

    Args:
        name: The method, or another role that has a colour of its own.
        label: What the legend calls it.
        x, mean, se: Points, and the standard error of each.
        dashed: Draw it dashed.
    """

    name: str
    label: str
    x: Sequence[float]
    mean: Sequence[float]
    se: Sequence[float]
    dashed: bool = False


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
