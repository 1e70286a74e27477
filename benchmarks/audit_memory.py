"""How much memory `synib audit --quick` and `synib fit` take, beside the size of the file.

Rows of two modalities, whose interaction decides the label, are written to an uncompressed .npz or to a folder of .npy files.
Each command runs in a process of its own, which is watched from outside: the most anonymous memory (the process's own), the
most mapped pages (of libraries and of the file, which the system takes back when it needs them), and the most of both, as the
kernel counts it. The first line of every command is that of a file of 200 rows of 2 x 4 numbers: what Python and the imported
libraries take. `own_over_file` is what a command takes beyond that line, divided by the size of the file.

With --split a column keeps every fifth row for validation, so that one fold is trained instead of three or five: the same
memory in a fraction of the time, for files of a million rows.

Two versions of the source can be compared in one run:

    python benchmarks/audit_memory.py [--size 20000x768] [--format npz] [--command audit] [--split] [--source after=src]
        [--out FILE.csv]
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BLOCK = 10_000  # rows made at a time
TINY = (200, 4)  # rows and width of the file that shows what the libraries take
COMMANDS = {
    "audit": ["audit", "--quick", "--static", "--json"],
    "fit": ["fit", "--method", "vanilla", "--no-baselines", "--budget", "1", "--json"],
}


def write(folder: Path, rows: int, width: int) -> Path:
    """A folder of .npy files."""
    if (folder / "part.npy").is_file():  # the last that is written: it was made before
        return folder
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    shape = rows, width
    first, second = (
        np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=shape)
        for name in ("first", "second")
    )
    label = np.empty(rows, np.int64)
    for at in range(0, rows, BLOCK):
        count = min(BLOCK, rows - at)
        a, b = (rng.standard_normal((count, width), dtype=np.float32) for _ in range(2))
        evidence = 3.0 * np.sign(a[:, 0]) * np.sign(b[:, 0]) + a[:, 1] + b[:, 1]
        label[at : at + count] = rng.uniform(size=count) < 1 / (1 + np.exp(-evidence))
        first[at : at + count], second[at : at + count] = a, b
    np.save(folder / "label.npy", label)
    np.save(folder / "part.npy", np.where(np.arange(rows) % 5 == 0, "validation", "train"))
    return folder


def packed(folder: Path) -> Path:
    """The same as an uncompressed .npz."""
    path = folder.with_suffix(".npz")
    np.savez(
        path, **{file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in sorted(folder.glob("*.npy"))}
    )
    return path


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


def resident(pid: int) -> dict[str, int]:
    """Anonymous memory and mapped pages of a process, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("Rss", "VmRSS"))}


def watched(arguments: list[str], source: Path) -> tuple[dict[str, Any], str]:
    """Run a command; its memory and seconds, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "synib.cli", *arguments], stdout=printed, stderr=errors, env=environment
        )
        anonymous = mapped = 0
        while True:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended:
                child.returncode = os.waitstatus_to_exitcode(status)
                break
            now = resident(child.pid)
            anonymous = max(anonymous, now.get("RssAnon", 0))
            mapped = max(mapped, now.get("RssFile", 0) + now.get("RssShmem", 0))
            time.sleep(0.01)
        seconds = time.perf_counter() - start
        printed.seek(0)
        errors.seek(0)
        if child.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed:\n{errors.read().decode()[-2000:]}")
        result = {
            "anonymous_gb": anonymous / 1e9,
            "mapped_gb": mapped / 1e9,
            "most_gb": usage.ru_maxrss * 1024 / 1e9,
            "seconds": seconds,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
        }
        return {name: round(value, 3) for name, value in result.items()}, printed.read().decode()


def answer(command: str, printed: str) -> str:
    """What the command found, to see that two versions agree."""
    said = json.loads(printed)
    if command == "audit":
        found = said["interaction"]
        return f"{said['synergy']}, {said['best']}: {found['mean']:.6f} [{found['low']:.6f}, {found['high']:.6f}]"
    return json.dumps(said["scores"]["log_loss"]) if "scores" in said else ""


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    sources = dict(text.split("=", 1) for text in options.source or [f"after={ROOT / 'src'}"])
    sizes = [tuple(map(int, size.split("x"))) for size in options.size or ["20000x768"]]
    libraries: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for rows, width in [TINY, *sizes]:
            folder = write(Path(options.files or scratch) / f"{rows}x{width}", rows, width)
            for form in options.format or ["npz"]:
                file = folder if form == "npy" else packed(folder)
                gb = size_of(file) / 1e9
                for command in options.command or COMMANDS:
                    for label, source in sources.items():
                        out = Path(scratch) / f"out-{command}-{label}-{rows}-{form}"
                        named = ["--split", "part"] if options.split else []
                        arguments = [*COMMANDS[command], str(file), *named, "--out", str(out)]
                        found, printed = watched(arguments, Path(source))
                        key = label, command
                        if (rows, width) == TINY:
                            libraries.setdefault(key, found["anonymous_gb"])
                        own = found["anonymous_gb"] - libraries[key]
                        yield {
                            "source": label, "command": command, "format": form, "rows": rows, "width": width,
                            "split": options.split, "file_gb": round(gb, 4), **found, "own_gb": round(own, 3),
                            "own_over_file": round(own / gb, 2) if (rows, width) != TINY else "",
                            "answer": answer(command, printed), "cpus": os.cpu_count(),
                            "load": round(os.getloadavg()[0], 1), "machine": platform.machine(),
                        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", help="ROWSxNUMBERS of each modality; 20000x768 by default")
    parser.add_argument("--format", action="append", choices=("npz", "npy"), help="npz by default")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="both by default")
    parser.add_argument("--source", action="append", help="LABEL=FOLDER of a synib; this one by default")
    parser.add_argument("--split", action="store_true", help="train on four of five rows, once (fit alone)")
    parser.add_argument("--files", help="folder in which the files are kept for another run; by default they are not")
    parser.add_argument("--out", type=Path, help="also write the lines there, after those that it has")
    options = parser.parse_args()
    for line in measured(options):
        print(", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
        if options.out:
            is_new = not options.out.exists()
            with options.out.open("a", newline="") as stream:
                writer = csv.DictWriter(stream, list(line), lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerow(line)


if __name__ == "__main__":
    main()
