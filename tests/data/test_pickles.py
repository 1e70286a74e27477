"""Pickle files: arrays and plain containers come out whole, and nothing else comes out, or runs."""

import collections
import contextlib
import os
import pickle
import random
import struct

import numpy as np
import pytest

from synib.data import pickles
from synib.data.pickles import read_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
ARRAYS = {
    "float": np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 2, 3),
    "half": np.array([0.5, np.inf], np.float16),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big endian": np.arange(3, dtype=">i4"),
    "truth": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "text": np.array(["a", "longer", "ü"]),
    "bytes": np.array([b"ab", b"c"]),
    "empty": np.zeros((0, 3)),
    "no dimensions": np.array(3.5),
    "one number": np.float64(0.25),
    "one whole number": np.int64(-3),
}
PLAIN = {
    "l": [1, -(2**40), 2.5, None, True, "täxt", b"\x00\xff"],
    "t": ((), (1,), (1, 2, 3, 4)),
    3: {"a": {}},
    "s": {1, 2},
}


@pytest.fixture
def written(tmp_path):
    """``written(content)`` → path of a file with these bytes, or with this object's pickle."""

    def write(content, protocol=4):
        path = tmp_path / "file.pkl"
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
        return path

    return write


def refuses(path, said):
    with pytest.raises(ValueError, match=said) as raised:
        read_pickle(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_and_plain_containers_come_out_as_they_went_in(written, protocol):
    read = read_pickle(written({"plain": PLAIN, **ARRAYS}, protocol))
    plain = read.pop("plain")
    assert plain == PLAIN
    assert [type(x) for x in plain["l"]] == [type(x) for x in PLAIN["l"]]
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
        assert type(read[name]) is type(array)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_objects_hold_texts_and_arrays(written, protocol):
    ids, ragged = np.array(["a[1]", "b[2]"], object), np.empty(2, object)
    ragged[0], ragged[1] = np.ones(2), np.zeros((3, 1))
    read = read_pickle(written({"id": ids, "ragged": ragged}, protocol))
    assert read["id"].tolist() == ["a[1]", "b[2]"]
    assert [x.shape for x in read["ragged"]] == [(2,), (3, 1)]


def test_what_is_one_object_in_the_file_is_one_object_here_and_cannot_be_written_to(written):
    array = np.ones(3)
    read = read_pickle(written([array, array]))
    assert read[0] is read[1]
    with pytest.raises(ValueError, match="read-only"):
        read[0][0] = 2


def test_numpy_may_be_of_any_version(written):
    content = pickle.dumps(ARRAYS["float"], protocol=2)
    assert b"numpy._core." in content or b"numpy.core." in content
    for now in (b"numpy._core.", b"numpy.core."):
        renamed = content.replace(b"numpy._core.", b"numpy.core.").replace(b"numpy.core.", now)
        np.testing.assert_array_equal(read_pickle(written(renamed)), ARRAYS["float"])


def reconstruct(shape, code, data, order=b"<", version=b"K\x01"):
    """An array as Python 2 wrote it, with whatever shape, type and contents."""
    dtype = (
        b"cnumpy\ndtype\n"
        + text(code)
        + b"K\x00K\x01\x87R(K\x03"
        + text(order)
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    begun = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return begun + b"(" + version + shape + dtype + b"\x89" + data + b"tb"


def text(content):
    return b"U" + bytes([len(content)]) + content


def whole(number):
    return b"\x8a\x08" + struct.pack("<q", number)


def test_files_of_python_2_are_read(written):
    data = np.array([1.5, -2.0], "<f4")
    read = read_pickle(written(b"\x80\x02" + reconstruct(b"K\x02\x85", b"f4", text(data.tobytes())) + b"."))
    np.testing.assert_array_equal(read, data)


class Payload:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"train": [x]}, lambda x: np.array([x, None], object)])
def test_a_payload_is_named_and_not_run(written, tmp_path, protocol, wrap):
    mark = tmp_path / "was here"
    refuses(written(wrap(Payload(os.mkdir, str(mark))), protocol), r"requests (posix|nt)\.mkdir, but only arrays")
    refuses(
        written(wrap(Payload(eval, f"open({str(mark)!r}, 'w')")), protocol), r"requests (builtins|__builtin__)\.eval"
    )
    refuses(written(wrap(Payload(np.fromfile, str(mark))), protocol), r"requests numpy\S*\.fromfile")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"(S'echo'\nios\nsystem\n.", r"requests os\.system"),
        (b"(cos\nsystem\nS'echo'\no.", r"requests os\.system"),
        (b"cos\nsystem\n.", r"requests os\.system"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", r"requests os\.system"),
        (b"cos\nsystem\x1b[31m\n.", r"requests os\.system\?\?31m"),
        (b"cnumpy\nndarray\nK\x02\x85\x81.", "requests NEWOBJ"),
        (b"\x80\x02\x82\x01.", "requests EXT1"),
        (b"Pid\n.", "requests PERSID"),
        (b"\x80\x05\x97.", "requests NEXT_BUFFER"),
        (b"cnumpy\nndarray\n.", "a NumPy object that is not an array"),
        (b"\x80\x02cnumpy\ndtype\n" + text(b"f4") + b"\x85R.", "a NumPy object that is not an array"),
        (b"cnumpy\nndarray\n(K\x02t\x52.", "calls ndarray in a way that NumPy does not"),
        (b"cnumpy\nndarray\n}S'__init__'\nK\x01sb.", "sets the state of an object that is not an array"),
        (b"c_codecs\nencode\n(Vtext\nVrot13\ntR.", "calls encode in a way"),
        (b"]K\x01\x85R.", "calls something that is not a NumPy function"),
    ],
)
def test_every_other_way_to_an_object_is_refused(written, content, said):
    refuses(written(content), said)


