"""SynIB in `synib fit` on real data: matched irony (RAVDESS), the forms of fit_recipe.py.

`fit` sees the training clips of 23 actors without the tested one (and without the three validation actors), at an irony rate of
0.5, and its model is measured on the tested actor, whose clips are ironic at a rate of 2: the AUC of irony's probability,
log-loss and accuracy over nine classes. Differences are paired by actor, with 95 % corrected resampled t intervals. A run
that was stopped goes on where it was.

    python benchmarks/fit_irony.py --root DATA --out FILE.csv [--actors 1 5 9 13 17 21] [--only FORM ...]
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fit_recipe import FORMS, registered

import synib
from synib.measure.stats import interval
from synib.studies import features
from synib.studies.irony.matched import ACTORS, matched_irony
from synib.tokens import values

FIELDS = ("actor", "form", "auc", "loss", "accuracy", "seconds")
RATE = 0.5


def auc(scores: Any, positive: Any) -> float:
    """Probability that a positive example has a higher score than another one; ties count half."""
    order = np.argsort(np.argsort(scores, kind="stable"), kind="stable") + 1.0
    for value in np.unique(scores):
        order[scores == value] = order[scores == value].mean()
    n = positive.sum()
    return float((order[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


def judged(folder: str, actor: int, name: str) -> dict[str, Any]:
    data = matched_irony(folder, RATE, actor).data
    assert data.test is not None
    train, test = ({n: values(x).numpy() for n, x in s.modalities.items()} for s in (data.train, data.test))
    target, truth = data.train.target.numpy(), data.test.target.numpy()
    table = synib.Table.from_arrays(train, target, task="classification")
    form, start = FORMS[name]["three"], time.perf_counter()
    with registered(form):
        model = synib.fit(table, form.method, device="cpu", seed=actor, baselines=False, incomplete=False)
        predicted = np.asarray(model.predict(test))
    ironic = truth == target.max()
    loss = -np.log(predicted[np.arange(len(truth)), truth].clip(1e-12)).mean()
    found = auc(predicted[:, -1], ironic), float(loss), float((predicted.argmax(1) == truth).mean())
    return dict(
        zip(FIELDS, (actor, name, *(round(x, 4) for x in found), round(time.perf_counter() - start, 1)), strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default="")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 5, 9, 13, 17, 21])
    parser.add_argument(
        "--only", nargs="+", default=["before", "recipe", "before, settings of the recipe", "plain fusion"]
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = str(features.RAVDESS.find(options.root or None))
    rows: list[dict[str, Any]] = []
    if options.out.exists():
        with options.out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    for actor in options.actors:
        for name in options.only:
            if not any(int(row["actor"]) == actor and row["form"] == name for row in rows):
                rows.append(judged(folder, actor, name))
                print(*rows[-1].values(), sep="  ", flush=True)
                with options.out.open("w", newline="") as file:
                    writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)
    first = {int(row["actor"]): row for row in rows if row["form"] == options.only[0]}
    for name in options.only:
        own = {int(row["actor"]): row for row in rows if row["form"] == name}
        for column in ("auc", "loss", "accuracy"):
            x = np.array([float(row[column]) for row in own.values()])
            text = f"{name}: {column} {x.mean():.3f} ± {x.std(ddof=1) / len(x) ** 0.5:.3f}, n = {len(x)}"
            if name != options.only[0]:
                gap = np.array([float(row[column]) - float(first[actor][column]) for actor, row in own.items()])
                low, high = interval(gap.mean(), gap.std(ddof=1) / len(gap) ** 0.5, len(gap), test_share=1 / ACTORS)
                text += f"; over {options.only[0]} {gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
            print(text)


if __name__ == "__main__":
    main()
