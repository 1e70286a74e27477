"""Line charts: the part shared by both renderers."""

from collections.abc import Iterable

from synib.studies.charts import Series

MAX_MARKED = 12  # points of a line up to which each has a marker

LineKey = tuple[str, str, bool]


def line_key(series: Series) -> LineKey:
    """Lines with the same key share an entry of the legend."""
    return series.label, series.name, series.dashed


def has_markers(lines: Iterable[Series]) -> bool:
    """Whether all lines have few enough points to mark each."""
    return max((len(series.x) for series in lines), default=0) <= MAX_MARKED


def band(series: Series) -> tuple[list[float], list[float]]:
    """One standard error below and above the means."""
    low = [mean - se for mean, se in zip(series.mean, series.se, strict=True)]
    high = [mean + se for mean, se in zip(series.mean, series.se, strict=True)]
    return low, high
