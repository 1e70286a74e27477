"""The recipe of the sixth run at test: beside its tuned self, the best form of SynIB and the former recipe; and its claims.

    python benchmarks/one_recipe.py --results docs/results

writes ``fair/one-recipe.csv``, a line for each task (matched irony: for each rate), and ``fair/claims-one-recipe.csv``, leads
of family N of ``fair/PLAN.md``: paired by the unit of the task, 95 % corrected resampled t intervals (Student's t for draws of
PID-XOR), p-values adjusted together (Holm). ``fair/figure-one-recipe.svg`` shows the first table. All numbers are read from the
``results.csv`` of the runs.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib.pyplot as plt
from fair_leads import mean_of

from synib.files import read_csv, write_csv
from synib.measure.stats import holm
from synib.studies.fair.catalogue import CHOSEN_RECIPE, NO_CUES, THIRD_RECIPE
from synib.studies.fair.tasks import FAIRNESS
from synib.studies.irony.matched import ACTORS

# Task → its runs. All forms of a task were tested on the same seeds.
RUNS: dict[str, tuple[str, ...]] = {
    "digits": ("fair/digits", "fair-fills/digits", "fair-rivals/digits", "fair-chosen/digits", "fair-third/digits"),
    "digits-modulo-3": (
        "fair/digits-modulo-3", "fair-fills/digits-modulo-3", "fair-rivals/digits-modulo-3", "fair-chosen/digits-modulo-3",
        "fair-third/digits-modulo-3",
    ),
    "digits-halves": (
        "fair-halves/digits-halves", "fair-fills/digits-halves", "fair-rivals/digits-halves", "fair-chosen/digits-halves",
        "fair-third/digits-halves",
    ),
    "digits-pairs": ("fair-third/digits-pairs",),
    "pid-xor": ("fair/pid-xor", "fair-fills/pid-xor", "fair-rivals/pid-xor", "fair-chosen/pid-xor", "fair-third/pid-xor"),
    "pid-xor, fresh": ("fair-fresh-third/pid-xor",),
    "digits-tokens": ("attention", "attention-third/digits"),
    "irony": ("fair-irony/irony", "fair-fills/irony", "fair-rivals/irony", "fair-third/irony"),
    "irony-matched": ("irony-forms", "irony-third/irony-matched"),
}  # fmt: skip
CHANCE = {"digits-modulo-3": 1 / 3}
RECIPES = {"irony-matched": ("SynIB recipe, third round", "SynIB recipe")}
TUNED = ("SynIB whole, swapped, annealed", "SynIB whole, swapped")  # what the recipe is when its weight is tuned
CONFIDENCE, MASKED = "confidence, annealed", "masked inputs, swapped, annealed"
# Task (and rate) → rivals over which a lead was claimed.
CLAIMS: dict[str, tuple[str, ...]] = {
    "digits-pairs": ("vanilla", CONFIDENCE, MASKED),
    "pid-xor, fresh": (CONFIDENCE, "product of experts"),
    "irony-matched, α = 0.1": ("vanilla", CONFIDENCE, "D&R"),
    "irony-matched, α = 0.5": ("vanilla", CONFIDENCE, "D&R"),
    "digits-tokens": ("vanilla", CONFIDENCE),
}
Scores = dict[str, dict[int, float]]  # form → seed → synergy accuracy, or AUC of irony


def read(results: Path) -> dict[str, Scores]:
    """Task (matched irony: and rate) → the scores of all its forms, with the settings of the task's own rule."""
    found: dict[str, Scores] = defaultdict(lambda: defaultdict(dict))
    for task, folders in RUNS.items():
        for folder in folders:
            for row in read_csv(results / folder / "results.csv"):
                if row.get("selection", "accuracy") == "accuracy":
                    name = f"{task}, α = {row['alpha']:g}" if "alpha" in row else task
                    score = row["irony_auc"] if "alpha" in row else row["synergy"]
                    found[name][row["form"]][row["seed"]] = score
    return found


def best(scores: Scores, names: Sequence[str]) -> str | None:
    """The form with the highest mean, of those that were run."""
    return max((name for name in names if name in scores), key=lambda name: fmean(scores[name].values()), default=None)


