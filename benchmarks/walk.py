"""How far one has to read: the functions and files of this package that a batch, or a cell, passes through.

Counts with ``sys.setprofile`` every call of a Python function that is defined in ``src/synib``: how many, in how many files,
and how often a call leads from one file into another. The counts are those of docs/architecture.md.

    python benchmarks/walk.py [--list]
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import synib

SOURCE = Path(synib.__file__).parent


def walk(run: Callable[[], object]) -> list[tuple[str, str]]:
    """The calls into this package while ``run`` runs: file and function of each, in order."""
    calls: list[tuple[str, str]] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<"):
            calls.append((str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def batch() -> Callable[[], object]:
    """A call of SynIB with random masks and normal noise, on a model with unimodal heads, and its backward pass."""
    model = synib.FusionModel.mlp({"a": 8, "b": 8}, hidden=[16], classes=3, head_hidden=[])
    objective = synib.SynIB(synib.RandomMask(0.4), synib.StandardNoise())
    seen = {name: torch.randn(32, 8) for name in ("a", "b")}
    target = torch.randint(3, (32,))

    def run() -> None:
        objective(model, seen, target)[0].backward()  # type: ignore[no-untyped-call]

    run()
    return run


def cell() -> Callable[[], object]:
    """A cell of the PID simplex, from its options to its row in ``results.csv``, without the report."""
    from synib.studies import PIDSimplex, run

    small = PIDSimplex.from_config({**PIDSimplex.quick, "seeds": 1, "methods": ["synib-random"], "epochs": 1})

    def train() -> None:
        with tempfile.TemporaryDirectory() as folder:
            run(small, Path(folder) / "run", device="cpu")

    return train


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Calls, files and changes of file on the way of a batch and of a cell."
    )
    parser.add_argument("--list", action="store_true", help="Also list the functions of each file.")
    arguments = parser.parse_args()
    for name, make in (("batch", batch), ("cell", cell)):
        calls = walk(make())
        files = [file for file, _ in calls]
        switches = sum(before != after for before, after in pairwise(files))
        functions = len(set(calls))
        print(
            f"{name}: {len(calls)} calls of {functions} functions in {len(set(files))} files, {switches} changes of file"
        )
        if arguments.list:
            for (file, function), times in Counter(calls).most_common():
                print(f"  {times:4d} {file}: {function}")


if __name__ == "__main__":
    main()
