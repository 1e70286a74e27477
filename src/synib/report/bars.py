"""Means of several methods with their spread: the part shared by both renderers."""

from synib.measure import interval
from synib.studies.charts import Bars, Ranks, Row, label

SPREADS = {"interval": "with 95 % confidence interval", "error": "± standard error"}


def legend_notes(bars: Bars) -> dict[str, str]:
    """Entries of the legend → the kind of line or marker."""
    rows = [row for panel in bars.panels for method in bars.methods if (row := row_of(panel, method))]
    notes = {f"mean over {bars.over} {SPREADS[bars.spread]}": ""}
    if any(row.get("paper") is not None for row in rows):
        notes["paper"] = "diamond"
    if any(row_of(panel, bars.reference) for panel in bars.panels):
        notes[label(bars.reference)] = "line"
    if any(panel.chance is not None for panel in bars.panels):
        notes["chance"] = "dotted"
    return notes


def row_of(panel: Ranks, method: str) -> Row | None:
    """The row of a method, if it has a mean."""
    row = panel.rows.get(method)
    return row if row is not None and row["mean"] is not None else None


def spread_ends(row: Row, spread: str) -> tuple[float, float] | None:
    """Both ends of the spread: the interval of the row (``low, high``) if it has one; none for a single value."""
    mean, se = row["mean"], row.get("se")
    if row.get("low") is not None and spread == "interval":
        return row["low"], row["high"]
    if se is None:
        return None
    return interval(mean, se, row["n"]) if spread == "interval" else (mean - se, mean + se)


def is_synib(method: str, bars: Bars) -> bool:
    """Whether a row is highlighted: those of SynIB, also in its forms."""
    method = bars.kinds.get(method, method)
    return method == "experts" or method.startswith("synib")


def style_name(method: str, bars: Bars) -> str:
    """The name that determines the colour of a row."""
    method = bars.kinds.get(method, method)
    family = method.partition("-")[0]
    return family if family in ("unimodal", "products") else method
