"""Arrays in mapped files: read in blocks and by row numbers, their pages handed back only where nothing can be lost."""

import mmap
import sys

import numpy as np
import pytest
import torch

from synib.files import pages
from synib.files.pages import RowReader, RowsOnDemand, blocks, release


@pytest.fixture(autouse=True)
def every_mapping_counts_as_large(monkeypatch):
    monkeypatch.setattr(pages, "KEPT", 0)


@pytest.fixture
def mapped(tmp_path):
    """A private mapping of a file, as tables have it, and the numbers in the file."""
    numbers = np.random.default_rng(0).normal(size=(500, 7)).astype(np.float32)
    numbers.tofile(tmp_path / "numbers")
    with (tmp_path / "numbers").open("rb") as stream:
        memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    return np.ndarray(numbers.shape, np.float32, memory), numbers


def test_pages_are_handed_back_only_where_nothing_was_written(mapped):
    x, numbers = mapped
    assert release(x) == release(x[10:20]) == sys.platform.startswith("linux")
    assert np.array_equal(x, numbers)
    x[3] = 0
    assert not release(x)
    assert not release(x[10:20])
    assert (x[3] == 0).all()
    assert np.array_equal(x[4:], numbers[4:])


def test_pages_that_cannot_be_written_to_are_handed_back_on_any_system(mapped):
    x, numbers = mapped
    x.flags.writeable = False
    assert release(x) == hasattr(mmap.mmap, "madvise")
    assert np.array_equal(x, numbers)


def test_pages_of_a_small_mapping_stay(mapped, monkeypatch):
    monkeypatch.setattr(pages, "KEPT", mapped[1].nbytes)
    assert not release(mapped[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="known on Linux only")
def test_a_number_that_is_written_is_noticed_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ENTRIES", 3)
    np.arange(20 * mmap.PAGESIZE, dtype=np.uint8).tofile(tmp_path / "bytes")
    for place in (0, 7 * mmap.PAGESIZE, 20 * mmap.PAGESIZE - 1):
        with (tmp_path / "bytes").open("rb") as stream:
            memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        x = np.ndarray(len(memory), np.uint8, memory)
        assert int(x.sum(dtype=np.int64)) > 0  # read, and not written to
        assert release(x)
        x[place] = 77
        assert not release(x)
        assert x[place] == 77


def test_an_array_in_memory_has_no_pages_to_hand_back():
    assert not release(np.zeros((3, 2)))


def test_blocks_are_all_rows_in_order(mapped):
    x, numbers = mapped
    read = list(blocks(x, 64))
    assert np.array_equal(np.concatenate([block for _, block in read]), numbers)
    assert all(np.array_equal(numbers[rows], block) for rows, block in read)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_reader_gives_any_rows_in_single_precision_however_many_are_mapped_at_a_time(mapped, monkeypatch, dtype):
    x, numbers = mapped
    x = x if dtype == np.float32 else x.astype(dtype)
    rows = torch.randint(0, 500, (300,), generator=torch.Generator().manual_seed(0))
    for at_once in (pages.MAPPED, 40 * pages.AROUND):
        monkeypatch.setattr(pages, "MAPPED", at_once)
        reader = RowReader(x)
        for _ in range(3):
            found = reader(rows)
            assert found.dtype == torch.float32
            assert np.array_equal(found.numpy(), x[rows.numpy()].astype(np.float32))
    found += 1  # a copy: the file's numbers stay
    assert np.array_equal(mapped[0], numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_on_demand_are_the_chosen_rows_of_an_array(dtype):
    x = np.arange(40, dtype=np.float16).reshape(10, 4)
    chosen = RowsOnDemand(x, np.array([7, 2, 5]), dtype=dtype)
    assert chosen.shape == (3, 4)
    assert torch.equal(chosen[torch.tensor([2, 0])], torch.from_numpy(x[[5, 7]]).to(dtype))
