"""Does the audit claim synergy where there is none, and find it where there is? Data whose truth is known, written to files.

Kinds of data, all but one with a label that a logistic link makes noisy:
    synergy     the product of two signs, one in each modality (an XOR), beside numbers that mean nothing
    mixed       half of the evidence is the product, a quarter in each modality alone
    redundant   both modalities are noisy views of one cause: pooling helps, and nothing else
    unique      the first modality alone tells, by a curve that is no line; the second is noise
    both        each modality tells its own part, and the parts add up
    sum         the sign of a sum of two numbers, one in each modality, without noise: additive, and hard to see alone
    noise       nothing tells
    copied      one number is in both modalities, and its square tells: a product of both is no more than a square of one
The audit is called as a user would, `synib audit FILE --quick`, in a process of its own, and knows nothing of this file.

    python benchmarks/audit_truth.py [--sets 100] [--rows 2000] [--width 16] [--kind redundant] [--out FILE.csv] [--jobs 2]
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
TRUTH = {
    "synergy": True,
    "mixed": True,
    "redundant": False,
    "unique": False,
    "both": False,
    "sum": False,
    "noise": False,
    "copied": False,
}


def made(kind: str, rows: int, width: int, seed: int) -> dict[str, NDArray[Any]]:
    """Two modalities of so many numbers each, and a label."""
    rng = np.random.default_rng([seed, list(TRUTH).index(kind)])
    a, b = rng.normal(size=(rows, width)), rng.normal(size=(rows, width))
    evidence = np.zeros(rows)
    if kind in ("synergy", "mixed"):
        evidence = 3.0 * np.sign(a[:, 0]) * np.sign(b[:, 0])
    if kind == "mixed":
        evidence = 0.5 * evidence + 1.0 * a[:, 1] + 1.0 * b[:, 1]
    if kind == "redundant":
        cause = rng.choice([-1.0, 1.0], rows)
        a[:, 0], b[:, 0] = cause + rng.normal(size=rows), cause + rng.normal(size=rows)
        evidence = 3.0 * cause
    if kind == "unique":
        evidence = 2.0 * np.sin(2.0 * a[:, 0]) + 1.5 * a[:, 1]
    if kind == "both":
        evidence = 1.5 * a[:, 0] + 1.5 * np.abs(b[:, 0]) - 1.2
    if kind == "copied":
        b[:, 0] = a[:, 0]
        evidence = 1.5 * (np.square(a[:, 0]) - 1)
    if kind == "sum":
        evidence = 1000.0 * (a[:, 0] + b[:, 0])
    label = (rng.uniform(size=rows) < 1 / (1 + np.exp(-evidence.clip(-500, 500)))).astype(np.int64)
    turn = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(2)]
    return {"first": (a @ turn[0]).astype(np.float32), "second": (b @ turn[1]).astype(np.float32), "label": label}


def audited(kind: str, rows: int, width: int, seed: int) -> dict[str, Any]:
    """What the audit says of one set."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, **made(kind, rows, width, seed))  # type: ignore[arg-type]
        start = time.perf_counter()
        command = [sys.executable, "-m", "synib.cli", "audit", str(file), "--quick", "--out", str(Path(folder) / "out")]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
        )
        if done.returncode:
            raise SystemExit(f"{kind} {seed}: {done.stderr or done.stdout}")
        said = json.loads((Path(folder) / "out" / "verdict.json").read_text())
        seconds = time.perf_counter() - start
    told = {f"{what}_{part}": said[what][part] for what in ("interaction", "gain") for part in ("mean", "low", "high")}
    return {
        "kind": kind,
        "seed": seed,
        "rows": rows,
        "width": width,
        "synergy": said["synergy"],
        **told,
        **{f"planted_{part}": (said["planted"] or {}).get(part, 0) for part in ("found", "of")},
        "seconds": round(seconds, 1),
    }


def read(file: str | None) -> list[dict[str, Any]]:
    """The rows of an earlier run."""
    if not file or not Path(file).exists():
        return []
    whole = ("seed", "rows", "width", "planted_found", "planted_of")
    with open(file, newline="") as text:
        rows: list[dict[str, Any]] = list(csv.DictReader(text))
    return [
        {k: v if k in ("kind", "synergy") else int(v) if k in whole else float(v) for k, v in row.items()}
        for row in rows
    ]


def write(file: str, rows: list[dict[str, Any]]) -> None:
    with open(file, "w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--kind", action="append", choices=TRUTH)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", help="write a row for each set there; what is there already is not done again")
    options = parser.parse_args()
    tasks = [
        (k, options.rows, options.width, s)
        for s in range(options.first, options.first + options.sets)
        for k in options.kind or TRUTH
    ]
    rows = read(options.out)
    known = {(row["kind"], row["rows"], row["width"], row["seed"]) for row in rows}
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda task: audited(*task), [task for task in tasks if task not in known]):
            rows.append(row)
            if options.out:  # at once: a study that is stopped goes on where it was
                write(options.out, rows)
    print(f"{'kind':<12}{'truth':<10}{'present':>9}{'unclear':>9}{'absent':>9}{'gain':>8}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        share = {
            word: sum(row["synergy"] == word for row in mine) / len(mine) for word in ("present", "unclear", "absent")
        }
        gain = sum(row["gain_mean"] for row in mine) / len(mine)
        told = "".join(f"{share[word]:>9.0%}" for word in share)
        print(f"{kind:<12}{'synergy' if TRUTH[kind] else 'none':<10}{told}{gain:>8.3f}")


if __name__ == "__main__":
    main()
