"""PID: our BROJA against ``dit``'s, and the two estimators on PID-XOR data whose sources are known.

1. ``exact``: ``--random`` random 4 x 4 x 3 distributions, the largest difference of a component in bits and the time of
   both; then the time of larger ones. dit's cone solver needs ``pip install ecos``; without it dit falls back on SLSQP,
   which stops far from the optimum on some distributions (20 of them are tried, and those off by more than 1e-3 counted).
   Written to ``pid.csv``.
2. ``mixtures``: both estimators on PID-XOR with (U1, U2, R, S) = (.8,0,.1,.1), (.1,0,.8,.1), (.1,0,.1,.8), and on the
   last one with permuted labels (there with at least 19 permutations for the null). Written to ``pid_xor.csv``, with each
   component's interval and null, and drawn as ``pid_xor.svg``. Seeds count from 1: seed 0 was looked at while the
   neural estimator was written.

    python benchmarks/pid.py [exact mixtures] [--random 200] [--examples 4000] [--seeds 3] [--nulls 5] [--out FOLDER]
"""

import argparse
import csv
import importlib.util
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from synib.measure.pid import broja, pid_neural, pid_quantised
from synib.measure.pid.decomposition import COMPONENTS
from synib.studies.pid_xor.data import pid_xor

MIXTURES = [(0.8, 0.0, 0.1, 0.1), (0.1, 0.0, 0.8, 0.1), (0.1, 0.0, 0.1, 0.8)]
SHAPES = [(4, 4, 3), (10, 10, 2), (20, 20, 4), (20, 20, 10), (40, 40, 4)]


def by_dit(p: np.ndarray[Any, Any], method: str) -> dict[str, float]:
    """The same by dit, with one of its solvers."""
    import dit  # type: ignore[import-untyped,unused-ignore]

    cells = list(np.ndindex(p.shape))
    joint = dit.Distribution([tuple(map(str, cell)) for cell in cells], [p[cell] for cell in cells])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = dit.pid.PID_BROJA(joint, [[0], [1]], [2], method=method)
    return dict(zip(COMPONENTS, (estimate[a] for a in (((0,), (1,)), ((0,),), ((1,),), ((0, 1),))), strict=True))