def test_objects_of_classes_are_refused_by_name(written):
    path = written(pickle.dumps({"x": pickle.PickleBuffer(b"1")}, protocol=5))
    assert read_pickle(path) == {"x": b"1"}
    refuses(written(collections.OrderedDict(a=1)), r"requests collections\.OrderedDict")
    refuses(written(np.random.default_rng(0)), r"requests numpy\.random\.")
    refuses(written(range(3)), "range")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(2, [("a", "f4")]), "records"),
        (np.array(["2020-01-01"], "datetime64[D]"), "(records|type 'M8')"),
        (np.zeros(2, np.longdouble), "type 'f16', which NumPy does not write"),
        (np.zeros(2, "V4"), "type 'V4'"),
    ],
)
def test_arrays_of_other_kinds_are_refused(written, array, said):
    refuses(written(array), said)


BIG = 2**50


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (reconstruct(whole(BIG) + b"\x85", b"f4", text(b"abcd")) + b".", "expands to more than its own size"),
        (reconstruct(b"K\x02\x85", b"f4", text(b"abcd")) + b".", "an array of 2 times 4 bytes with 4 bytes"),
        (reconstruct(b"K\x02\x85", b"O8", b"]") + b".", "2 objects with another number of objects"),
        (reconstruct(b"K\x02\x85", b"O8", text(b"abcd")) + b".", "2 objects with another number of objects"),
        (reconstruct(b"J\xff\xff\xff\xff\x85", b"f4", text(b"")) + b".", r"shape \(-1,\)"),
        (reconstruct(b"(" + b"K\x01" * 40 + b"t", b"f4", text(b"abcd")) + b".", r"shape \(1, 1"),
        (reconstruct(b"(" + whole(BIG) * 4 + b"K\x00t", b"f4", text(b"")) + b".", "truncated or damaged"),
        (reconstruct(whole(BIG) + b"\x85", b"U0", text(b"")) + b".", "type 'U0'"),
        (reconstruct(b"K\x01\x85", b"U99999999999", text(b"")) + b".", "type 'U99999999999'"),
        (reconstruct(b"K\x01\x85", b"b1", text(b"\x07")) + b".", "values other than true and false"),
        (reconstruct(b"K\x01\x85", b"U1", text(b"\xff\xff\xff\xff")) + b".", "invalid characters"),
        (reconstruct(b"K\x01\x85", b"(9999999,)f4", text(b"abcd")) + b".", "only arrays of numbers"),
        (reconstruct(b"K\x01\x85", b"f4,f4", text(b"abcdabcd")) + b".", "only arrays of numbers"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"abc.", "bytes are missing"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"abc.", "truncated or damaged"),
        (b"T" + struct.pack("<i", 2**31 - 1) + b"abc.", "bytes are missing"),
        (b"\x8a\xff" + b"\x7f" * 255 + b".", "more than 64 bits"),
        (b"L" + b"9" * 10_000 + b"L\n.", "truncated or damaged"),
        (b"]" * 40 + b"a" * 39 + b".", "nested more than 32 levels deep"),
        (b"]q\x00h\x00a.", "contains itself"),
        (b"}q\x00K\x01h\x00s.", "contains itself"),
        (b"}(K\x01K\x02\x86K\x03u.", "a tuple as a key"),
        (b"\x80\x04\x8f(]\x90.", "a list as a key"),
    ],
)
def test_a_bomb_is_refused_before_it_goes_off(written, content, said):
    refuses(written(content), said)


