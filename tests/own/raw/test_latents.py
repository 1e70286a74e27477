"""Latents are computed once, block by block, by one process at a time."""

import multiprocessing

import numpy as np
import pytest

from synib.own.raw.latents import cache_folder, stored

SOURCE = {"content": "abc", "encoder": "test", "revision": "1"}
ROWS, WIDTH, STEP = 10, 3, 4


def numbers(first: int, count: int):
    return np.arange(first * WIDTH, (first + count) * WIDTH, dtype=np.float32).reshape(count, WIDTH)


class Blocks:
    """Blocks of consecutive numbers that note which were asked for; ``dies`` after so many."""

    def __init__(self, dies: int = 99) -> None:
        self.made, self.dies = [], dies

    def __call__(self, first: int):
        for start in range(first, ROWS, STEP):
            if len(self.made) == self.dies:
                raise KeyboardInterrupt
            self.made.append(start)
            yield numbers(start, min(STEP, ROWS - start)), {start: f"broken {start}"} if start == 4 else {}


def test_what_was_computed_is_mapped_the_next_time():
    first, second = Blocks(), Blocks()
    computed = stored(SOURCE, ROWS, WIDTH, STEP, first)
    assert first.made == [0, 4, 8]
    assert np.array_equal(computed.values, numbers(0, ROWS))
    again = stored(SOURCE, ROWS, WIDTH, STEP, second)
    assert second.made == []
    assert isinstance(again.values, np.memmap)
    assert np.array_equal(again.values, numbers(0, ROWS))
    assert again.broken == {4: "broken 4"}
    other = Blocks()
    stored({**SOURCE, "revision": "2"}, ROWS, WIDTH, STEP, other)
    assert other.made == [0, 4, 8]


def test_a_killed_process_loses_one_block():
    dying = Blocks(dies=2)
    with pytest.raises(KeyboardInterrupt):
        stored(SOURCE, ROWS, WIDTH, STEP, dying)
    going_on = Blocks()
    latents = stored(SOURCE, ROWS, WIDTH, STEP, going_on)
    assert going_on.made == [8]
    assert np.array_equal(latents.values, numbers(0, ROWS))
    assert latents.broken == {4: "broken 4"}
    assert not list(cache_folder().rglob("blocks-*"))


def test_a_damaged_block_and_a_damaged_array_are_made_again():
    with pytest.raises(KeyboardInterrupt):
        stored(SOURCE, ROWS, WIDTH, STEP, Blocks(dies=2))
    (block,) = cache_folder().rglob("00000001.npy")
    block.write_bytes(block.read_bytes()[:40])
    going_on = Blocks()
    stored(SOURCE, ROWS, WIDTH, STEP, going_on)
    assert going_on.made == [4, 8]
    (array,) = cache_folder().rglob("latents-*.npy")
    array.write_bytes(array.read_bytes()[:-1] + b"x")
    anew = Blocks()
    with pytest.warns(UserWarning, match="is damaged and is computed again"):
        latents = stored(SOURCE, ROWS, WIDTH, STEP, anew)
    assert anew.made == [0, 4, 8]
    assert np.array_equal(latents.values, numbers(0, ROWS))


def work(started, go_on, queue):
    def blocks(first):
        for start in range(first, ROWS, STEP):
            queue.put(start)
            started.set()
            go_on.wait(20)
            yield numbers(start, min(STEP, ROWS - start)), {}

    latents = stored(SOURCE, ROWS, WIDTH, STEP, blocks)
    queue.put(float(latents.values.sum()))


def test_a_second_process_waits_for_the_first_and_computes_nothing():
    context = multiprocessing.get_context("fork")
    started, go_on, queue = context.Event(), context.Event(), context.Queue()
    both = [context.Process(target=work, args=(started, go_on, queue)) for _ in range(2)]
    for process in both:
        process.start()
    assert started.wait(20)
    go_on.set()
    found = sorted(queue.get(timeout=20) for _ in range(5))
    for process in both:
        process.join(20)
        assert process.exitcode == 0
    assert found == sorted([0, 4, 8, numbers(0, ROWS).sum(), numbers(0, ROWS).sum()])


def test_a_folder_that_cannot_be_written_is_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SYNIB_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"Latents cannot be cached in .*: set SYNIB_CACHE to another folder"):
        stored(SOURCE, ROWS, WIDTH, STEP, Blocks())


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.delenv("SYNIB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "synib"
