"""The cluster engine on one node against the fleet, at the same time; with a second node; and how large shards are.

In each of ``--rounds`` rounds the fleet and the cluster on one node train the same cells in the same shards at the same time,
each with everything that belongs to it (driver, Ray's own processes, worker) on ``--cores`` cores of its own, which they
exchange from round to round: a machine whose speed changes within minutes is as fast for both. Then the cluster trains them
on two nodes, on the cores of both. All ``results.csv`` must be the same bytes. Seconds are those of whole runs; those of the
cluster include that its nodes (at 127.0.0.1, with a token) are started and stopped, and that workers import torch. "training"
is what shards took, as they say themselves: what a run takes beyond it is the engine's.

    python benchmarks/cluster_overhead.py [--seeds 3] [--together 7] [--rounds 3] [--cores 1] [--out FOLDER]

``cluster_overhead.csv`` has a line for each way of training: median seconds, ratio to the fleet of the same round (median,
smallest, largest) and rounds. ``cluster_sizes.csv`` has what a driver, an object store and a folder see of one shard and one
model: bytes of a task's arguments, of its result, of its file, of a row of ``results.csv`` and of its part of ``shards.json``.
``cluster_driver.csv`` has what a shard of that size costs the driver, in milliseconds: to send a task that trains nothing and
get its result back through one worker, to write the file, and to find that it is finished.
For ten minutes' work: ``--seeds 41 --rounds 1``; a few: ``--seeds 1 --rounds 1``. ``--rounds 0`` measures sizes and the
driver instead, which make tables of their own.
"""

import argparse
import csv
import json
import os
import pickle
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from synib.files import read_csv, read_json
from synib.studies import SpuriousXOR, run
from synib.studies.run import LOADER
from synib.training import cluster as engine
from synib.training.cells import digest
from synib.training.cluster import Cluster
from synib.training.folder import Folder

WAYS = ("fleet", "cluster, one node", "cluster, two nodes")
ECHO = "copy:copy"  # a task that trains nothing, and returns what it was sent
METHODS = ("vanilla", "confidence", "synib-random", "synib-marginal", "synib-oracle")


@contextmanager
def nodes(count: int, cores: int, private: Path) -> Iterator[str]:
    """So many nodes at 127.0.0.1; yields their address."""
    from ray.cluster_utils import Cluster as Nodes  # type: ignore[attr-defined]

    settings = {"num_cpus": cores, "node_ip_address": "127.0.0.1", "temp_dir": str(private / "r")}
    cluster: Any = Nodes(initialize_head=True, head_node_args={**settings, "include_dashboard": False})
    for _ in range(count - 1):
        cluster.add_node(**settings)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def train(experiment: SpuriousXOR, out: Path, count: int, cores: int, together: int, private: Path) -> float:
    """Seconds that a run takes on so many nodes, 0 for the fleet."""
    start = time.perf_counter()
    if count == 0:
        run(experiment, out, device="cpu", together=together)
    else:
        with nodes(count, cores, private) as address:
            cluster = Cluster(address, cpus_per_shard=cores)
            run(experiment, out, device="cpu", together=together, engine="cluster", cluster=cluster)
    return time.perf_counter() - start


def begun(options: argparse.Namespace, count: int, places: set[int], private: Path) -> subprocess.Popen[str]:
    """A run on so many nodes, in a process of its own and with all that it starts on these cores."""
    options_of_run = [f"--seeds={options.seeds}", f"--together={options.together}", f"--cores={options.cores}"]
    way = json.dumps([count, sorted(places), str(private)])
    return subprocess.Popen(
        [sys.executable, __file__, *options_of_run, "--way", way], stdout=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str], name: str) -> float:
    """Seconds that a run took, by itself."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} failed.")
    seconds = float(output.splitlines()[-1])
    print(f"{name} {seconds:.1f} s", flush=True)
    return seconds


def trained(folder: Path) -> float:
    """Seconds that the shards of a run took, added up."""
    return sum(row["seconds"] for row in read_csv(folder / "timings.csv"))


@contextmanager
def token() -> Iterator[Path]:
    """A folder with a token in it, and Ray told of it, before it is imported: loopback alone, a token, no reports."""
    with tempfile.TemporaryDirectory(prefix="synib-") as place:
        file = Path(place) / "token"
        file.touch(0o600)
        file.write_text(secrets.token_hex(32))
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(file),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        }
        yield Path(place)


def compared(options: argparse.Namespace, private: Path) -> list[dict[str, Any]]:
    """All rounds; a row for each way of training."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2 * options.cores:
        raise SystemExit(
            f"Two runs at a time on {options.cores} cores each need {2 * options.cores}; there are {len(here)}."
        )
    mine, theirs = set(here[: options.cores]), set(here[options.cores : 2 * options.cores])
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    training: dict[str, list[float]] = {name: [] for name in WAYS}
    for i in range(options.rounds):
        of = {name: private / f"{i}-{n}" for n, name in enumerate(WAYS)}
        for folder in of.values():
            folder.mkdir()
        fleet, one_node, two_nodes = WAYS
        print(f"round {i + 1}", flush=True)
        together = [begun(options, 0, mine, of[fleet]), begun(options, 1, theirs, of[one_node])]
        for process, name in zip(together, (fleet, one_node), strict=True):
            seconds[name].append(ended(process, name))
        seconds[two_nodes].append(ended(begun(options, 2, mine | theirs, of[two_nodes]), two_nodes))
        for name, folder in of.items():
            training[name].append(trained(folder / "run"))
        if len({(folder / "run" / "results.csv").read_bytes() for folder in of.values()}) != 1:
            raise SystemExit("Engines differ.")
        mine, theirs = theirs, mine
    return [
        {
            "engine": name,
            "models": len(SpuriousXOR(seeds=options.seeds, methods=METHODS).cells()),
            "seconds": round(statistics.median(all_took), 2),
            "training": round(statistics.median(training[name]), 2),
            **spread([t / base for t, base in zip(all_took, seconds[WAYS[0]], strict=True)]),
            "rounds": options.rounds,
            "cores": options.cores,
        }
        for name, all_took in seconds.items()
    ]