def test_bytes_that_are_used_again_and_again_do_not_fill_the_memory(written):
    text_once = b"X" + struct.pack("<i", 50_000) + b"x" * 50_000 + b"q\x00"
    again = b"c_codecs\nencode\nh\x00Vlatin1\n\x86R"
    refuses(written(b"(" + text_once + again * 200 + b"l."), "expands to more than its own size")
    some = b"(" + b"N" * 5000 + b"lq\x00"
    objects = reconstruct(b"M" + struct.pack("<H", 5000) + b"\x85", b"O8", b"h\x00")
    refuses(written(b"(" + some + objects * 200 + b"l."), "expands to more than its own size")


def test_containers_that_double_at_every_level_take_no_time(written):
    doubling = b"(lq\x00" + b"".join(b"(h" + bytes([i]) + b"h" + bytes([i]) + b"lq" + bytes([i + 1]) for i in range(25))
    read = read_pickle(written(b"(" + doubling + b"l."))
    assert read[-1][0] is read[-1][1]
    deeper = b"(lq\x00" + b"".join(b"(h" + bytes([i]) + b"h" + bytes([i]) + b"lq" + bytes([i + 1]) for i in range(100))
    refuses(written(b"(" + deeper + b"l."), "nested more than 32 levels deep")


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"K\x05r\xff\xff\xff\xff0j\xff\xff\xff\xff.", 5),  # a place in the memo with a large number
        (b"S'a\\qb'\n.", "a\\qb"),  # an escape that Python does not know
    ],
)
def test_what_is_odd_and_harmless_is_read(written, content, value):
    assert read_pickle(written(content)) == value


def test_a_program_without_end_is_stopped(written, monkeypatch):
    monkeypatch.setattr(pickles, "MAX_OPCODES", 1000)
    refuses(written(b"(" + b"]" * 2000 + b"l."), "more than 1,000 opcodes")


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"label,id\n1,0\n", b"\x93NUMPY", b".", b"K\x01K\x02.", b"0.", b"t."]
)
def test_what_is_no_pickle_is_said_to_be_none(written, content):
    refuses(written(content), "is not a pickle, or is truncated or damaged .*: download it again")


def test_a_file_that_is_not_there_or_a_folder_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"none\.pkl does not exist"):
        read_pickle(tmp_path / "none.pkl")
    with pytest.raises(ValueError, match="is not a file"):
        read_pickle(tmp_path)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_file_that_was_cut_anywhere_is_a_sentence(written, protocol):
    content = pickle.dumps({"x": ARRAYS["float"], "id": ["a", "b"], "u": ARRAYS["text"]}, protocol=protocol)
    for end in range(0, len(content), 1 + len(content) // 60):
        refuses(written(content[:end]), "(truncated or damaged|cannot be read)")


def test_a_file_that_was_changed_anywhere_is_a_sentence_or_plain(written):
    draw = random.Random(0)
    for protocol in (0, 2, 5):
        content = pickle.dumps(
            {"x": ARRAYS["float"], "id": ["a", "b"], "o": np.array(["a", 1], object)}, protocol=protocol
        )
        for _ in range(60):
            changed = bytearray(content)
            for _ in range(draw.randint(1, 3)):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            path = written(bytes(changed))
            with contextlib.suppress(ValueError):  # and nothing else
                assert isinstance(
                    read_pickle(path), str | bytes | int | float | dict | list | tuple | None | np.ndarray
                )
