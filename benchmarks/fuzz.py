"""Throw damaged and odd inputs at the readers and the command: nothing but an answer or a sentence may come back.

    python benchmarks/fuzz.py --inputs 10000 --out docs/results/reliability/fuzz.csv

Every input runs in a folder of its own, in a process that is watched: one that takes longer than --limit seconds is ended and
counted as a hang, and one that dies as a crash. Counted as well: anything but exit code 0, 1 (synib data check and verify: not
whole, does not match) or 2 with one sentence; whatever is written, made or removed outside the output folder; processes,
connections and unpickled names. Training is left out, and so is most drawing (one page in ten is drawn): inputs that turn out
right end where it would begin. Memory is limited to 3 GB more than the process has at its start.
"""

import argparse
import csv
import io
import json
import multiprocessing as mp
import os
import random
import resource
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz_targets import TARGETS, prepare

from synib.own.arrow_child import WORKER

COUNTED = ("answered", "said", "traceback", "untidy", "hang", "crash", "outside", "forbidden")
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
)
DECODER = [sys.executable, "-P", str(WORKER)]  # the process of its own that Parquet is decoded in
CHANGES = {
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
}  # event → how many paths
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MEMORY = 3 * 2**30


class Watch:
    """Notes what is written, and what else must not happen, while ``allowed`` is set."""

    def __init__(self) -> None:
        self.allowed: list[str] | None = None
        self.outside: list[str] = []
        self.forbidden: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event == "subprocess.Popen" and arguments[1] == DECODER:
            return
        if event in FORBIDDEN:
            self.forbidden.append(f"{event} {str(arguments)[:100]}")
        elif event in CHANGES:
            within = arguments[-1] if event in ("os.mkdir", "os.remove", "os.rmdir") else -1  # of which folder
            for path in arguments[: CHANGES[event]]:
                self.look(path if within == -1 else Path(os.readlink(f"/proc/self/fd/{within}"), os.fsdecode(path)))
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            self.look(arguments[0])

    def look(self, path: Any) -> None:
        if isinstance(path, int) or self.allowed is None:
            return
        whole = os.path.realpath(os.fsdecode(path))
        if whole != os.devnull and not any(whole == a or whole.startswith(a + os.sep) for a in self.allowed):
            self.outside.append(whole)


@contextmanager
def untrained(draw: bool) -> Iterator[None]:
    """Whatever would be trained ends the command as if it were done; and pages are drawn only if asked for."""
    import typer

    def done(*_: Any, **__: Any) -> Any:
        raise typer.Exit(0)

    trained = {"synib.own.audit": "audit", "synib.own.fit": "fit", "synib.training.fleet": "train"}
    with ExitStack() as stack:
        for module, name in trained.items():
            stack.enter_context(patch.object(import_module(module), name, done))
        if not draw:
            stack.enter_context(patch.object(import_module("synib.report.build"), "write_page", lambda *_: None))
        yield


def attempt(target: str, seed: str, home: Path, box: Path, watch: Watch) -> tuple[list[str], str]:
    """Make one input, run it, and say what came: some of ``COUNTED``, and words on what was wrong."""
    rng = random.Random(f"{target} {seed}")
    shutil.rmtree(box, ignore_errors=True)
    for name in ("in", "work", "tmp"):
        (box / name).mkdir(parents=True)
    call, more = TARGETS[target](rng, home, box)
    os.chdir(box / "work")
    tempfile.tempdir = str(box / "tmp")
    os.environ["SYNIB_CACHE"] = str(box / "cache")
    before = _files(box / "in") if not more else {}
    watch.outside, watch.forbidden = [], []
    watch.allowed = [os.path.realpath(p) for p in (box / "out", box / "tmp", box / "cache", *more)]
    out, err = io.StringIO(), io.StringIO()
    state, why = "answered", ""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = _called(call, rng)
        state = "answered" if code in (0, 1) else "said"
        lines = (err.getvalue().strip() or out.getvalue().strip()).splitlines()  # help comes where results do
        if code not in (0, 1, 2) or (code == 1 and call[0] not in ("data", "verify")):  # type: ignore[index]
            state, why = "traceback", f"exit code {code}"
        elif code == 2 and not (len(lines) == 1 and lines[0].startswith("synib: ")) and not _usage(lines):
            state, why = "untidy", f"said {err.getvalue()[:600]!r}"
    except ValueError:
        state = "said"  # by a reader without a command
        if isinstance(call, list):
            state, why = "traceback", traceback.format_exc()[-1500:]
    except BaseException:
        state, why = "traceback", traceback.format_exc()[-1500:]
    finally:
        watch.allowed = None
    left = [str(p) for p in (box / "tmp").iterdir()]
    moved = [] if more else sorted(_files(box / "in").items() ^ before.items())
    outside = [*watch.outside, *left, *map(str, moved)]
    states = [state, *["outside"] * bool(outside), *["forbidden"] * bool(watch.forbidden)]
    why += f" outside: {outside[:3]}" * bool(outside) + f" forbidden: {watch.forbidden[:3]}" * bool(watch.forbidden)
    return states, f"{shlex.join(call) if isinstance(call, list) else ''} {why}" if why else ""


