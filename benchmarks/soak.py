"""Kill a sweep again and again at random moments, go on with the same command, and compare with one that nobody disturbed.

    python benchmarks/soak.py

For the fleet and the solo engine: the command is run whole; then into another folder, where SIGKILL ends it after a random
time, until there were so many kills, and once more to its end. Every kill is a line of ``kills.csv``, every engine one of
``sweeps.csv``, in docs/results/reliability.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synib.files import read_csv, write_csv
from synib.files.atomic import UNFINISHED
from synib.training.device import hardware

COMMAND = "reproduce spurious-xor --method vanilla --method confidence --beta 1.0 --beta 0.6 --device cpu"
SIZE = {"fleet": "--seeds 12 --epochs 15 --together 2", "solo": "--seeds 2 --epochs 3"}
TABLES = ("results.csv", "curves.csv")
AHEAD = 3  # shards that a life may train at most before it ends, about


@dataclass
class Whole:
    """A sweep that nobody disturbed: its folder, how long it took to the first shard, and from shard to shard."""

    folder: Path
    begin: float
    each: float


def start(engine: str, out: Path) -> "subprocess.Popen[bytes]":
    """The command as a process of its own."""
    words = [*COMMAND.split(), *SIZE[engine].split(), "--engine", engine, "--out", str(out)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-m", "synib.cli", *words], stdout=quiet, stderr=subprocess.PIPE)


def finish(engine: str, out: Path) -> None:
    """Run the command to its end, which is to be a good one."""
    process = start(engine, out)
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"The {engine} sweep into {out} ended with {process.returncode}: {errors.decode()}")


def undisturbed(engine: str, out: Path) -> Whole:
    """Run the command to its end, and watch when shards come."""
    begun = time.monotonic()
    process = start(engine, out)
    first, last, seen = 0.0, 0.0, 0
    while process.poll() is None:
        now = len(list((out / "shards").glob("*.json")))
        if now > seen:
            last, seen = time.monotonic() - begun, now
            first = first or last
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"The {engine} sweep ended with {process.returncode}: {process.communicate()[1].decode()}")
    return Whole(out, first, (last - first) / max(1, seen - 1))


def shards(folder: Path) -> dict[str, tuple[str, int]]:
    """Finished shards of a run: name → hash of the content, and when it was written."""
    files = (folder / "shards").glob("*.json")
    return {p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files}


def broken(folder: Path) -> int:
    """Files under their own name that do not hold what they should."""
    bad = 0
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_bytes())
        except ValueError:
            bad += path.name[0] != "."
    return bad


def unfinished(folder: Path) -> int:
    """Files under a temporary name."""
    return sum(UNFINISHED.fullmatch(path.name) is not None for path in folder.rglob(".*"))


def cells(folder: Path, names: Any) -> int:
    """How many models some shards hold."""
    return sum(len(json.loads((folder / "shards" / name).read_bytes())["rows"]) for name in names)


def disturbed(engine: str, out: Path, kills: int, whole: Whole, rng: random.Random) -> list[dict[str, Any]]:
    """Kill a sweep so many times, then let it end; a line for each kill."""
    lines: list[dict[str, Any]] = []
    before: dict[str, tuple[str, int]] = {}
    while len(lines) < kills:
        process = start(engine, out)
        after = rng.uniform(0.0, whole.begin + AHEAD * whole.each)
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode >= 0:  # it came to its end first: that is no kill
            if process.returncode:
                raise SystemExit(
                    f"The {engine} sweep ended with {process.returncode}: {process.communicate()[1].decode()}"
                )
            whole.begin *= 0.8
            continue
        now = shards(out)
        changed = [name for name, was in before.items() if now.get(name) != was]
        lines.append(
            {
                "engine": engine,
                "kill": len(lines) + 1,
                "after_seconds": round(after, 2),
                "finished_models": cells(out, now),
                "lost_or_changed_shards": len(changed),
                "broken_files": broken(out),
                "temporary_files": unfinished(out),
            }
        )
        print(*(f"{name} {value}" for name, value in lines[-1].items()), sep=", ", flush=True)
        before = now
    finish(engine, out)
    after_all = shards(out)
    lines[-1]["lost_or_changed_shards"] += sum(after_all.get(name) != was for name, was in before.items())
    return lines


def compare(engine: str, whole: Path, out: Path, lines: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What a disturbed sweep has lost, doubled or changed."""
    expected = Counter(row["cell"] for row in read_csv(whole / "results.csv"))
    present = Counter(row["cell"] for row in read_csv(out / "results.csv"))
    same = [name for name in TABLES if (whole / name).read_bytes() == (out / name).read_bytes()]
    return {
        "engine": engine,
        "models": expected.total(),
        "shards": len(shards(out)),
        "kills": len(lines),
        "models_lost": (expected - present).total(),
        "models_doubled": (present - expected).total(),
        "shards_trained_twice": sum(line["lost_or_changed_shards"] for line in lines),
        "broken_files": sum(line["broken_files"] for line in lines),
        "temporary_files_at_the_end": unfinished(out),
        "identical_tables": f"{len(same)} of {len(TABLES)}",
        "seconds": round(seconds, 1),
        "hardware": hardware(),
    }


def main() -> None:
    """Read the options, kill, compare, write and print."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kills", type=int, default=30, help="of the fleet's sweep")
    p.add_argument("--solo-kills", type=int, default=6, help="of the solo engine's")
    p.add_argument("--seed", type=int, default=0, help="of the moments")
    p.add_argument("--out", type=Path, default=Path("docs/results/reliability"))
    o = p.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(o.seed)
    every: list[dict[str, Any]] = []
    sweeps = []
    with tempfile.TemporaryDirectory() as scratch:
        for engine, kills in (("fleet", o.kills), ("solo", o.solo_kills)):
            begun = time.monotonic()
            whole = undisturbed(engine, Path(scratch) / engine / "whole")
            out = Path(scratch) / engine / "killed"
            lines = disturbed(engine, out, kills, whole, rng)
            every += lines
            sweeps.append(compare(engine, whole.folder, out, lines, time.monotonic() - begun))
    write_csv(o.out / "kills.csv", every)
    write_csv(o.out / "sweeps.csv", sweeps)
    for row in sweeps:
        print("\n".join(f"{name:>28}  {value}" for name, value in row.items()), end="\n\n")
    good = all(
        not any(row[name] for name in ("models_lost", "models_doubled", "shards_trained_twice", "broken_files"))
        and row["identical_tables"] == f"{len(TABLES)} of {len(TABLES)}"
        for row in sweeps
    )
    print(f"{'Nothing was lost' if good else 'SOMETHING WAS LOST'}: {o.out}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
