"""Out of memory in the midst of a step: what is left is halved, what is finished is kept."""

import pytest
import torch

from synib.files import read_csv
from synib.studies import run
from synib.training.stacked import StackedModels


def test_a_device_without_memory_costs_nothing_that_was_finished(small, whole, tmp_path, monkeypatch):
    gradient, steps, said = StackedModels.gradient, iter(range(10**6)), []

    def failing(self, *batch):
        if next(steps) == 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return gradient(self, *batch)

    monkeypatch.setattr(StackedModels, "gradient", failing)
    path = run(small, tmp_path / "run", device="cpu", together=3, say=said.append)
    assert "Out of memory with 3 models at once on" in said[1]
    for row, want in zip(read_csv(path / "results.csv"), read_csv(whole / "results.csv"), strict=True):
        assert row == pytest.approx(want)
