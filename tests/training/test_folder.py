"""The results folder: whole files or none, and nothing finished is lost."""

import json
import os
from pathlib import Path

import pytest

from synib.files import read_csv, read_json, write_csv, write_json, write_text
from synib.training.folder import Folder

CONFIG = {"experiment": "e", "seeds": 3, "beta": (0.0, 1.0)}


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def content(rows):
    return {"rows": rows, "curves": [{} for _ in rows], "timing": {"seconds": 1.0, "device": "d"}}


def test_a_new_folder_holds_its_config_and_the_same_config_opens_it_again(tmp_path):
    path = tmp_path / "deep" / "run"
    Folder(path, CONFIG)
    before = contents(path)
    assert json.loads(before["config.json"]) == {"experiment": "e", "seeds": 3, "beta": [0.0, 1.0]}
    Folder(path, CONFIG)
    assert contents(path) == before


def test_a_folder_of_another_config_is_refused_with_the_difference_and_left_as_it_was(tmp_path):
    Folder(tmp_path, CONFIG)
    (tmp_path / "shards").rmdir()  # a run whose shards were cleaned away still is a run
    (tmp_path / "results.csv").write_text("a\n1\n")
    before, names = contents(tmp_path), sorted(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=r"other settings \(seeds 3 there, 5 now\); nothing was touched"):
        Folder(tmp_path, {**CONFIG, "seeds": 5})
    assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == names


def test_a_config_that_is_none_of_ours_is_refused_too(tmp_path):
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="nothing was touched"):
        Folder(tmp_path, CONFIG)


