"""Train sampled cells of committed results again and compare every metric with its row of results.csv.

Needs torch, numpy and scipy only. On a GPU, for every folder that was made on one:

    PYTHONPATH=src python benchmarks/rerun.py --made-on cuda --device cuda --workers 6 --out $OUT/rerun.csv
"""

import argparse
import csv
import gc
import json
import math
import multiprocessing as mp
import os
import random
import statistics
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.func import functional_call

from synib.data import Dataset
from synib.files import read_csv, read_json
from synib.models import FusionModel
from synib.objective import Objective
from synib.studies import EXPERIMENTS, Experiment
from synib.training import fleet
from synib.training.cells import Cell, cut, digest, programs

NOT_A_METRIC = ("experiment", "method", "seed", "cell", "versions", "error")
EQUAL = 1e-9
HEADER = ("folder", "cell", "method", "factors", "seed", "metric", "committed", "rerun", "difference")


class AtTheEnd:
    """An experiment whose curves are not kept: what it watches is looked at once, after the last epoch.

    Training is the same, and results.csv holds nothing else; thirty looks at gradients would take longer than training.
    """

    curves: ClassVar[bool] = False

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.unscored = ""

    def data(self, cell: Cell) -> Dataset:
        """The cell's data."""
        return self.experiment.data(cell)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        """The cell's model."""
        return self.experiment.model(cell, data)

    def method(self, cell: Cell, data: Dataset) -> Objective:
        """The cell's method."""
        return self.experiment.method(cell, data)

    def examine(self, cell: Cell, learner: Any, data: Dataset) -> dict[str, float]:
        """What the experiment itself watches and examines."""
        metrics: dict[str, float] = {}
        watch, examine = (getattr(self.experiment, name, None) for name in ("watch", "examine"))
        if watch is not None and type(self.experiment).curves:
            parameters = {name: p.detach() for name, p in learner.named_parameters()}

            def predict(changed: Any, modalities: Any) -> Tensor:
                def of(own: Any) -> Tensor:
                    return cast(Tensor, own.method.predict(own.model, modalities))

                prediction: Tensor = functional_call(learner, {**parameters, **changed}, (of,))
                return prediction

            with torch.no_grad():
                watched = watch(predict, parameters, data.train, data.validation)
            metrics |= {name: float(v) for name, v in watched.items() if "accuracy_" not in name}
        if examine is not None:
            try:
                metrics |= examine(cell, learner, data)
            except ImportError as e:  # torchmetrics; accuracies are compared all the same
                self.unscored = str(e)
        return metrics


@dataclass
class Committed:
    """A folder of results and what today's code makes of its config."""

    path: Path
    experiment: Experiment
    rows: list[dict[str, Any]]
    cells: list[Cell]
    timings: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> "Committed":
        """What a folder holds."""
        config = read_json(path / "config.json")
        experiment = EXPERIMENTS[config["experiment"]].from_config(config)
        return cls(path, experiment, read_csv(path / "results.csv"), experiment.cells(), read_csv(path / "timings.csv"))

    @property
    def made_on(self) -> str:
        """Kind of device, by its name in the timings."""
        return "cpu" if all("CPU" in t["device"] for t in self.timings) else "cuda"

    @property
    def precision(self) -> str:
        """Of its training; before there was a choice it was float32."""
        return str(self.timings[0].get("precision") or "float32")

    def key(self, row: dict[str, Any]) -> str:
        """What a row is about, whatever settings its id was made of."""
        return digest([row["method"], {f: _plain(row[f]) for f in self.experiment.factors}, row["seed"]])

    def matched(self) -> tuple[list[tuple[Cell, dict[str, Any]]], int]:
        """Each cell with its row, and how many ids are still the same; the others match by method, factors and seed."""
        by_id = {row["cell"]: row for row in self.rows}
        by_key = {self.key(row): row for row in self.rows}
        pairs = []
        same = 0
        for cell in self.cells:
            key = digest([cell.method, {f: _plain(cell.factors[f]) for f in self.experiment.factors}, cell.seed])
            row = by_id.get(cell.id) or by_key.get(key)
            same += cell.id in by_id
            if row is not None:
                pairs.append((cell, row))
        return pairs, same

    def original_shards(self) -> list[list[Cell]]:
        """The groups it was trained in, where a way of cutting gives the names that the timings have."""
        names = {t["shard"] for t in self.timings}
        shards: dict[str, list[Cell]] = {}
        for group in programs(self.cells):
            alike = sorted(group, key=lambda c: (c.settings["lr"], c.settings["weight_decay"]))
            for order in (group, alike):
                for size in {int(t["cells"]) for t in self.timings}:  # the first shard has the size that was asked for
                    plain = [order[i : i + size] for i in range(0, len(order), size)]  # as the first runs were cut
                    for shard in (*cut(order, size), *plain):
                        name = digest([c.id for c in shard])
                        if name in names:
                            shards[name] = shard
        return list(shards.values())


