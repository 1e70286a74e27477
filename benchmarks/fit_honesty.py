"""Are the scores that `synib fit` shows true, and is its model as good as simpler ones? Data whose truth is known.

Kinds of data, two modalities of `--width` numbers each and two classes:
    additive    the log-odds are a sum of one number of each modality: there is no interaction
    random      the label is a coin
For every set `fit` is called as a user would call it from Python (`method="auto"`), and beside it with `method="vanilla"`
and `method="additive"`. The true log-loss of each model is that of 20,000 fresh rows. A set is finished when its row is in the
CSV: a run that was stopped goes on where it was. Cases take turns, so that all have as many sets whenever a run ends. With
`--seconds` no set is begun after that time.

    python benchmarks/fit_honesty.py --out FILE.csv [--sets 100] [--rows 100 300 1000] [--kind additive random] [--width 16]
                                     [--device cpu] [--workers 2] [--first 0] [--seconds S]

It ends with a table in Markdown; with `--sets 0` it only prints that of an earlier run. Rules of `fit` are chosen on other sets
than those that are published (`--first 1000`).

Asked: the true log-loss lies in the shown 95 % interval in at least 93 % of the sets, and it is in the mean at most .02 above
that of the better of (vanilla, additive).
"""

import argparse
import csv
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workers import results

FRESH = 20_000
KINDS = ("additive", "random")
Job = tuple[str, int, int, int, str]  # kind, rows, width, set, device
FIELDS = (
    "kind", "rows", "width", "set", "method", "shown", "low", "high", "true", "accuracy", "accuracy_low", "accuracy_high",
    "true_accuracy", "vanilla_shown", "vanilla_low", "vanilla_high", "vanilla_true", "additive_shown", "additive_low",
    "additive_high", "additive_true", "best_true", "seconds",
)  # fmt: skip


def made(kind: str, rows: int, width: int, seed: int, part: int) -> tuple[dict[str, Any], Any]:
    """Rows of a set: those to fit (part 0), and fresh ones (part 1)."""
    import numpy as np

    rng = np.random.default_rng([seed, KINDS.index(kind), rows, part])
    x = {
        name: rng.normal(size=(rows if part == 0 else FRESH, width)).astype(np.float32) for name in ("first", "second")
    }
    evidence = 2**0.5 * (x["first"][:, 0] + x["second"][:, 0]) if kind == "additive" else np.zeros(len(x["first"]))
    return x, (rng.uniform(size=len(evidence)) < 1 / (1 + np.exp(-evidence))).astype(np.int64)


def judged(job: Job) -> dict[str, Any]:
    """What `fit` shows of one set, and the truth."""
    import numpy as np
    import torch

    import synib

    kind, rows, width, number, device = job
    torch.set_num_threads(1)
    x, y = made(kind, rows, width, number, 0)
    fresh, truth = made(kind, rows, width, number, 1)
    table = synib.Table.from_arrays(x, y)
    row: dict[str, Any] = {"kind": kind, "rows": rows, "width": width, "set": number}
    start = time.perf_counter()
    for method in ("auto", "vanilla", "additive"):
        model = synib.fit(table, method, device=device, seed=number, baselines=False)
        said = model.predict(fresh)
        true = float(-np.log(said[np.arange(FRESH), truth]).mean())
        loss, accuracy = model.about["scores"]["log_loss"], model.about["scores"]["accuracy"]
        if method == "auto":
            row |= {
                "method": model.method,
                "shown": loss["value"],
                "low": loss["low"],
                "high": loss["high"],
                "true": true,
            }
            row |= {"accuracy": accuracy["value"], "accuracy_low": accuracy["low"], "accuracy_high": accuracy["high"]}
            row |= {"true_accuracy": float((said.argmax(1) == truth).mean())}
            row["seconds"] = round(time.perf_counter() - start, 1)
        else:
            row |= {f"{method}_{name}": loss[of] for name, of in (("shown", "value"), ("low", "low"), ("high", "high"))}
            row[f"{method}_true"] = true
    row["best_true"] = min(row["vanilla_true"], row["additive_true"])
    return row


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="") as text:
        found: list[dict[str, Any]] = list(csv.DictReader(text))
    whole = [row for row in found if row.get("seconds")]  # the last may have been cut off
    return [
        {
            k: v if k in ("kind", "method") else int(v) if k in ("rows", "width", "set") else float(v)
            for k, v in row.items()
        }
        for row in whole
    ]


def summary(rows: list[dict[str, Any]]) -> Iterable[str]:
    """A table in Markdown, one line for each kind and number of rows."""
    import numpy as np

    from synib.measure.stats import proportion

    columns = (
        "truth",
        "rows",
        "sets",
        "in the interval",
        "shown too good",
        "shown",
        "true",
        "behind the better",
        "seconds",
        "kept",
    )
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for kind, count in sorted({(row["kind"], row["rows"]) for row in rows}):
        sets = [row for row in rows if (row["kind"], row["rows"]) == (kind, count)]
        inside = proportion([row["low"] - 1e-6 <= row["true"] <= row["high"] + 1e-6 for row in sets])
        too_good = sum(row["true"] > row["high"] + 1e-6 for row in sets)
        shown, true, seconds = (np.mean([row[name] for row in sets]) for name in ("shown", "true", "seconds"))
        behind = np.array([row["true"] - row["best_true"] for row in sets])
        error = f" ± {behind.std(ddof=1) / len(sets) ** 0.5:.4f}" if len(sets) > 1 else ""
        methods = sorted({row["method"] for row in sets}, key=lambda m: -sum(row["method"] == m for row in sets))
        kept = ", ".join(f"{method} {sum(row['method'] == method for row in sets)}" for method in methods)
        covered = f"{round(inside.value * len(sets))}: {inside.value:.3f} [{inside.low:.3f}, {inside.high:.3f}]"
        scores = [f"{shown:.3f}", f"{true:.3f}", f"{behind.mean():+.4f}{error}", f"{seconds:.0f}"]
        cells = [kind, f"{count:,}", len(sets), covered, too_good, *scores, kept]
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="no set is begun after so many seconds")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = read(options.out)
    finished = {(row["kind"], row["rows"], row["width"], row["set"]) for row in rows}
    jobs = [
        (kind, count, options.width, number, options.device)
        for number in range(options.first, options.first + options.sets)
        for count in sorted(options.rows, reverse=True)
        for kind in options.kind
        if (kind, count, options.width, number) not in finished
    ]
    if not jobs:
        print(*summary(rows), sep="\n")
        return
    with options.out.open("w", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text.flush()
        for row in results(judged, jobs, options.workers, options.seconds):
            rows.append(row)
            writer.writerow(row)
            text.flush()
            shown = f"shown {row['shown']:.3f} [{row['low']:.3f}, {row['high']:.3f}], true {row['true']:.3f}"
            which = f"{row['kind']} {row['rows']} {row['set']}"
            print(f"{len(rows):4d}  {which}: {row['method']}, {shown}, {row['seconds']} s", flush=True)
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
