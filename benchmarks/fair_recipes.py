"""The third round of candidates for one recipe: synergy on development data of five tasks, shortfalls, and the choice.

    python benchmarks/fair_recipes.py docs/results/fair-recipes-third --out docs/results/fair/recipes-third.csv

The folder has a run of ``synib reproduce fair-recipes`` for each task. A shortfall is how far the synergy accuracy (AUC of
irony) of a recipe is behind the best of its task; the rule is that of ``docs/results/fair/PLAN.md``.
"""

import argparse
from pathlib import Path
from typing import Any, cast

from synib.files import read_csv, write_csv
from synib.studies import FairRecipes, load
from synib.studies.base import Row
from synib.studies.fair.recipes import DEVELOPMENT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    summary: list[Row] = []
    forms: tuple[str, ...] = ()
    for task in DEVELOPMENT:
        folder = options.folder / task
        run = cast(FairRecipes, load(folder))
        summary += run.summary(read_csv(folder / "results.csv"))
        forms = run.form
    # The number of seeds decides only whether a candidate counts as failed, which the runs' own summaries show.
    every = FairRecipes(form=forms, seeds=min(row["n"] for row in summary))
    scores, found = every.scores(summary), every.conclusions(summary)["recipe"]
    table: list[dict[str, Any]] = []
    for form, behind in sorted(found["shortfalls"].items(), key=lambda item: max(item[1].values())):
        row: dict[str, Any] = {"recipe": form, "chosen": form == found["chosen"]}
        for task in DEVELOPMENT:
            own = scores[task][form]
            row |= {
                task: round(own["mean"], 4),
                f"{task} se": round(own["se"], 4),
                f"{task} shortfall": round(behind[task], 4),
            }
        table.append(row | {"largest shortfall": round(max(behind.values()), 4)})
    write_csv(options.out, table)
    for row in table:
        print(f"{row['recipe']}: {row['largest shortfall']:.3f}{' (chosen)' * row['chosen']}")


if __name__ == "__main__":
    main()
