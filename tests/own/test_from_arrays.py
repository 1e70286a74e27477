"""Arrays out of .npz files: whole, without pickles, and no more than the file has."""

import io
import zipfile

import numpy as np
import pytest

from synib.own.from_arrays import read_npz

ARRAYS = {"x": np.arange(6, dtype=np.float16).reshape(2, 3), "id": np.array(["a", "bc"]), "empty": np.zeros((0, 2))}


@pytest.fixture
def path(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", **ARRAYS)
    return tmp_path / "a.npz"


def rewrite(path, name, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.npy", content)


def test_arrays_come_out_as_they_went_in(path):
    read = read_npz(path, ARRAYS)
    assert read.keys() == ARRAYS.keys()
    for name, x in ARRAYS.items():
        np.testing.assert_array_equal(read[name], x)
        assert read[name].dtype == x.dtype


def test_only_what_is_asked_for_is_read_and_what_is_missing_is_named(path):
    assert read_npz(path, ["x"]).keys() == {"x"}
    with pytest.raises(ValueError, match=r"has no array label; it has empty, id, x\."):
        read_npz(path, ["x", "label"])


def test_pickles_inside_are_refused(path):
    np.savez(path, x=np.array([{"a": 1}], object))
    with pytest.raises(ValueError, match="x is an array of objects, which would have to be unpickled"):
        read_npz(path, ["x"])


def test_a_header_that_claims_more_than_there_is_makes_no_array(path):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (2**45,)})
    rewrite(path, "x", content.getvalue() + b"12345678")
    with pytest.raises(ValueError, match=r"is truncated or damaged: x does not hold \(35184372088832,\) values"):
        read_npz(path, ["x"])


def test_a_file_that_was_cut_or_changed_or_is_something_else_is_said_to_be(path):
    content = path.read_bytes()
    for changed in (b"", b"text", content[: len(content) // 2], content[:60] + b"\x00\x01\x02\x03" + content[64:]):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"a\.npz is (not an \.npz file, or is )?truncated or damaged"):
            read_npz(path, ["x"])
    rewrite(path, "x", b"no array")
    with pytest.raises(ValueError, match=r"is truncated or damaged: x is not an \.npy array"):
        read_npz(path, ["x"])


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"none\.npz does not exist"):
        read_npz(tmp_path / "none.npz", ["x"])