def exact(random: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    distributions = [rng.dirichlet(np.ones(48)).reshape(4, 4, 3) for _ in range(random)]
    start = time.perf_counter()
    broja(np.full((2, 2, 2), 1 / 8))
    rows: list[dict[str, Any]] = []

    def add(what: str, number: int, seconds: float, worst: float | str = "", above: int | str = "") -> None:
        rows.append({"what": what, "number": number, "seconds_each": seconds, "worst_bits": worst, "above_1e-3": above})

    add("first call, imports included", 1, time.perf_counter() - start)
    start = time.perf_counter()
    ours = [broja(p) for p in distributions]
    if random:
        add("4x4x3, synib", random, (time.perf_counter() - start) / random)
    cone = "cone" if importlib.util.find_spec("ecos") else None
    for method, number in ((cone, random), ("scipy", min(random, 20))):
        if method and number:
            start = time.perf_counter()
            theirs = [by_dit(p, method) for p in distributions[:number]]
            seconds = (time.perf_counter() - start) / number
            pairs = zip(ours, theirs, strict=False)
            errors = np.array([[getattr(us, name) - them[name] for name in COMPONENTS] for us, them in pairs])
            worst = np.abs(errors).max(1)
            add(f"4x4x3, dit's {method}", number, seconds, float(f"{worst.max():.2g}"), int((worst > 1e-3).sum()))
    for shape in SHAPES:
        p = rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            broja(p)
            taken.append(time.perf_counter() - start)
        add("x".join(map(str, shape)), 3, float(np.median(taken)))
    return rows


def mixtures(examples: int, seeds: int, nulls: int, device: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cases = [(m, False) for m in MIXTURES] + [(MIXTURES[-1], True)]
    for mixture, permuted in cases:
        for seed in range(1, seeds + 1):
            data = pid_xor(*mixture, seed=seed, test=examples).test
            assert data is not None
            x1, x2, y = data.modalities["x1"], data.modalities["x2"], data.target
            if permuted:
                y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
            for name in ("quantised", "neural"):
                start = time.perf_counter()
                if name == "neural":
                    enough = max(nulls, 19) if permuted else nulls
                    estimate = pid_neural(x1, x2, y, nulls=enough, seed=seed, device=device)
                else:
                    estimate = pid_quantised(x1, x2, y, seed=seed)
                seconds = time.perf_counter() - start
                print(
                    f"{mixture}{' permuted' * permuted}, seed {seed}, {name}, {seconds:.1f} s\n{estimate}", flush=True
                )
                for component in COMPONENTS:
                    interval = getattr(estimate, component)
                    rows.append({
                        "u1 u2 r s": " ".join(map(str, mixture)), "labels": "permuted" if permuted else "true",
                        "estimator": name, "seed": seed, "component": component, "bits": round(interval.value, 4),
                        "low": round(interval.low, 4), "high": round(interval.high, 4),
                        "null_mean": round(estimate.null_mean[component], 4),
                        "null_spread": round(estimate.null_spread[component], 4),
                        "p": round(estimate.p_value[component], 3), "nulls": len(estimate.null), "seconds": round(seconds, 1),
                    })  # fmt: skip
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of each component, mean over seeds, with a dot for each seed; beside them the null's mean."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "synib"
    from matplotlib.figure import Figure

    titles = {"0.8 0.0 0.1 0.1 true": "U1 .8, R .1, S .1", "0.1 0.0 0.8 0.1 true": "U1 .1, R .8, S .1",
              "0.1 0.0 0.1 0.8 true": "U1 .1, R .1, S .8", "0.1 0.0 0.1 0.8 permuted": "labels permuted"}  # fmt: skip
    colours = {"quantised": "#8a8f98", "neural": "#2f6fb5"}
    shown = {"unique1": "U1", "unique2": "U2", "redundant": "R", "synergy": "S"}
    figure = Figure(figsize=(10.8, 2.9), layout="constrained")
    places = figure.subplots(1, len(titles), sharey=True)
    for axes, (case, title) in zip(places, titles.items(), strict=True):
        for k, (estimator, colour) in enumerate(colours.items()):
            for x, component in enumerate(shown):
                mine = [r for r in rows if f"{r['u1 u2 r s']} {r['labels']}" == case
                        and (r["estimator"], r["component"]) == (estimator, component)]  # fmt: skip
                at, bits = x + 0.4 * k - 0.2, [float(r["bits"]) for r in mine]
                axes.bar(at, np.mean(bits), 0.36, color=colour, alpha=0.55, label=estimator if x == 0 else None)
                axes.plot([at] * len(bits), bits, ".", color=colour, markersize=5)
                null = np.mean([float(r["null_mean"]) for r in mine])
                axes.plot([at - 0.18, at + 0.18], [null, null], color="black", linewidth=1)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xticks(range(len(shown)), list(shown.values()))
        axes.spines[["top", "right"]].set_visible(False)
    places[0].set_ylabel("bits")
    places[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["exact", "mixtures"], help="which of them, default both")
    parser.add_argument("--random", type=int, default=200, help="distributions to compare with dit")
    parser.add_argument("--examples", type=int, default=4000, help="examples of a mixture")
    parser.add_argument("--seeds", type=int, default=3, help="data sets of a mixture")
    parser.add_argument("--nulls", type=int, default=5, help="permutations for the neural estimator")
    parser.add_argument("--device", default="cpu", help="where the neural estimator trains")
    parser.add_argument("--out", help="also write the tables there")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} CPU threads")
    for part, name in (("exact", "pid"), ("mixtures", "pid_xor")):
        if part not in options.parts:
            continue
        if part == "exact":
            rows = exact(options.random)
            for row in rows:
                print(f"{row['what']:<32}{row['seconds_each']:>10.4f} s  {row['worst_bits']} {row['above_1e-3']}")
        else:
            rows = mixtures(options.examples, options.seeds, options.nulls, options.device)
        if options.out:
            with (Path(options.out) / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            if part == "mixtures":
                draw(rows, Path(options.out) / f"{name}.svg")


if __name__ == "__main__":
    main()
