"""A small irony experiment on features, and its finished run."""

import pytest

from synib.report import build
from synib.studies import IronyRates
from synib.training.folder import Folder, read_csv
from synib.training.sweep import sweep


@pytest.fixture(scope="session")
def small(ravdess_root):
    return IronyRates(
        root=str(ravdess_root), methods=("vanilla", "synib-marginal"), alpha=(0.5, 2.0), fold=(0, 1, 4), epochs=3
    )


@pytest.fixture(scope="session")
def finished(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("irony")
    sweep(small, small.cells(), Folder(path, small.config()))
    return build(path), read_csv(path / "results.csv"), path
