"""Leads of forms over others in synergy accuracy at test, in families of the fair comparison's plan.

    cd docs/results
    python ../../benchmarks/fair_leads.py fair/digits fair/digits-modulo-3 fair-rivals/digits fair-rivals/digits-modulo-3
        --form recipe --over "product of experts" "learned mixin" JTT Gradient-Blending --planned 36
        --out fair/claims-further.csv
    python ../../benchmarks/fair_leads.py fair-fresh/pid-xor --form "recipe, chosen" recipe --over "confidence, annealed"
        "masked inputs, swapped, annealed" "product of experts" --planned 6 --out fair/claims-fresh.csv
    python ../../benchmarks/fair_leads.py fair/digits fair/digits-modulo-3 fair-fills/digits fair-fills/digits-modulo-3
        --form recipe --over Gaussian zeros --published fair/claims-further.csv --planned 36 --out fair/claims-fills.csv
    python ../../benchmarks/fair_leads.py fair-halves/digits-halves --form recipe --over "confidence, annealed"
        --published fair/claims-halves.csv --planned 3 --out fair/claims-halves-recipe.csv
    python ../../benchmarks/fair_leads.py fair-irony/irony --form recipe "recipe, marginal" "SynIB marginal, swapped, annealed"
        --over vanilla "confidence, annealed" --planned 6 --out fair/claims-irony.csv
    python ../../benchmarks/fair_leads.py fair/digits fair-third/digits fair/digits-modulo-3 fair-third/digits-modulo-3
        fair-halves/digits-halves fair-third/digits-halves fair-third/digits-pairs fair/pid-xor fair-third/pid-xor
        fair-irony/irony fair-third/irony --form "recipe, third round" --over vanilla "confidence, annealed"
        "masked inputs, swapped, annealed" stacked --out fair/leads-recipe.csv

Leads are paired by the unit of the task, whose seeds are averaged first, with 95 % corrected resampled t intervals (Student's t
for draws of PID-XOR). Holm's adjustment is over all leads that the plan names: one that was not run counts as p = 1. Leads of
the same family that were published before take part with their p, and keep the adjusted p that was published with them.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synib.files import read_csv, write_csv
from synib.measure import interval
from synib.measure.stats import holm, resampled_p_value
from synib.studies.fair.tasks import FAIRNESS

COLUMNS = ("task", "form", "over", "lead", "low", "high", "n", "unit", "p")
FILLS = ("Gaussian", "zeros")
Scores = dict[str, dict[str, dict[int, list[float]]]]


def by_unit(folders: list[Path]) -> Scores:
    """Task → form → unit → synergy accuracy of its seeds, with the settings of the task's own rule."""
    scores: Scores = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for folder in folders:
        for row in read_csv(folder / "results.csv"):
            if row["selection"] == "accuracy":
                scores[row["task"]][row["form"]][FAIRNESS[row["task"]].of_seed(row["seed"])].append(row["synergy"])
    return scores


def lead(task: str, form: str, rival: str, forms: dict[str, dict[int, list[float]]]) -> dict[str, Any]:
    """The mean difference over units, with its interval and p-value."""
    own, other = forms[form], forms[rival]
    if own.keys() != other.keys():
        raise SystemExit(f"{task}: {form} and {rival} were not tested on the same units.")
    leads = [float(np.mean(own[unit]) - np.mean(other[unit])) for unit in own]
    mean, low, high, p = mean_of(leads, FAIRNESS[task].test_share)
    return dict(zip(COLUMNS, (task, form, rival, mean, low, high, len(leads), FAIRNESS[task].unit, p), strict=True))


def mean_of(leads: Sequence[float], share: float | None) -> tuple[float, float, float, float]:
    """The mean of leads, one for each unit, its interval, and its p-value.

    Args:
        leads: The differences.
        share: The fraction of units in a test set; ``None`` if units share no training data.
    """
    mean, error, n = float(np.mean(leads)), float(np.std(leads, ddof=1) / len(leads) ** 0.5), len(leads)
    return mean, *interval(mean, error, n, test_share=share), resampled_p_value(mean, error, n, share)


def named(over: Sequence[str], forms: Iterable[str]) -> list[str]:
    """The rivals; the name of a fill stands for all forms that use it."""
    return [form for name in over for form in ([f for f in forms if name in f] if name in FILLS else [name])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--form", nargs="+", required=True)
    parser.add_argument("--over", nargs="+", required=True, help='forms; "Gaussian" and "zeros" are all with that fill')
    parser.add_argument("--published", type=Path, help="a table of leads of the same family")
    parser.add_argument("--planned", type=int, help="number of leads in the family, those not run included")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [
        lead(task, form, rival, forms)
        for task, forms in by_unit(options.folders).items()
        for form in options.form
        for rival in named(options.over, forms)
        if form in forms and rival in forms
    ]
    before = [row["p"] for row in read_csv(options.published)] if options.published else []
    missing = [1.0] * ((options.planned or len(lines) + len(before)) - len(lines) - len(before))
    for line, p in zip(lines, holm([*(line["p"] for line in lines), *before, *missing]), strict=False):
        line["p_holm"] = float(p)
    write_csv(options.out, [{k: round(v, 5) if isinstance(v, float) else v for k, v in x.items()} for x in lines])
    print("| task | form | over | lead (95 % interval) | Holm p |\n|---|---|---|---|---|")
    for line in lines:
        words = f"{line['lead']:+.3f} [{line['low']:.3f}, {line['high']:.3f}]".replace("-", "−")
        print(f"| {line['task']} | {line['form']} | {line['over']} | {words} | {line['p_holm']:.2g} |")


if __name__ == "__main__":
    main()
