"""Tables of a coverage study, from the CSVs that audit_coverage.py writes, as Markdown:

- false claims of `present` among sets without an interaction;
- intervals of plain fusion's metric that cover its true value;
- false `absent`: an interaction that is worth more than the size that the verdict states;
- whether the stated power is right: how often an interaction is found that is worth at least the size said to be detected with
  80 % power (of the same kind);
- power by what an interaction is worth, and by kind, strength, rows and width.

All with 95 % score intervals (Wilson), for each level of each factor. A set counts as covered if the interval of plain
fusion's metric and that of its true value, measured on fresh rows, overlap as those of two independent estimates should: the
difference of both is within the root of the sum of their squared half widths.

    python benchmarks/audit_coverage_summary.py FILE.csv [FILE.csv ...]
"""

import argparse
import csv
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from synib.measure.stats import proportion

FACTORS = ("rows", "width", "target", "balance", "units", "modalities", "kind")
KINDS = ("product", "lookup", "gate")
LEAST = 0.02  # of the metric: no smaller size is stated
BOUNDS = (0.0, 0.02, 0.05, 0.1, 0.2, 1.0)  # of what an interaction is worth, in the metric
HEAD = "| factor | level | sets | share | 95 % interval |\n|---|---|---|---|---|"
Row = dict[str, Any]


def read(paths: Iterable[str]) -> list[Row]:
    """All sets that were audited to the end."""
    rows: list[Row] = []
    for path in paths:
        with open(path, newline="") as text:
            rows += [row for row in csv.DictReader(text) if not row["error"]]
    return rows


def share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    """How often, of how many, the share, and its interval."""
    hits = np.array([holds(row) for row in rows], dtype=float)
    interval = proportion(hits)
    of = f"{int(hits.sum())} of {len(hits)} | {100 * interval.value:.1f} %"
    return f"{of} | {100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def claimed(row: Row) -> bool:
    return bool(row["synergy"] == "present")


def covered(row: Row) -> bool:
    low, high, true, half = (float(row[name]) for name in ("vanilla_low", "vanilla_high", "true_vanilla", "true_half"))
    return abs((low + high) / 2 - true) <= math.hypot((high - low) / 2, half)


def standardised(row: Row) -> float:
    """The error of plain fusion's metric, in standard errors of the difference of both estimates."""
    low, high, true, half = (float(row[name]) for name in ("vanilla_low", "vanilla_high", "true_vanilla", "true_half"))
    return 1.96 * (float(row["vanilla"]) - true) / math.hypot((high - low) / 2, half)


def detectable(row: Row, kind: str) -> float | None:
    """The size of a kind of interaction that is said to be detected with 80 % power, in the metric."""
    try:
        return float(row.get(f"detectable_{kind}") or "nan")
    except ValueError:
        return None  # no size would be


def stated(row: Row) -> float | None:
    """The size that an `absent` verdict rules out, for all kinds."""
    sizes = [detectable(row, kind) for kind in KINDS]
    if any(size is None or math.isnan(size) for size in sizes):
        return None
    return max(LEAST, *(size for size in sizes if size is not None))


def falsely_absent(row: Row) -> bool:
    """Whether an interaction is called absent that is worth more than the size that the verdict states."""
    size = stated(row)
    return row["synergy"] == "absent" and size is not None and float(row["worth"]) > size


def enough(row: Row) -> bool:
    """Whether the interaction is worth at least what is said to be detected, for its kind."""
    size = detectable(row, row["kind"]) if row["kind"] in KINDS else None
    return size is not None and not math.isnan(size) and float(row["worth"]) >= size


def by_level(rows: Sequence[Row], holds: Callable[[Row], bool], factors: Iterable[str]) -> None:
    print(f"{HEAD}\n| all | | {share(rows, holds)} |")
    for factor in factors:
        levels = sorted({row[factor] for row in rows}, key=lambda x: (len(x), x))
        for level in levels if len(levels) > 1 else ():
            print(f"| {factor} | {level} | {share([row for row in rows if row[factor] == level], holds)} |")


def by_worth(rows: Sequence[Row]) -> None:
    print("| worth | kind | sets | share | 95 % interval |\n|---|---|---|---|---|")
    for (low, high), kind in product(pairwise(BOUNDS), sorted({row["kind"] for row in rows})):
        some = [row for row in rows if row["kind"] == kind and low <= float(row["worth"]) < high]
        if some:
            print(f"| {100 * low:.0f} to {100 * high:.0f} points | {kind} | {share(some, claimed)} |")


def by_strength(rows: Sequence[Row]) -> None:
    """Power in each cell of kind, strength, rows and width, with what the interaction is worth on average."""
    print(
        "| kind | rows | width | strength | worth in points | sets | share | 95 % interval |\n|---|---|---|---|---|---|---|---|"
    )
    factors = ("kind", "rows", "width", "strength")
    levels = [
        sorted({row[name] for row in rows}, key=lambda x: (not x[0].isdigit(), len(x), x)) for name in factors[1:]
    ]
    levels[2].sort(key=float)
    for cell in product([kind for kind in KINDS if kind in {row["kind"] for row in rows}], *levels):
        some = [row for row in rows if all(row[name] == level for name, level in zip(factors, cell, strict=True))]
        if some:
            worth = 100 * float(np.mean([float(row["worth"]) for row in some]))
            print(f"| {' | '.join(cell)} | {worth:.1f} | {share(some, claimed)} |")


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
        by_level(known, covered, ("metric", *FACTORS))
        errors = [standardised(row) for row in known]
        print(f"\nStandardised errors: mean {np.mean(errors):.2f}, standard deviation {np.std(errors):.2f}.")
    interacting = [row for row in rows if float(row["strength"]) > 0]
    if not interacting:
        return
    absent = [row for row in interacting if row["synergy"] == "absent"]
    print("\nSets with an interaction that are called `absent` although it is worth more than the stated size\n")
    by_level(interacting, falsely_absent, FACTORS)
    print(f"\nOf {len(absent)} sets with an interaction that are called `absent`, it is worth more than 2 points in "
          f"{sum(float(row['worth']) > LEAST for row in absent)}.")  # fmt: skip
    able = [
        row for row in interacting if row.get("bound") and enough(row)
    ]  # not of studies that left sizes of `present` out
    if able:
        print(
            "\nSets called `present` among those whose interaction is worth at least the size said to be detected in 80 %\n"
        )
        by_level(able, claimed, FACTORS)
    print("\nSets with an interaction that are called `present`, by what it is worth\n")
    by_worth(interacting)
    print("\nSets with an interaction that are called `present`, by strength\n")
    by_strength(interacting)


if __name__ == "__main__":
    main()