def test_a_folder_that_cannot_be_written_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            ValueError, match=r"Cannot write to the output folder .*file.*: .*\. Choose another"
        ) as said:
            Folder(path, CONFIG)
        assert str(path) in str(said.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said_at_once(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ValueError, match=r"Cannot write to the output folder .*Permission denied"):
            Folder(tmp_path / "below", CONFIG)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_text(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as m:
            m.setattr(os, broken, full)
            with pytest.raises(OSError, match="No space left"):
                write_text(path, "new and longer")
            with pytest.raises(OSError, match="No space left"):
                write_json(tmp_path / "fresh.json", {"a": 1})
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["table.csv"]  # neither half a file nor a temporary one
    write_text(path, "new β\n")
    assert path.read_bytes() == "new β\n".encode()


def test_an_interrupted_write_leaves_nothing_either(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a", "text")
    assert os.listdir(tmp_path) == []


def test_the_grouping_is_recorded_once_and_kept(tmp_path, cell):
    cells = [cell(seed=s) for s in range(4)]
    folder = Folder(tmp_path, CONFIG)
    first = folder.shards(cells, lambda: [cells[:3], cells[3:]])
    assert first == [cells[:3], cells[3:]]
    assert Folder(tmp_path, CONFIG).shards(cells, lambda: [[c] for c in cells]) == first


def test_a_grouping_is_proposed_only_where_none_is_recorded(tmp_path, cell):
    cells, asked = [cell(seed=s) for s in range(3)], []

    def propose():
        asked.append(1)
        return [cells]

    for _ in range(2):
        Folder(tmp_path, CONFIG).shards(cells, propose)
    assert asked == [1]


def test_no_grouping_is_recorded_where_none_could_be_proposed(tmp_path, cell):
    def propose():
        raise KeyError("measuring failed")

    with pytest.raises(KeyError):
        Folder(tmp_path, CONFIG).shards([cell()], propose)
    assert not (tmp_path / "shards.json").exists()


def test_another_grouping_of_what_is_left_is_recorded_and_what_is_finished_stays(tmp_path, cell):
    a, b, c, d, e = cells = [cell(seed=s) for s in range(5)]
    folder = Folder(tmp_path, CONFIG)
    folder.shards(cells, lambda: [[a, b], [c, d], [e]])
    folder.write([a, b], content([{"cell": a.id}, {"cell": b.id}]))
    before = (tmp_path / "shards" / os.listdir(tmp_path / "shards")[0]).read_bytes()

    assert folder.regroup([[c], [d], [e]]) == [[c], [d], [e]]
    assert read_json(tmp_path / "shards.json") == [[a.id, b.id], [c.id], [d.id], [e.id]]
    assert Folder(tmp_path, CONFIG).shards(cells, lambda: [cells]) == [[a, b], [c], [d], [e]]
    assert (tmp_path / "shards" / os.listdir(tmp_path / "shards")[0]).read_bytes() == before

    for one in (c, d, e):
        folder.write([one], content([{"cell": one.id}]))
    folder.collect(cells)
    assert [row["cell"] for row in read_csv(tmp_path / "results.csv")] == [one.id for one in cells]
    assert [row["cells"] for row in read_csv(tmp_path / "timings.csv")] == [2, 1, 1, 1]


def test_a_grouping_that_could_not_be_written_leaves_the_one_before(tmp_path, cell, monkeypatch):
    cells = [cell(seed=s) for s in range(2)]
    folder = Folder(tmp_path, CONFIG)
    folder.shards(cells, lambda: [cells])
    before = contents(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            folder.regroup([[one] for one in cells])
    assert contents(tmp_path) == before


def test_without_curves_there_is_no_table_of_them(tmp_path, cell):
    folder, shard = Folder(tmp_path, CONFIG), [cell(seed=0), cell(seed=1)]
    folder.shards(shard, lambda: [shard])
    folder.write(shard, content([{"seed": 0}, {"seed": 1}]))
    folder.collect(shard)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "results.csv", "shards", "shards.json", "timings.csv"]
    assert read_csv(tmp_path / "results.csv") == [{"seed": 0}, {"seed": 1}]


def test_what_only_some_shards_timed_is_empty_for_the_others(tmp_path, cell):
    """A run of an earlier version, whose shards did not count halvings, goes on."""
    folder, cells = Folder(tmp_path, CONFIG), [cell(seed=0), cell(seed=1)]
    folder.shards(cells, lambda: [[one] for one in cells])
    folder.write(cells[:1], content([{}]))
    newer = content([{}])
    newer["timing"]["halvings"] = 1
    folder.write(cells[1:], newer)
    folder.collect(cells)
    assert [row["halvings"] for row in read_csv(tmp_path / "timings.csv")] == [None, 1]


def test_a_grouping_of_other_cells_is_refused_and_left_as_it_was(tmp_path, cell):
    cells = [cell(seed=s) for s in range(3)]
    folder = Folder(tmp_path, CONFIG)
    folder.shards(cells, lambda: [cells])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"recorded for other cells .*nothing was touched"):
        folder.shards(cells[:2], lambda: [cells[:2]])
    assert contents(tmp_path) == before


def test_a_shard_is_finished_once_it_is_written(tmp_path, cell):
    folder, shard = Folder(tmp_path, CONFIG), [cell(seed=0), cell(seed=1)]
    assert not folder.finished(shard)
    folder.write(shard, content([{}, {}]))
    assert folder.finished(shard)
    assert not folder.finished(shard[:1])


def test_tables_have_their_rows_in_the_order_of_the_cells(tmp_path, cell):
    cells = [cell(seed=s, beta=b) for b in (0.0, 1.0) for s in (0, 1)]
    folder = Folder(tmp_path, CONFIG)
    shards = [[cells[3], cells[0]], [cells[2], cells[1]]]
    for shard in shards:
        rows = [{"cell": c.id, "seed": c.seed} for c in shard]
        folder.write(shard, content(rows) | {"curves": [{"train_accuracy": [0.5, c.seed]} for c in shard]})
    folder.shards(cells, lambda: shards)
    folder.collect(cells)
    assert [row["cell"] for row in read_csv(tmp_path / "results.csv")] == [c.id for c in cells]
    curves = read_csv(tmp_path / "curves.csv")
    assert list(curves[0]) == ["method", "beta", "epoch", "metric", "mean", "se", "n"]
    assert [(r["beta"], r["epoch"], r["mean"], r["se"], r["n"]) for r in curves] == [
        (0.0, 1, 0.5, 0.0, 2), (0.0, 2, 0.5, 0.5, 2), (1.0, 1, 0.5, 0.0, 2), (1.0, 2, 0.5, 0.5, 2),
    ]  # fmt: skip
    assert [row["cells"] for row in read_csv(tmp_path / "timings.csv")] == [2, 2]


@pytest.mark.parametrize("damage", [b"", b'{"rows": [', b"{}", b"[]", b"\xff\xfe\x00"])
def test_a_damaged_shard_is_named_in_a_sentence(tmp_path, cell, damage):
    folder, shard = Folder(tmp_path, CONFIG), [cell()]
    folder.shards(shard, lambda: [shard])
    folder.write(shard, content([{}]))
    (file,) = (tmp_path / "shards").iterdir()
    file.write_bytes(damage)
    with pytest.raises(ValueError, match=rf"{file.name} is damaged .*run again"):
        folder.collect(shard)
    assert not (tmp_path / "results.csv").exists()

    (sentence,) = folder.set_aside_damaged([shard])
    assert sentence.startswith(f"{file} is damaged: it is kept as {file.stem}.damaged1 and not used, and its 1 models")
    assert not folder.finished(shard)
    assert file.with_suffix(".damaged1").read_bytes() == damage
    assert folder.set_aside_damaged([shard]) == []


def test_a_shard_has_the_checksum_of_its_content_and_one_without_is_read_too(tmp_path, cell):
    folder, shard = Folder(tmp_path, CONFIG), [cell()]
    folder.write(shard, content([{"cell": shard[0].id, "a": 0.5}]) | {"curves": [{"a": [float("nan"), 0.1]}]})
    (file,) = (tmp_path / "shards").iterdir()
    written = read_json(file)
    assert len(written["sha256"]) == 64
    assert folder.finished(shard)
    file.write_text(file.read_text().replace("0.5", "0.6"))
    with pytest.raises(ValueError, match="is damaged"):
        folder.finished(shard)
    del written["sha256"]
    write_json(file, written)
    assert folder.finished(shard)


def test_what_killed_runs_left_half_written_is_removed_and_other_files_are_not(tmp_path):
    folder = Folder(tmp_path, CONFIG)
    left = [tmp_path / ".results.csv.ab12_xyz", tmp_path / "shards" / ".0123456789abcdef.json.abcdefgh"]
    others = [tmp_path / ".notes", tmp_path / "my.results.csv.ab12_xyz", tmp_path / ".results.csv.backup"]
    for path in (*left, *others):
        path.write_text("")
    with folder.locked():
        assert [path.exists() for path in (*left, *others)] == [False, False, True, True, True]


def test_failed_cells_have_empty_fields_and_their_cause_whichever_row_they_are(tmp_path, cell):
    folder, cells = Folder(tmp_path, CONFIG), [cell(seed=0), cell(seed=1)]
    folder.shards(cells, lambda: [cells])
    rows = [{"seed": 0, "cell": cells[0].id, "error": "why"}, {"seed": 1, "accuracy": 0.5, "cell": cells[1].id}]
    folder.write(cells, content(rows) | {"curves": [{}, {"accuracy": [0.5]}]})
    assert [row["error"] for row in folder.collect(cells)] == ["why"]
    assert (tmp_path / "results.csv").read_text().splitlines()[0] == "seed,accuracy,cell,error"
    assert [(row["accuracy"], row["error"]) for row in read_csv(tmp_path / "results.csv")] == [
        (None, "why"),
        (0.5, None),
    ]
    assert [row["n"] for row in read_csv(tmp_path / "curves.csv")] == [1]


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


def test_a_table_that_is_not_there_is_said_with_its_folder(tmp_path):
    with pytest.raises(ValueError, match=rf"There is no results.csv in {tmp_path}: is it the folder of a finished run"):
        read_csv(tmp_path / "results.csv")


def test_a_json_file_that_is_not_there_holds_nothing(tmp_path):
    assert read_json(tmp_path / "none.json") is None
    write_json(Path(tmp_path / "some.json"), {"β": [1, None]})
    assert read_json(tmp_path / "some.json") == {"β": [1, None]}


def test_an_identifier_that_looks_like_a_number_stays_what_it_is(tmp_path):
    write_csv(tmp_path / "t.csv", [{"cell": "4187e11980634979", "seed": 1}, {"cell": "0068478113948176", "seed": 2}])
    assert [row["cell"] for row in read_csv(tmp_path / "t.csv")] == ["4187e11980634979", "0068478113948176"]
