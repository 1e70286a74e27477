"""The cluster engine on one node against the fleet, and with a second node, in one run; and how large shards are.

The fleet, the cluster on one node (a shard has all its ``--cores``, so that both train one shard after the other with as many
threads) and the cluster on two nodes of ``--cores`` each take turns, ``--rounds`` times, on the same cells and shards; the
``results.csv`` of all must be the same bytes. Seconds are those of whole runs; those of the cluster include that its nodes
(at 127.0.0.1, with a token) are started and stopped, and that workers import torch.

    python benchmarks/cluster_overhead.py [--seeds 3] [--together 7] [--rounds 3] [--cores 1] [--out FOLDER]

``cluster_overhead.csv`` has a line for each way of training: median seconds, ratio to the fleet in the same round (median,
smallest, largest) and rounds. ``cluster_sizes.csv`` has what a driver, an object store and a folder see of one shard and one
model: bytes of a task's arguments, of its result, of its file, of a row of ``results.csv`` and of its part of ``shards.json``.
``cluster_driver.csv`` has what a shard of that size costs the driver, in milliseconds: to send a task that trains nothing and
get its result back through one worker, to write the file, and to find that it is finished.
For ten minutes' work of two cores: ``--seeds 15 --rounds 1``; a few: ``--seeds 1 --rounds 1``. ``--rounds 0`` measures
sizes and the driver instead, which make tables of their own.
"""

import argparse
import csv
import os
import pickle
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from synib.engines import cluster as engine
from synib.engines.cells import digest
from synib.engines.cluster import Cluster
from synib.engines.folder import Folder, read_json
from synib.experiments import SpuriousXOR, run
from synib.experiments.run import LOADER

METHODS = ("vanilla", "confidence", "synib-random", "synib-marginal", "synib-oracle")


@contextmanager
def nodes(count: int, cores: int, private: Path) -> Iterator[str]:
    """So many nodes at 127.0.0.1; yields their address."""
    from ray.cluster_utils import Cluster as Nodes  # type: ignore[attr-defined]

    settings = {"num_cpus": cores, "node_ip_address": "127.0.0.1", "temp_dir": str(private / "r")}
    made: Any = Nodes(initialize_head=True, head_node_args={**settings, "include_dashboard": False})
    for _ in range(count - 1):
        made.add_node(**settings)
    try:
        yield made.address
    finally:
        made.shutdown()


def train(
    experiment: SpuriousXOR, out: Path, count: int, cores: int, together: int, private: Path
) -> tuple[float, bytes]:
    """Seconds that a run takes on so many nodes, 0 for the fleet; and its table."""
    start = time.perf_counter()
    if count == 0:
        run(experiment, out, device="cpu", together=together)
    else:
        with nodes(count, cores, private) as address:
            cluster = Cluster(address, cpus_per_shard=cores)
            run(experiment, out, device="cpu", together=together, engine="cluster", cluster=cluster)
    return time.perf_counter() - start, (out / "results.csv").read_bytes()


def sizes(experiment: SpuriousXOR, folder: Path) -> list[dict[str, Any]]:
    """What one shard, and one model of it, take where they pass."""
    ids = max(read_json(folder / "shards.json"), key=len)
    shard = {cell.id: cell for cell in experiment.cells()}
    order = engine.order_of(LOADER, experiment.config(), "cpu", "float32")
    files = [(p.stat().st_size, read_json(p)) for p in (folder / "shards").glob("*.json")]
    size, content = max((f for f in files if len(f[1]["rows"]) == len(ids)), key=lambda f: f[0])
    made = {k: v for k, v in content.items() if k != "sha256"} | {"failed": {}}
    found = {
        "arguments of a task": len(pickle.dumps((order, ids, 1, 0.0))),
        "of which the order, the same for all": len(order),
        "result of a task": len(pickle.dumps({"content": made})),
        "file of a shard": size,
        "rows in results.csv": (folder / "results.csv").stat().st_size * len(ids) / len(shard),
        "part of shards.json": (folder / "shards.json").stat().st_size * len(ids) / len(shard),
    }
    return [
        {"what": k, "models": len(ids), "bytes": round(v), "bytes_per_model": v / len(ids)} for k, v in found.items()
    ]


