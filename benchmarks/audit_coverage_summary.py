"""Tables of a coverage study, from the CSVs that audit_coverage.py writes: false claims, coverage and power, as Markdown.

Intervals are 95 % score intervals (Wilson). A set counts as covered if the interval of plain fusion's metric and that of its
true value, measured on fresh rows, overlap as those of two independent estimates should: the difference of both is within the
root of the sum of their squared half widths.

    python benchmarks/audit_coverage_summary.py FILE.csv [FILE.csv ...]
"""

import argparse
import csv
import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from synib.measure.stats import proportion

FACTORS = ("rows", "width", "target", "balance", "units", "modalities", "kind")
BOUNDS = (0.0, 0.02, 0.05, 0.1, 0.2, 1.0)  # of what an interaction is worth, in the metric
Row = dict[str, Any]


def read(paths: Iterable[str]) -> list[Row]:
    """All sets that were audited to the end."""
    rows: list[Row] = []
    for path in paths:
        with open(path, newline="") as text:
            rows += [row for row in csv.DictReader(text) if not row["error"]]
    return rows


def share(rows: list[Row], holds: Callable[[Row], bool]) -> str:
    """How often, of how many, with an interval."""
    hits = np.array([holds(row) for row in rows], dtype=float)
    interval = proportion(hits)
    return f"{int(hits.sum())} of {len(hits)} | {100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def claimed(row: Row) -> bool:
    return bool(row["synergy"] == "present")


def covered(row: Row) -> bool:
    low, high, true, half = (float(row[name]) for name in ("vanilla_low", "vanilla_high", "true_vanilla", "true_half"))
    return abs((low + high) / 2 - true) <= math.hypot((high - low) / 2, half)


def by_level(rows: list[Row], holds: Callable[[Row], bool], factors: Iterable[str]) -> None:
    print("| factor | level | sets | 95 % interval |\n|---|---|---|---|")
    print(f"| all | | {share(rows, holds)} |")
    for factor in factors:
        levels = sorted({row[factor] for row in rows}, key=lambda x: (len(x), x))
        for level in levels if len(levels) > 1 else ():
            print(f"| {factor} | {level} | {share([row for row in rows if row[factor] == level], holds)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    rows = read(parser.parse_args().files)
    without = [row for row in rows if float(row["strength"]) == 0]
    if without:
        print("\nSets without an interaction that are called `present`\n")
        by_level(without, claimed, FACTORS)
    known = [row for row in rows if row.get("true_vanilla")]
    if known:
        print("\nIntervals of plain fusion's metric that cover its true value\n")
        by_level(known, covered, ("metric", "units", "rows"))
    interacting = [row for row in rows if float(row["strength"]) > 0]
    if interacting:
        print("\nSets with an interaction that are called `present`, by what it is worth\n")
        print("| worth | kind | sets | 95 % interval |\n|---|---|---|---|")
    for low, high in pairwise(BOUNDS):
        for kind in sorted({row["kind"] for row in interacting}):
            some = [row for row in interacting if row["kind"] == kind and low <= float(row["worth"]) < high]
            if some:
                print(f"| {100 * low:.0f} to {100 * high:.0f} points | {kind} | {share(some, claimed)} |")


if __name__ == "__main__":
    main()
