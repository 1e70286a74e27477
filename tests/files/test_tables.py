"""JSON files and CSV tables."""

import pytest

from synib.files import read_csv, read_json, write_csv, write_json


def test_a_table_comes_back_as_it_went_and_what_is_missing_stays_missing(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        {"method": "vanilla", "beta": 0.2, "n": 3, "mean": 1 / 3, "se": None, "note": 'a, "b"\nc'},
        {"method": "synib-random", "beta": 1.0, "n": 0, "mean": float("nan"), "extra": True},
    ]
    write_csv(path, rows)
    assert path.read_text().splitlines()[0] == "method,beta,n,mean,se,note,extra"
    assert path.read_text().endswith("synib-random,1.0,0,,,,True\n")
    assert read_csv(path) == [
        {"method": "vanilla", "beta": 0.2, "n": 3, "mean": 0.333333, "se": None, "note": 'a, "b"\nc', "extra": None},
        {"method": "synib-random", "beta": 1.0, "n": 0, "mean": None, "se": None, "note": None, "extra": "True"},
    ]
    assert [type(read_csv(path)[0][name]) for name in ("beta", "n")] == [float, int]


def test_an_identifier_that_looks_like_a_number_stays_text(tmp_path):
    write_csv(tmp_path / "t.csv", [{"cell": "4187e11980634979", "seed": 1}, {"cell": "0068478113948176", "seed": 2}])
    assert [row["cell"] for row in read_csv(tmp_path / "t.csv")] == ["4187e11980634979", "0068478113948176"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no table"), (b"\xff\xfe", "no table"), (b"a,b\n1\n", "line 2 has 1 fields, expected 2")],
)
def test_a_damaged_table_is_named(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"t\.csv is damaged: .*{message}"):
        read_csv(tmp_path / "t.csv")


def test_a_table_that_is_not_there_is_said_with_its_folder(tmp_path):
    with pytest.raises(ValueError, match=rf"There is no results.csv in {tmp_path}: is it the folder of a finished run"):
        read_csv(tmp_path / "results.csv")


def test_json_comes_back_as_it_went_and_a_missing_file_is_nothing(tmp_path):
    assert read_json(tmp_path / "none.json") is None
    write_json(tmp_path / "some.json", {"β": [1, None]})
    assert read_json(tmp_path / "some.json") == {"β": [1, None]}


@pytest.mark.parametrize("content", [b"", b'{"a": [', b"\xff\xfe\x00", b"[" * 10**5])
def test_a_damaged_json_file_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json is damaged .*remove it and run again"):
        read_json(tmp_path / "a.json")
