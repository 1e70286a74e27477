"""Arrays that are computed once and kept on disk."""

import hashlib
import json
import os

import numpy as np
import pytest

from synib.files.arrays import ArrayCache


def fill(folder, values=(1.0, 2.0), source="s", key="x", notes=None):
    with ArrayCache(folder, "index").create(key, source, (len(values),), "float64", notes) as array:
        array[:] = values


def opened(folder, key="x"):
    return ArrayCache(folder, "index").open(key)


def array_file(folder):
    (path,) = folder.glob("*.npy")
    return path


def test_an_array_is_mapped_with_its_source_and_notes(tmp_path):
    notes = []
    with ArrayCache(tmp_path / "new", "index").create("x", {"a": (1, 2)}, (2, 3), "uint8", notes) as array:
        array[:] = 7
        notes.append("late")
    cache = ArrayCache(tmp_path / "new", "index")
    assert isinstance(cache.open("x"), np.memmap)
    assert cache.open("x").tolist() == [[7] * 3] * 2
    assert cache.record("x")[:2] == ({"a": [1, 2]}, ["late"])
    assert (cache.record("y"), cache.open("y")) == (None, None)
    cache.open("x").fill(5)  # which does not reach the file
    assert cache.open("x").tolist() == [[7] * 3] * 2


def test_an_array_of_another_source_takes_the_place_of_the_one_before(tmp_path):
    fill(tmp_path)
    before = array_file(tmp_path)
    fill(tmp_path, (3.0,), "t")
    assert opened(tmp_path).tolist() == [3.0]
    assert array_file(tmp_path) != before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_array_that_was_not_finished_leaves_what_was_there(tmp_path, error):
    fill(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(error), ArrayCache(tmp_path, "index").create("x", "t", (1,), "float64"):
        raise error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def shorten(path):
    path.write_bytes(path.read_bytes()[:-8])


def change(path):
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def link(path):
    path.symlink_to(path.rename(path.parent.parent / "elsewhere.npy"))


@pytest.mark.parametrize("harm", [shorten, change, link])
def test_a_damaged_array_is_said_and_not_used_and_can_be_made_again(tmp_path, harm):
    fill(tmp_path / "cache")
    path = array_file(tmp_path / "cache")
    harm(path)
    os.utime(path, ns=(1, 1))
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged and is computed again\."):
        assert opened(tmp_path / "cache") is None
    fill(tmp_path / "cache", (3.0,))
    assert opened(tmp_path / "cache").tolist() == [3.0]
    if harm is link:
        assert np.load(tmp_path / "elsewhere.npy", allow_pickle=False).tolist() == [1.0, 2.0]


def test_an_array_that_was_removed_is_not_there(tmp_path):
    fill(tmp_path)
    array_file(tmp_path).unlink()
    assert opened(tmp_path) is None


@pytest.mark.parametrize("harm", ["{", "[]", '{"format": "synib arrays 1", "arrays": {"x": {}}}', "elsewhere"])
def test_a_record_that_is_damaged_or_names_files_elsewhere_is_not_used(tmp_path, harm):
    fill(tmp_path / "cache")
    index = tmp_path / "cache" / "index.json"
    content = json.loads(index.read_text())
    outside = array_file(tmp_path / "cache").rename(tmp_path / "outside.npy")
    content["arrays"]["x"]["file"] = "../outside.npy"
    index.write_text(json.dumps(content) if harm == "elsewhere" else harm)
    assert opened(tmp_path / "cache") is None
    fill(tmp_path / "cache")
    assert outside.exists()


def test_a_checksum_is_compared_once_in_a_process_and_again_when_the_file_changed(tmp_path, monkeypatch):
    fill(tmp_path)
    digest, calls = hashlib.file_digest, []
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: calls.append(1) or digest(*a))
    for expected in (0, 0):  # it was written by this process
        assert opened(tmp_path) is not None
        assert len(calls) == expected
    for time in (1, 2):
        os.utime(array_file(tmp_path), ns=(time, time))
        for _ in range(2):
            assert opened(tmp_path) is not None
        assert len(calls) == time


def test_keys_that_are_no_file_names_stay_in_the_folder(tmp_path):
    fill(tmp_path / "in", (1.0,), key="/a/b")
    fill(tmp_path / "in", (2.0,), key="../a b")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [opened(tmp_path / "in", key).tolist() for key in ("/a/b", "../a b")] == [[1.0], [2.0]]
