"""A sweep that takes a second, and processes of their own that something happens to."""

import multiprocessing
import runpy
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synib.studies import SpuriousXOR, run

TABLES = ("results.csv", "curves.csv")
BEGIN = """
    import os, signal, sys, time
    import torch
    torch.set_num_threads(1)
    from synib.studies import SpuriousXOR, run
"""


@pytest.fixture(scope="session")
def small() -> SpuriousXOR:
    """Three models of one method."""
    return SpuriousXOR(seeds=3, beta=(1.0,), methods=("vanilla",), epochs=2)


@pytest.fixture(scope="session")
def tables() -> Callable[[Path], dict[str, bytes]]:
    """The bytes of a finished run's tables."""
    return lambda folder: {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="session")
def whole(small: SpuriousXOR, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder after a run that nobody disturbed, one model after the other."""
    return run(small, tmp_path_factory.mktemp("whole") / "run", device="cpu", together=1)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``child(code, NAME=value)``: a process that runs code; one that is still alive after the test is killed."""
    # One server imports what all need; a script is what a process can be given from here.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["synib.cli.app", "synib.training.solo_module"])
    started: list[Any] = []

    def start(code: str, **names: Any) -> Any:
        script = tmp_path / f"script{len(started)}.py"
        script.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(code))
        process = context.Process(target=runpy.run_path, args=(str(script), names, "__main__"))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.fixture(scope="session")
def hidden() -> Callable[[Path], list[str]]:
    """Names in a folder that begin with a dot: locks, and files that were not written to their end."""
    return lambda folder: sorted(p.name for p in folder.rglob(".*"))
