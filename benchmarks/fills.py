"""Can a probe tell a fill from data? For each task and fill the AUC of a small network that sees what the fusion sees.

One vanilla model is trained for each task and seed, and all fills are tried on it, on validation data: what differs is the fill
alone. 0.5 means that the probe cannot tell; a fill that it can tell teaches a model to recognise the fill. Tasks and data are
those of `synib reproduce forms`; test data are not looked at.

    SYNIB_DATA=DIR python benchmarks/fills.py [--seeds 3] [--task digits] [--epochs N] [--out FILE.csv]
"""

import argparse
import csv
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import synib
from synib.measure import detectability
from synib.objective import Batch, Family
from synib.studies.forms.experiment import Forms
from synib.tokens import take
from synib.training import Cell, fleet

NOISES: dict[str, type[Any]] = {
    "Gaussian": synib.StandardNoise,
    "matched": synib.MatchedNoise,
    "shuffled": synib.ShuffledNoise,
    "shuffled within class": synib.ClassShuffledNoise,
}
BATCHES = 50  # that a fill which follows the data has seen


def fills() -> Iterator[tuple[str, str, str, Callable[[Family], synib.SynIB | synib.OnLatents]]]:
    """Name of the fill, how much it replaces, where, and what makes such counterfactuals."""
    for name, noise in NOISES.items():
        for share, p in (("whole", 1.0), ("half", 0.5)):
            for space in ("inputs", "latents"):
                if p < 1 and noise is synib.ClassShuffledNoise:
                    continue  # swaps whole modalities only
                if p == 1 and noise.shuffles and space == "latents":
                    continue  # the latent of a swapped input is the swapped latent
                yield name, share, space, partial(objective, p, noise, space)


def objective(p: float, noise: type[Any], space: str, family: Family) -> synib.SynIB | synib.OnLatents:
    objective = synib.SynIB(synib.RandomMask(p), noise(), family=family)
    return objective if space == "inputs" else synib.OnLatents(objective)


def models(task: str, seeds: int, epochs: int | None) -> tuple[Forms, list[Cell], fleet.Trained]:
    """Vanilla models of the seeds on which forms are measured, not chosen."""
    experiment = Forms(task=(task,), form=("vanilla",), seeds=2 * seeds)
    cells = [c for c in experiment.cells() if c.seed >= seeds]
    middle = cells[len(cells) // 2].factors["candidate"]
    chosen = [c for c in cells if c.factors["candidate"] == middle]
    if epochs is not None:
        chosen = [replace(c, settings={**c.settings, "epochs": epochs}) for c in chosen]
    return experiment, chosen, fleet.train(experiment, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task", action="append", choices=Forms().task)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", help="also write the table there")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'task':<10}{'fill':<24}{'replaced':<10}{'in':<9}{'AUC of corrupted':>18}")
    for task in options.task or Forms().task:
        experiment, cells, trained = models(task, options.seeds, options.epochs)
        for fill, share, space, make in fills():
            aucs: list[float] = []
            for cell, learner in zip(cells, trained.learners, strict=True):
                data = experiment.data(cell)
                torch.manual_seed(cell.seed)
                objective = make(learner.method.family)
                objective.prepare(learner.model, data.train.modalities)
                for batch in torch.randperm(len(data.train)).split(64)[:BATCHES]:
                    if len(batch) > 1:
                        seen = {name: take(x, batch) for name, x in data.train.modalities.items()}
                        with torch.no_grad():
                            objective.loss(learner.model, Batch(seen, data.train.target[batch]), synib.keys.fresh())
                auc_of = detectability(
                    objective, learner.model, data.validation.modalities, data.validation.target, seed=cell.seed
                )
                aucs.append(statistics.fmean(auc_of.values()))
            spread = statistics.stdev(aucs) / len(aucs) ** 0.5 if len(aucs) > 1 else 0.0
            print(
                f"{task:<10}{fill:<24}{share:<10}{space:<9}{statistics.fmean(aucs):>10.3f} ± {spread:.3f}", flush=True
            )
            rows.append({"task": task, "fill": fill, "replaced": share, "space": space,
                         "mean": round(statistics.fmean(aucs), 4), "se": round(spread, 4), "n": len(aucs),
                         "device": "CPU", "torch": torch.__version__})  # fmt: skip
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