def sample(cells: Sequence[Cell], n: int, seed: int) -> list[Cell]:
    """About ``n`` cells, at least one for each method, spread over factors and seeds."""
    rng = random.Random(seed)
    methods = list(dict.fromkeys(cell.method for cell in cells))
    share = Counter(methods)
    extra = rng.sample(methods, len(methods))
    for i in range(max(0, n - len(methods))):
        share[extra[i % len(extra)]] += 1
    used: Counter[str] = Counter()
    seeds: Counter[int] = Counter()
    chosen = []
    for method in methods:
        left = [cell for cell in cells if cell.method == method]
        rng.shuffle(left)
        for _ in range(min(share[method], len(left))):
            cell = min(
                left, key=lambda c: (used[digest(dict(c.factors))] + seeds[c.seed], used[digest(dict(c.factors))])
            )
            left.remove(cell)
            used[digest(dict(cell.factors))] += 1
            seeds[cell.seed] += 1
            chosen.append(cell)
    return chosen


Task = tuple[str, dict[str, Any], list[str], str, str, int]


def work(task: Task) -> tuple[str, dict[str, dict[str, float]], str, float]:
    """Train one group of cells; returns the folder, metrics of each cell, a remark and the seconds it took."""
    path, config, ids, device, precision, threads = task
    start = time.perf_counter()
    try:
        torch.set_num_threads(threads)
        experiment = EXPERIMENTS[config["experiment"]].from_config(config)
        by_id = {cell.id: cell for cell in experiment.cells()}
        cells = [by_id[i] for i in ids]
        recipe = AtTheEnd(experiment)
        trained = fleet.train(recipe, cells, device, precision=precision)  # type: ignore[arg-type]
        metrics = {cell.id: m for cell, m in zip(cells, trained.metrics, strict=True)}
        del trained
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        return path, metrics, recipe.unscored, time.perf_counter() - start
    except Exception:
        return path, {}, traceback.format_exc()[-900:], time.perf_counter() - start


def run(tasks: Sequence[Task], workers: int) -> Iterator[tuple[str, dict[str, dict[str, float]], str, float]]:
    """Results as they come."""
    if workers == 1:
        yield from map(work, tasks)
        return
    with mp.get_context("spawn").Pool(min(workers, len(tasks))) as pool:
        yield from pool.imap_unordered(work, tasks)