def line(name: str, scores: Scores) -> dict[str, Any]:
    """The recipe beside other forms."""
    task = name.partition(", ")[0]
    recipe, former = RECIPES.get(task, (THIRD_RECIPE, CHOSEN_RECIPE))
    mean = {form: fmean(own.values()) for form, own in scores.items()}
    ours = [form for form in scores if form.startswith(("SynIB", "recipe")) and form not in (recipe, former)]
    tuned, other = best(scores, TUNED), best(scores, ours)
    chance, ceiling = CHANCE.get(task, 0.5), mean.get(NO_CUES)
    own = list(scores[recipe].values())
    assert other is not None
    row: dict[str, Any] = {
        "task": name,
        "n": len(own),
        "plain fusion": mean["vanilla"],
        "recipe": mean[recipe],
        "standard error": stdev(own) / len(own) ** 0.5,
        "ceiling": ceiling,
        "share": None if ceiling is None else (mean[recipe] - chance) / (ceiling - chance),
        "former recipe": mean.get(former),
        "tuned self": tuned,
        "its score": None if tuned is None else mean[tuned],
        "behind it": None if tuned is None else mean[tuned] - mean[recipe],
        "best other form": other,
        "its synergy": mean[other],
    }
    top = max(mean[form] for form in (other, former) if form in mean)
    row |= {"shortfall": top - mean[recipe]}
    highest = max(mean[other], mean[recipe])
    return row | {"shortfall of the former": None if former not in mean else highest - mean[former]}


def lead(name: str, rival: str, scores: Scores) -> dict[str, Any]:
    """The mean difference from a rival over the units of a task, with its interval and p-value."""
    task = name.partition(", ")[0]
    recipe = RECIPES.get(task, (THIRD_RECIPE,))[0]
    by_unit: dict[int, list[float]] = defaultdict(list)
    fairness = FAIRNESS.get("digits" if task == "digits-tokens" else task)
    for seed, score in scores[recipe].items():
        unit = seed if fairness is None else fairness.of_seed(seed)
        by_unit[unit].append(score - scores[rival][seed])
    leads = [fmean(own) for own in by_unit.values()]
    share = 1 / ACTORS if fairness is None else fairness.test_share
    mean, low, high, p = mean_of(leads, share)
    unit_name = "actor" if fairness is None else fairness.unit
    return {
        "task": name,
        "over": rival,
        "lead": mean,
        "low": low,
        "high": high,
        "n": len(leads),
        "unit": unit_name,
        "p": p,
    }


def figure(table: Sequence[dict[str, Any]], path: Path) -> None:
    """The recipe on each line, beside plain fusion, the former recipe, the best other form and the ceiling."""
    plt.rcParams.update({"svg.hashsalt": "synib", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10})
    drawn, axes = plt.subplots(figsize=(7.6, 5.6), layout="constrained")
    places = list(range(len(table)))[::-1]
    for row, y in zip(table, places, strict=True):
        if row["ceiling"] is not None:
            axes.plot([row["ceiling"]] * 2, [y - 0.35, y + 0.35], color="#444", linewidth=2)
        axes.plot([row["plain fusion"], row["recipe"]], [y, y], color="#bbb", linewidth=1, zorder=1)
        axes.errorbar(row["recipe"], y, xerr=row["standard error"], color="#1b6ca8", elinewidth=2.5, zorder=3)
    columns = {
        "plain fusion": ("o", "#888", "white", "plain fusion"),
        "its synergy": ("d", "#c2571a", "white", "best other form of SynIB at test"),
        "former recipe": ("s", "#7a4e9e", "white", "former recipe, learned masks"),
        "recipe": ("o", "#1b6ca8", "#1b6ca8", "the recipe, ± one standard error"),
    }
    for name, (marker, colour, face, words) in columns.items():
        axes.plot(
            [row[name] for row in table], places, marker, color=colour, markerfacecolor=face, label=words, zorder=4
        )
    axes.plot([], [], "|", color="#444", markersize=12, markeredgewidth=2, label="ceiling: trained without cues")
    axes.set_yticks(places, [row["task"] for row in table])
    axes.set_xlabel("synergy accuracy at test; irony: AUC of irony")
    axes.set_xlim(0.3, 1.02)
    axes.grid(axis="x", color="#eee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    axes.set_title("One recipe on every task", loc="left", fontsize=11)
    drawn.savefig(path, metadata={"Date": None})


def rounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers with five digits."""
    return [{k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    found = read(options.results)
    table = [line(name, scores) for name, scores in found.items()]
    write_csv(options.results / "fair" / "one-recipe.csv", rounded(table))
    figure(table, options.results / "fair" / "figure-one-recipe.svg")
    claims = [lead(name, rival, found[name]) for name, rivals in CLAIMS.items() for rival in rivals]
    for claim, p in zip(claims, holm([claim["p"] for claim in claims]), strict=True):
        claim["p_holm"] = float(p)
    # p-values may be far below the fifth digit.
    write_csv(
        options.results / "fair" / "claims-one-recipe.csv",
        [
            own | {k: f"{claim[k]:.3g}" for k in ("p", "p_holm")}  # not rounded to six decimals
            for own, claim in zip(rounded(claims), claims, strict=True)
        ],
    )
    for row in table:
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    for claim in claims:
        ends = f"[{claim['low']:.3f}, {claim['high']:.3f}]"
        print(f"{claim['task']} over {claim['over']}: {claim['lead']:+.3f} {ends}, Holm p {claim['p_holm']:.2g}")


if __name__ == "__main__":
    main()