def spread(ratios: list[float]) -> dict[str, float]:
    return {
        "ratio": round(statistics.median(ratios), 3),
        "smallest": round(min(ratios), 3),
        "largest": round(max(ratios), 3),
    }


def sizes(experiment: SpuriousXOR, folder: Path) -> list[dict[str, Any]]:
    """What one shard, and one model of it, take where they pass."""
    ids = max(read_json(folder / "shards.json"), key=len)
    shard = {cell.id: cell for cell in experiment.cells()}
    job = engine.describe_job(LOADER, experiment.config(), "cpu", "float32")
    files = [(p.stat().st_size, read_json(p)) for p in (folder / "shards").glob("*.json")]
    size, content = max((f for f in files if len(f[1]["rows"]) == len(ids)), key=lambda f: f[0])
    content_of_task = {k: v for k, v in content.items() if k != "sha256"} | {"failed": {}}
    bytes_of = {
        "arguments of a task": len(pickle.dumps((job, ids, 1, 0.0))),
        "of which the job, the same for all": len(job),
        "result of a task": len(pickle.dumps({"content": content_of_task})),
        "file of a shard": size,
        "rows in results.csv": (folder / "results.csv").stat().st_size * len(ids) / len(shard),
        "part of shards.json": (folder / "shards.json").stat().st_size * len(ids) / len(shard),
    }
    return [
        {"what": k, "models": len(ids), "bytes": round(v), "bytes_per_model": v / len(ids)} for k, v in bytes_of.items()
    ]


def driver(experiment: SpuriousXOR, folder: Path, private: Path, tasks: int = 300) -> list[dict[str, Any]]:
    """What a shard costs the driver besides training, in milliseconds."""
    ids = max(read_json(folder / "shards.json"), key=len)
    by_id = {cell.id: cell for cell in experiment.cells()}
    shard = [by_id[i] for i in ids]
    content = {k: v for k, v in read_json(folder / "shards" / f"{digest(ids)}.json").items() if k != "sha256"}
    job = engine.describe_job(LOADER, experiment.config(), "cpu", "float32")
    kept = Folder(private / "driver", experiment.config())
    spent: dict[str, float] = {}
    with nodes(1, 1, private) as address, engine.joined(Cluster(address)) as session:
        waiting = {session.submit(ECHO, (job, content))}
        while waiting:  # until the worker runs
            waiting -= {ticket for ticket, _ in session.results()}
        start, left = time.perf_counter(), tasks
        while left or waiting:
            while left and len(waiting) < 2 * engine.AHEAD:
                waiting.add(session.submit(ECHO, (job, content)))
                left -= 1
            waiting -= {ticket for ticket, _ in session.results()}
        spent["a task there and back"] = time.perf_counter() - start
    for what, do in (
        ("write its file", lambda: kept.write(shard, content)),
        ("see that it is there", lambda: kept.unfinished([shard])),
    ):
        start = time.perf_counter()
        for _ in range(tasks):
            do()
        spent[what] = time.perf_counter() - start
    return [{"what": k, "models": len(ids), "times": tasks, "milliseconds": v / tasks * 1000} for k, v in spent.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the Spurious-XOR figure")
    parser.add_argument("--together", type=int, default=7, help="models of a shard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, help="of each node, and for each shard")
    parser.add_argument("--out", type=Path, help="also write the tables there")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()

    experiment = SpuriousXOR(seeds=options.seeds, methods=METHODS)
    torch.set_num_threads(options.cores)
    if options.way:
        count, places, folder = json.loads(options.way)
        os.sched_setaffinity(0, places)
        print(train(experiment, Path(folder) / "run", count, options.cores, options.together, Path(folder)))
        return
    print(
        f"{len(experiment.cells())} models, {options.together} at once, {options.cores} cores, torch {torch.__version__}"
    )
    tables: dict[str, list[dict[str, Any]]] = {}
    with token() as private:
        if options.rounds:
            tables["cluster_overhead"] = compared(options, private)
        else:
            train(experiment, private / "sizes", 0, options.cores, options.together, private)
            tables["cluster_sizes"] = sizes(experiment, private / "sizes")
            tables["cluster_driver"] = driver(experiment, private / "sizes", private)
    for table_name, table_rows in tables.items():
        for row in table_rows:
            print(*(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), sep=", ")
        if options.out:
            with (options.out / f"{table_name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(table_rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(
                    {k: round(v, 3) if isinstance(v, float) else v for k, v in r.items()} for r in table_rows
                )


if __name__ == "__main__":
    main()