def compare(committed: Committed, metrics: dict[str, dict[str, float]], rows: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each metric of each cell; what only one side has gets no difference."""
    lines = []
    by_id = {cell.id: cell for cell in committed.cells}
    for i, now in metrics.items():
        cell, row = by_id[i], rows[i]
        names = [n for n in row if n not in NOT_A_METRIC and n not in committed.experiment.factors]
        for name in dict.fromkeys([*names, *now]):
            before, after = row.get(name), now.get(name)
            after = None if after is None or after != after else round(after, 6)  # as the table has it
            if before is None and after is None:
                continue
            gap = None if before is None or after is None else after - before
            factors = ", ".join(f"{f}={cell.factors[f]}" for f in committed.experiment.factors)
            values = (str(committed.path), i, cell.method, factors, cell.seed, name, before, after, gap)
            lines.append(dict(zip(HEADER, values, strict=True)))
    return lines


def tell(committed: Committed, lines: Sequence[dict[str, Any]], same: int) -> str:
    """A paragraph for one folder."""
    pairs = [line for line in lines if line["difference"] is not None]
    lone = Counter(line["metric"] for line in lines if line["difference"] is None)
    gaps = [abs(line["difference"]) for line in pairs]
    cells = {line["cell"] for line in lines}
    unequal = {line["cell"] for line in pairs if abs(line["difference"]) >= EQUAL}
    text = [
        f"{committed.path}: {len(cells)} cells; ids as committed {same}/{len(committed.rows)}; "
        f"metrics equal {sum(g < EQUAL for g in gaps)}/{len(gaps)}, "
        f"cells wholly equal {len(cells) - len(unequal)}/{len(cells)}; "
        f"max |d| {max(gaps, default=math.nan):.6f}, mean |d| {statistics.fmean(gaps) if gaps else math.nan:.6f}"
    ]
    accuracies = [line for line in pairs if "accuracy" in line["metric"] and "_bin_" not in line["metric"]]
    for metric in dict.fromkeys(line["metric"] for line in accuracies):
        d = [line["difference"] for line in accuracies if line["metric"] == metric]
        se = statistics.stdev(d) / math.sqrt(len(d)) if len(d) > 1 else math.nan
        text.append(
            f"    {metric}: n {len(d)}, max |d| {max(map(abs, d)):.4f}, mean |d| {statistics.fmean(map(abs, d)):.4f}, "
            f"mean d {statistics.fmean(d):+.4f} ± {se:.4f}; sd over seeds as committed {_spread(committed, metric):.4f}"
        )
    worst = sorted((line for line in pairs if abs(line["difference"]) >= EQUAL), key=lambda x: -abs(x["difference"]))[
        :3
    ]
    text += [
        f"    largest: {w['method']}, {w['factors']}, seed {w['seed']}, {w['metric']}: {w['committed']} → {w['rerun']}"
        for w in worst
    ]
    if lone:
        text.append(f"    only on one side: {dict(lone)}")
    return "\n".join(text)


def _spread(committed: Committed, metric: str) -> float:
    """Pooled standard deviation over seeds, a yardstick for differences."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in committed.rows:
        if row.get(metric) is not None:
            groups[digest([row["method"], *(_plain(row[f]) for f in committed.experiment.factors)])].append(row[metric])
    many = [statistics.variance(v) for v in groups.values() if len(v) > 1]
    return math.sqrt(statistics.fmean(many)) if many else math.nan


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value


def main() -> None:
    """Read the options, train, compare."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path, help="folders of runs; all under docs/results by default")
    p.add_argument("--made-on", choices=("cpu", "cuda"), help="only folders that were made on such a device")
    p.add_argument("--cells", type=int, default=16, help="cells of each folder, at least one of each method")
    p.add_argument("--seed", type=int, default=0, help="of the sample")
    p.add_argument("--methods", nargs="*", help="only these methods")
    p.add_argument("--whole", action="store_true", help="train the whole original shard of each sampled cell")
    p.add_argument("--device", default="cpu")
    p.add_argument("--precision", default="recorded", choices=("recorded", "float32", "tf32", "bf16"))
    p.add_argument("--workers", type=int, default=1, help="processes; several small shards share a GPU well")
    p.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")), help="of each process")
    p.add_argument("--out", type=Path, default=Path("rerun.csv"))
    p.add_argument("--append", action="store_true", help="keep the lines that are there")
    p.add_argument("--dry", action="store_true", help="say what would be trained, and check ids")
    o = p.parse_args()
    begun = time.perf_counter()
    paths = o.folders or sorted(f.parent for f in Path("docs/results").glob("**/results.csv"))
    folders = {str(path): Committed.read(path) for path in paths}
    folders = {name: c for name, c in folders.items() if o.made_on in (None, c.made_on)}
    rows: dict[str, dict[str, Any]] = {}
    same: dict[str, int] = {}
    tasks: list[tuple[float, Task]] = []
    for name, committed in folders.items():
        pairs, same[name] = committed.matched()
        rows[name] = {cell.id: row for cell, row in pairs}
        known = [cell for cell, _ in pairs if not o.methods or cell.method in o.methods]
        chosen = sample(known, o.cells, o.seed) if known else []
        groups = programs(chosen)
        if o.whole:
            chosen_ids = {cell.id for cell in chosen}
            shards = committed.original_shards()
            groups = [shard for shard in shards if chosen_ids & {c.id for c in shard}]
            print(f"{name}: {len(shards)} of {len(committed.timings)} original shards recovered", flush=True)
        precision = committed.precision if o.precision == "recorded" else o.precision
        if o.device == "cpu" and precision == "tf32":
            precision = "float32"
        for group in groups:
            s = group[0].settings
            cost = s["epochs"] * (1 + s.get("steps", 0) + s.get("draws", 1) / 4)
            ids = [cell.id for cell in group]
            tasks.append((cost, (name, committed.experiment.config(), ids, o.device, precision, o.threads)))
        print(
            f"{name}: made on {committed.made_on} in {committed.precision}, rerun on {o.device} in {precision}; "
            f"ids as committed {same[name]}/{len(committed.rows)} ({len(committed.cells)} cells today); "
            f"{sum(map(len, groups))} cells in {len(groups)} groups",
            flush=True,
        )
    if o.dry:
        return
    # Slow ones first where several work; folder by folder where one does.
    ordered = [t for _, t in (sorted(tasks, key=lambda x: -x[0]) if o.workers > 1 else tasks)]
    expected = Counter(t[0] for t in ordered)
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    fresh = not (o.append and o.out.exists())
    failed = []
    with o.out.open("w" if fresh else "a", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        if fresh:
            writer.writeheader()
        for done, (name, metrics, remark, seconds) in enumerate(run(ordered, o.workers), 1):
            compared = compare(folders[name], metrics, rows[name])
            writer.writerows(compared)
            file.flush()
            lines[name] += compared
            expected[name] -= 1
            who = compared[0]["method"] if compared else "FAILED"
            gaps = [abs(x["difference"]) for x in compared if x["difference"] is not None]
            print(
                f"[{time.perf_counter() - begun:6.1f} s] {done}/{len(ordered)} {name}: {who}, "
                f"{len(metrics)} cells, {seconds:.1f} s, max |d| {max(gaps, default=math.nan):.4f} {remark}",
                flush=True,
            )
            if not compared:
                failed.append(name)
    print(
        "\nversions",
        json.dumps({"torch": torch.__version__, "threads": o.threads, "device": o.device, "whole": o.whole}),
    )
    for name, committed in folders.items():
        if lines[name]:
            print(tell(committed, lines[name], same[name]))
    if failed:
        print(f"{len(failed)} groups failed, in {', '.join(sorted(set(failed)))}.")
    print(f"total {time.perf_counter() - begun:.0f} s, to {o.out}")


if __name__ == "__main__":
    main()
