"""Arrays made from files once."""

import numpy as np
import pytest
import torch

from synib.data.cache import cached, gather
from synib.data.media import BrokenFile


class Reader:
    """Reads a number from a text file into a row of two, and notes what it read."""

    def __init__(self):
        self.read = []

    def __call__(self, path):
        self.read.append(path.name)
        text = path.read_text() if path.exists() else "missing"
        if not text.isdigit():
            raise BrokenFile(f"{path.name} is broken.")
        return np.full(2, int(text), np.int64)


@pytest.fixture
def files(tmp_path):
    paths = {}
    for i in range(4):
        paths[f"f{i}"] = tmp_path / f"{i}.txt"
        paths[f"f{i}"].write_text(str(i))
    return paths


def call(tmp_path, files, read, recipe="r", **options):
    return cached(tmp_path / "cache", "x", files, read, (2,), "int64", recipe, **options)


@pytest.mark.parametrize("workers", [1, 3])
def test_files_are_read_once_and_then_mapped(tmp_path, files, workers):
    read = Reader()
    calls = []
    first = call(tmp_path, files, read, workers=workers, on_file=lambda *n: calls.append(n))
    again = call(tmp_path, files, read)
    assert sorted(read.read) == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert torch.equal(first.values, torch.arange(4)[:, None].expand(4, 2))
    assert torch.equal(first.values, again.values)
    assert sorted(p.suffix for p in (tmp_path / "cache").iterdir()) == [".json", ".npy"]


def test_a_changed_a_new_and_a_reordered_file_are_noticed_and_only_these_read(tmp_path, files):
    call(tmp_path, files, Reader())
    files["f1"].write_text("71")
    (tmp_path / "4.txt").write_text("4")
    order = {"f4": tmp_path / "4.txt", **dict(reversed(files.items()))}
    read = Reader()
    assert call(tmp_path, order, read).values[:, 0].tolist() == [4, 3, 2, 71, 0]
    assert sorted(read.read) == ["1.txt", "4.txt"]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_another_recipe_reads_everything_again(tmp_path, files):
    read = Reader()
    call(tmp_path, files, read)
    call(tmp_path, files, read, recipe="other")
    assert len(read.read) == 8


def test_broken_files_are_zeros_and_remembered_until_they_change(tmp_path, files):
    files["f2"].write_text("oops")
    files["f3"].unlink()
    read = Reader()
    for _ in range(2):
        out = call(tmp_path, files, read)
        assert out.broken == {"f2": "2.txt is broken.", "f3": "3.txt is broken."}
        assert out.values[:, 0].tolist() == [0, 1, 0, 0]
    assert len(read.read) == 4
    files["f2"].write_text("22")
    files["f3"].write_text("33")
    out = call(tmp_path, files, read)
    assert out.broken == {}
    assert out.values[:, 0].tolist() == [0, 1, 22, 33]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16])
def test_rows_are_gathered_into_memory_or_a_nameless_file(tmp_path, dtype):
    x = (torch.rand(700, 3, 2) * 200).to(dtype)
    rows = np.random.default_rng(0).integers(0, 700, 600)
    for scratch in (None, tmp_path / "scratch"):
        assert torch.equal(gather(x, rows, scratch), x[torch.from_numpy(rows)])
    assert list((tmp_path / "scratch").iterdir()) == []
    assert gather(x, np.zeros(0, np.int64), tmp_path).shape == (0, 3, 2)


def test_neighbouring_rows_are_a_view():
    x = torch.rand(10, 2)
    assert gather(x, np.arange(3, 8)).data_ptr() == x[3:].data_ptr()