def driver(experiment: SpuriousXOR, folder: Path, private: Path, tasks: int = 300) -> list[dict[str, Any]]:
    """What a shard costs the driver besides training, in milliseconds."""
    ids = max(read_json(folder / "shards.json"), key=len)
    by_id = {cell.id: cell for cell in experiment.cells()}
    shard = [by_id[i] for i in ids]
    content = {k: v for k, v in read_json(folder / "shards" / f"{digest(ids)}.json").items() if k != "sha256"}
    order = engine.order_of(LOADER, experiment.config(), "cpu", "float32")
    kept = Folder(private / "driver", experiment.config())
    spent: dict[str, float] = {}
    with nodes(1, 1, private) as address, engine.joined(Cluster(address)) as session:
        session.ray.get(session.start(_echo, order, content))  # the worker runs
        away: list[Any] = []
        start, left = time.perf_counter(), tasks
        while left or away:
            while left and len(away) < 2 * engine.AHEAD:
                away.append(session.start(_echo, order, content))
                left -= 1
            for reference in session.ready(away):
                session.ray.get(reference)
                away.remove(reference)
        spent["a task there and back"] = time.perf_counter() - start
    for what, do in (
        ("write its file", lambda: kept.write(shard, content)),
        ("see that it is there", lambda: kept.finished(shard)),
    ):
        start = time.perf_counter()
        for _ in range(tasks):
            do()
        spent[what] = time.perf_counter() - start
    return [{"what": k, "models": len(ids), "times": tasks, "milliseconds": v / tasks * 1000} for k, v in spent.items()]


def _echo(order: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"content": content}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the Spurious-XOR figure")
    parser.add_argument("--together", type=int, default=7, help="models of a shard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, help="of each node, and for each shard")
    parser.add_argument("--out", type=Path, help="also write the tables there")
    options = parser.parse_args()

    experiment = SpuriousXOR(seeds=options.seeds, methods=METHODS)
    print(
        f"{len(experiment.cells())} models, {options.together} at once, {options.cores} cores, torch {torch.__version__}"
    )
    torch.set_num_threads(options.cores)
    seconds: dict[str, list[float]] = {"fleet": [], "cluster, one node": [], "cluster, two nodes": []}
    with tempfile.TemporaryDirectory(prefix="synib-") as place:
        private = Path(place)
        token = private / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        # Before Ray is imported, as for a cluster that a run starts itself: loopback alone, a token, no reports.
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": place + "/token",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        for i in range(options.rounds):
            same = set()
            for n, name in enumerate(seconds):
                place_of = private / f"{i}-{n}"
                took, table = train(experiment, place_of, n, options.cores, options.together, private)
                seconds[name].append(took)
                same.add(table)
                print(f"round {i + 1}: {name} {took:.1f} s", flush=True)
            assert len(same) == 1, "engines differ"
        made: dict[str, list[dict[str, Any]]] = {}
        if not options.rounds:
            train(experiment, private / "sizes", 0, options.cores, options.together, private)
            made["cluster_sizes"] = sizes(experiment, private / "sizes")
            made["cluster_driver"] = driver(experiment, private / "sizes", private)
    for name, all_took in seconds.items() if options.rounds else ():
        ratios = [t / base for t, base in zip(all_took, seconds["fleet"], strict=True)]
        made.setdefault("cluster_overhead", []).append(
            {
                "engine": name,
                "models": len(experiment.cells()),
                "seconds": round(statistics.median(all_took), 2),
                "ratio": round(statistics.median(ratios), 3),
                "smallest": round(min(ratios), 3),
                "largest": round(max(ratios), 3),
                "rounds": options.rounds,
                "cores": options.cores,
            }
        )
    for table_name, table_rows in made.items():
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