def _called(call: list[str] | Callable[[], Any], rng: random.Random) -> int:
    """The exit code of a command, as a shell would see it; 0 of a reader that answers."""
    from synib.cli import main

    if not isinstance(call, list):
        call()
        return 0
    sys.argv = ["synib", *call]
    try:
        with untrained(draw=rng.random() < 0.1):
            main()
        return 0
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 0 if e.code is None else 1


def _usage(lines: list[str]) -> bool:
    return bool(lines) and lines[0].lstrip().startswith(("Usage:", "╭─ Error"))


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


def work(home: Path, box: Path, seed: int, first: int, last: int, pipe: Any) -> None:
    """Run inputs one after the other and send a line for each."""
    os.environ |= {"HOME": str(box), "MPLCONFIGDIR": str(home / "matplotlib"), "COLUMNS": "200", "NO_COLOR": "1"}
    os.environ.pop("SYNIB_DEBUG", None)
    os.environ.pop("SYNIB_DATA", None)
    import matplotlib.pyplot  # noqa: F401
    import torch

    from synib.studies.provenance import code
    from synib.training.device import hardware

    code()  # asks git, and this the machine, once
    hardware()
    torch.set_num_threads(1)
    watch, names = Watch(), list(TARGETS)
    with open("/proc/self/statm") as pages:
        now = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    for i in range(first, last):
        pipe.send_bytes(json.dumps([i, *attempt(names[i % len(names)], f"{seed}-{i}", home, box, watch)]).encode())


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inputs", type=int, default=10_000)
    p.add_argument("--first", type=int, default=0, help="number of the first input")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--limit", type=float, default=60.0, help="seconds for one input; the machine may be busy")
    p.add_argument("--out", type=Path, default=Path("fuzz.csv"))
    p.add_argument("--failures", type=Path, default=Path("fuzz-failures.txt"), help="what was wrong, in full")
    o = p.parse_args()
    out, failures = o.out.resolve(), o.failures.resolve()
    sys.dont_write_bytecode = True
    begun, names = time.perf_counter(), list(TARGETS)
    counts = {name: Counter[str]() for name in names}
    last, at = o.first + o.inputs, o.first
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "valid"
        prepare(home)
        with failures.open("w") as wrong:
            while at < last:
                mine, theirs = mp.Pipe(duplex=False)
                child = mp.get_context("spawn").Process(
                    target=work, args=(home, Path(place) / "box", o.seed, at, last, theirs)
                )
                child.start()
                theirs.close()
                start = time.perf_counter()
                while at < last:
                    target = names[at % len(names)]
                    try:
                        if not mine.poll(
                            o.limit + 120 * (time.perf_counter() - start < 1)
                        ):  # the first waits for imports
                            states, why = ["hang"], f"no answer in {o.limit:g} s"
                        else:
                            _, states, why = json.loads(mine.recv_bytes())
                    except EOFError:
                        child.join()
                        states, why = ["crash"], f"the process died ({child.exitcode})"
                    counts[target].update(states)
                    if why:
                        wrong.write(f"{at} {target} {states} {why}\n\n")
                        wrong.flush()
                    at += 1
                    if at % 500 == 0:
                        print(f"{at} of {last}, {time.perf_counter() - begun:.0f} s", flush=True)
                    if states in (["hang"], ["crash"]):
                        break
                child.kill()
                child.join()
    rows: list[dict[str, Any]] = [
        {"target": n, "inputs": sum(c[k] for k in COUNTED[:6]), **{k: c[k] for k in COUNTED}} for n, c in counts.items()
    ]
    rows.append({"target": "all", **{k: sum(row[k] for row in rows) for k in ("inputs", *COUNTED)}})
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(rows[-1], f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
