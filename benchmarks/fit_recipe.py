"""SynIB in `synib fit` for numbers and several labels: constant or annealed weights.

Rows of two modalities with 16 numbers each. What is predicted (a number, or three labels) rests on the product of the signs of
one number in each modality. In a share of the rows, a number of the first modality says the answer as well: a cue, which one
flag marks. `fit` is called with method="synib-marginal" and, beside it, "vanilla"; what its model predicts is measured on
fresh rows, all and those without a cue, as the share of explained variance or as accuracy over labels.

    python benchmarks/fit_recipe.py --out FILE.csv [--sets 5] [--rows 1000] [--cues 0 0.8]
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import synib
from synib.files import write_csv
from synib.own import search_space

WIDTH, FRESH = 16, 5000
PLAIN = "plain fusion"
# The searched weights, and whether they fall to 0.
SCHEDULES: dict[str, tuple[tuple[float, ...], bool]] = {
    "constant weight": ((1.0, 3.0, 10.0), False),
    "annealed, 30, 10 or 3": ((30.0, 10.0, 3.0), True),
    "annealed, 10, 3 or 30": ((10.0, 3.0, 30.0), True),
}


def drawn(kind: str, rows: int, cues: float, rng: np.random.Generator) -> tuple[dict[str, Any], Any, Any]:
    """Modalities, target, and whether a row has a cue."""
    first, second = rng.normal(size=(2, rows, WIDTH)).astype(np.float32)
    sign = np.sign(first[:, :3]) * np.sign(second[:, :3])
    cued = rng.uniform(size=rows) < cues
    number = sign[:, 0] + 0.3 * rng.normal(size=rows)
    labels = (sign > 0) ^ (rng.uniform(size=sign.shape) < 0.05)
    answer = number[:, None] if kind == "number" else 2.0 * labels - 1
    first[:, -1] = cued
    first[:, 3 : 3 + answer.shape[1]] = np.where(cued[:, None], answer, rng.normal(size=answer.shape))
    return {"first": first, "second": second}, number if kind == "number" else labels.astype(np.int64), cued


def score(kind: str, predicted: Any, target: Any) -> float:
    if kind == "number":
        return float(1 - np.mean((predicted - target) ** 2) / np.var(target))
    return float(np.mean((predicted > 0.5) == target))


def fitted(kind: str, method: str, table: synib.Table, fresh: Mapping[str, Any], seed: int) -> Any:
    model = synib.fit(table, method, device="cpu", seed=seed, baselines=False, incomplete=False)
    predicted = np.asarray(model.predict(dict(fresh)))
    return predicted[:, 0] if kind == "number" and predicted.ndim == 2 else predicted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--only", nargs="+", default=[*SCHEDULES, PLAIN], help="of the compared")
    parser.add_argument("--cues", type=float, nargs="+", default=[0.0, 0.8])
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for seed in range(options.first, options.first + options.sets):
        for kind in ("number", "labels"):
            for cues in options.cues:
                rng = np.random.default_rng([seed, int(100 * cues), kind == "labels"])
                modalities, target, _ = drawn(kind, options.rows, cues, rng)
                fresh, truth, cued = drawn(kind, FRESH, cues, rng)
                table = synib.Table.from_arrays(
                    modalities, target, task="regression" if kind == "number" else "multilabel"
                )
                for name in options.only:
                    if name != PLAIN:
                        weights, annealed = SCHEDULES[name]
                        search_space.SPECIFIC["synib-marginal"] = {"weight": weights}
                        search_space.ON_NUMBERS.clear()
                        search_space.ANNEALED = ("synib-marginal",) if annealed else ()
                    method = "vanilla" if name == PLAIN else "synib-marginal"
                    predicted = fitted(kind, method, table, fresh, seed)
                    line = {"kind": kind, "rows": options.rows, "cues": cues, "set": seed, "method": name}
                    line |= {"all": round(score(kind, predicted, truth), 4)}
                    line |= {"without_cue": round(score(kind, predicted[~cued], truth[~cued]), 4)}
                    print(*line.values(), sep="  ", flush=True)
                    lines.append(line)
                    write_csv(options.out, lines)
    for kind, cues, name in dict.fromkeys((line["kind"], line["cues"], line["method"]) for line in lines):
        some = [x for x in lines if (x["kind"], x["cues"], x["method"]) == (kind, cues, name)]
        cells = []
        for column in ("all", "without_cue"):
            values = np.array([line[column] for line in some])
            cells.append(
                f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"
                if len(some) > 1
                else f"{values[0]:.3f}"
            )
        print(f"| {kind} | {cues:g} | {name} | {len(some)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
