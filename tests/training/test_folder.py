"""The folder of a run: finished shards, their grouping and the tables collected from them."""

import json

import pytest

from synib.files import read_csv, read_json, write_json
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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "seeds": 5}, r"other settings \(seeds was 5, now 3"),
        ([1, 2], r"config\.json was not written by synib"),
    ],
)
def test_a_folder_of_another_config_is_refused_and_left_as_it_was(tmp_path, config, message):
    write_json(tmp_path / "config.json", config)
    (tmp_path / "results.csv").write_text("a\n1\n")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=rf"{message}\), which was not changed"):
        Folder(tmp_path, CONFIG)
    assert contents(tmp_path) == before


def test_the_grouping_is_proposed_and_recorded_once(tmp_path, cell):
    cells = [cell(seed=s) for s in range(4)]

    def fail():
        raise KeyError("measuring failed")

    with pytest.raises(KeyError):
        Folder(tmp_path, CONFIG).shards(cells, fail)
    assert not (tmp_path / "shards.json").exists()
    first = Folder(tmp_path, CONFIG).shards(cells, lambda: [cells[:3], cells[3:]])
    assert first == [cells[:3], cells[3:]]
    assert Folder(tmp_path, CONFIG).shards(cells, fail) == first


@pytest.mark.parametrize("record", [{}, [1], [[1]], [["other"]]])
def test_a_grouping_that_is_damaged_or_of_other_cells_is_refused_and_left_as_it_was(tmp_path, cell, record):
    folder = Folder(tmp_path, CONFIG)
    write_json(tmp_path / "shards.json", record)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"shards\.json (is damaged: remove it and|was recorded for other cells)"):
        folder.shards([cell()], lambda: [[cell()]])
    assert contents(tmp_path) == before


def test_another_grouping_of_what_is_left_is_recorded_and_what_is_finished_stays(tmp_path, cell):
    a, b, c, d, e = cells = [cell(seed=s) for s in range(5)]
    folder = Folder(tmp_path, CONFIG)
    folder.shards(cells, lambda: [[a, b], [c, d], [e]])
    folder.write([a, b], content([{"cell": a.id}, {"cell": b.id}]))
    (file,) = (tmp_path / "shards").iterdir()
    before = file.read_bytes()

    assert folder.regroup([[c], [d], [e]]) == [[c], [d], [e]]
    assert read_json(tmp_path / "shards.json") == [[a.id, b.id], [c.id], [d.id], [e.id]]
    assert Folder(tmp_path, CONFIG).shards(cells, lambda: [cells]) == [[a, b], [c], [d], [e]]
    assert file.read_bytes() == before

    for one in (c, d, e):
        assert folder.unfinished([[one]]) == [[one]]
        folder.write([one], content([{"cell": one.id}]))
        assert folder.unfinished([[one]]) == []
    folder.collect(cells)
    assert [row["cell"] for row in read_csv(tmp_path / "results.csv")] == [one.id for one in cells]
    assert [row["cells"] for row in read_csv(tmp_path / "timings.csv")] == [2, 1, 1, 1]
    assert not (tmp_path / "curves.csv").exists()  # there are none


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


def of_other_cells(text):
    return json.dumps(content([{"cell": "other"}]))


@pytest.mark.parametrize(
    "damage", [lambda text: "", lambda text: text[:9], lambda text: "{}", lambda text: "[]", of_other_cells]
)
def test_a_damaged_shard_is_named_and_set_aside(tmp_path, cell, damage):
    folder, shard = Folder(tmp_path, CONFIG), [cell()]
    folder.shards(shard, lambda: [shard])
    folder.write(shard, content([{"cell": shard[0].id}]))
    (file,) = (tmp_path / "shards").iterdir()
    file.write_text(damage(file.read_text()))
    damaged = file.read_bytes()
    with pytest.raises(ValueError, match=rf"{file.name} is damaged .*run again"):
        folder.collect(shard)
    assert not (tmp_path / "results.csv").exists()

    said = []
    for _ in range(2):
        assert folder.unfinished([shard], said.append) == [shard]
    assert len(said) == 1
    assert said[0].startswith(f"{file} is damaged: it is kept as {file.stem}.damaged1 and not used, and its 1 models")
    assert file.with_suffix(".damaged1").read_bytes() == damaged


def test_a_shard_has_the_checksum_of_its_content_and_one_without_is_read_too(tmp_path, cell):
    folder, shard = Folder(tmp_path, CONFIG), [cell()]
    folder.write(shard, content([{"cell": shard[0].id, "a": 0.5}]) | {"curves": [{"a": [float("nan"), 0.1]}]})
    (file,) = (tmp_path / "shards").iterdir()
    written = read_json(file)
    assert len(written["sha256"]) == 64
    assert folder.unfinished([shard]) == []
    file.write_text(file.read_text().replace("0.5", "0.6"))
    assert folder.unfinished([shard]) == [shard]
    del written["sha256"]
    write_json(file, written)
    assert folder.unfinished([shard]) == []


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
