"""What every test shares: a fixed seed, and hypothesis without deadlines, examples that repeat, and no folder left behind."""

import sys

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from synib import keys
from synib.masks import Probe

torch.set_num_threads(
    1
)  # tensors here are tiny: a second thread costs more than it brings, much more on a busy machine
settings.register_profile("synib", deadline=None, max_examples=25, derandomize=True, database=None)
settings.load_profile("synib")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def key() -> Tensor:
    return keys.key(0)


@pytest.fixture
def probe() -> Probe:
    """A probe of a modality called ``a`` that nobody may ask anything."""

    def refuse(_: Tensor) -> Tensor:
        raise AssertionError("this mask has nothing to ask")

    return Probe("a", refuse, None)


@pytest.fixture
def synib_command(monkeypatch, capsys, tmp_path):
    """``synib_command(*arguments)`` → exit code, standard output, standard error; in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("SYNIB_DEBUG", raising=False)

    from synib.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["synib", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as e:
            code = e.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def untrained(monkeypatch):
    """Fails the test if anything is trained."""

    def train(*_):
        raise AssertionError("nothing should have been trained")

    from synib.engines import fleet

    monkeypatch.setattr(fleet, "train", train)
