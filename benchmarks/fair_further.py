"""Family R of the fair comparison's plan: the recipe with learned masks over the further forms, in synergy accuracy at test.

    cd docs/results && python ../../benchmarks/fair_further.py fair/digits fair/digits-modulo-3 --others fair-rivals/digits
        fair-rivals/digits-modulo-3 --out fair/claims-further.csv

The further forms are those that are not in the first table: four rivals, and the forms with Gaussian or zero fills, on each of
two tasks. Leads are paired by test speaker (seeds of one speaker are averaged first), with 95 % corrected resampled t
intervals. Holm's adjustment is over all leads of the plan: one whose form has not been trained counts as p = 1.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from synib.files import read_csv, write_csv
from synib.measure import interval
from synib.measure.stats import holm, resampled_p_value
from synib.studies.fair.catalogue import RECIPE
from synib.studies.fair.tasks import FAIRNESS

PLANNED = 36
COLUMNS = ("task", "form", "lead", "low", "high", "n", "unit", "p", "p_holm")
Scores = dict[tuple[str, str], dict[int, list[float]]]


def by_unit(folders: list[Path]) -> Scores:
    """Task and form → unit → synergy accuracy of its seeds, with the settings of the task's own rule."""
    scores: Scores = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for row in read_csv(folder / "results.csv"):
            if row["selection"] == "accuracy":
                unit = FAIRNESS[row["task"]].of_seed(row["seed"])
                scores[row["task"], row["form"]][unit].append(row["synergy"])
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="runs with the recipe")
    parser.add_argument("--others", type=Path, nargs="+", required=True, help="runs with further forms")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    recipe = by_unit(options.folders)
    lines: list[dict[str, Any]] = []
    for (task, form), scores in by_unit(options.others).items():
        own = recipe[task, RECIPE]
        leads = [np.mean(own[unit]) - np.mean(other) for unit, other in scores.items()]
        lead, error, n = float(np.mean(leads)), float(np.std(leads, ddof=1) / len(leads) ** 0.5), len(leads)
        share = FAIRNESS[task].test_share
        low, high = interval(lead, error, n, test_share=share)
        p = resampled_p_value(lead, error, n, share)
        lines.append(dict(zip(COLUMNS, (task, form, lead, low, high, n, FAIRNESS[task].unit, p), strict=False)))
    missing = [1.0] * (PLANNED - len(lines))
    for line, p in zip(lines, holm([*(line["p"] for line in lines), *missing]), strict=False):
        line["p_holm"] = float(p)
    write_csv(options.out, [{k: round(v, 5) if isinstance(v, float) else v for k, v in x.items()} for x in lines])
    print("| task | recipe over | lead (95 % interval) | Holm p |\n|---|---|---|---|")
    for line in lines:
        words = f"{line['lead']:+.3f} [{line['low']:.3f}, {line['high']:.3f}]".replace("-", "−")
        print(f"| {line['task']} | {line['form']} | {words} | {line['p_holm']:.2g} |")


if __name__ == "__main__":
    main()
