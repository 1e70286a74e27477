"""Gaussian and zero fills beside swapped values, form by form: synergy at test, with the settings of the task's own rule.

    cd docs/results
    python ../../benchmarks/fair_fills.py digits-modulo-3 digits digits-halves pid-xor irony --out fair/fills.csv

The forms with swapped values are those of ``fair/<task>`` (``SWAPS`` names the exceptions), the others those of
``fair-fills/<task>``. The table printed has one
line for each form; the means below it are over forms.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from synib.files import read_csv, write_csv

OTHERS = ("Gaussian", "zeros")
SWAPPED = "swapped"
SWAPS = {"digits-halves": "fair-halves", "irony": "fair-irony"}


def beside(task: str, root: Path = Path()) -> list[dict[str, Any]]:
    """For each form with another fill: its synergy accuracy, that of the same form with swapped values, and the difference."""
    rows = {
        row["form"]: row
        for run in (SWAPS.get(task, "fair"), "fair-fills")
        for row in read_csv(root / run / task / "summary.csv")
        if row["selection"] == "accuracy" and row["metric"] == "synergy"
    }
    found = []
    for form, row in rows.items():
        for fill in OTHERS:
            if fill in form:
                swapped = rows[form.replace(fill, SWAPPED)]
                name = form.replace(f", {fill}", "")
                scores = {
                    "synergy": row["mean"],
                    "se": row["se"],
                    "swapped": swapped["mean"],
                    "swapped_se": swapped["se"],
                }
                found.append(
                    {"task": task, "form": name, "fill": fill, **scores, "difference": row["mean"] - swapped["mean"]}
                )
    return found


def printed(rows: Sequence[dict[str, Any]], tasks: Sequence[str]) -> str:
    """The rows as a table, and the mean differences."""
    lines = [f"| form | fill | {' | '.join(tasks)} |", f"|---|---|{'---|' * len(tasks)}"]
    for form, fill in dict.fromkeys((row["form"], row["fill"]) for row in rows):
        own = {row["task"]: row for row in rows if (row["form"], row["fill"]) == (form, fill)}
        cells = [f"{own[task]['synergy']:.3f} ({own[task]['swapped']:.3f})" for task in tasks]
        lines.append(f"| {form} | {fill} | {' | '.join(cells)} |")
    for task in tasks:
        for words, start in (("all forms", ""), ("SynIB", "SynIB")):
            differences = [
                r["difference"]
                for r in rows
                if r["task"] == task and r["form"].startswith(start) and r["fill"] != "zeros"
            ]
            above = f"{sum(d > 0 for d in differences)} of {len(differences)} above 0"
            lines.append(f"{task}, Gaussian, {words}: mean {fmean(differences):+.3f}, {above}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [row for task in options.tasks for row in beside(task)]
    write_csv(options.out, [{k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in rows])
    print(printed(rows, options.tasks))


if __name__ == "__main__":
    main()
