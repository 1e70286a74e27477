"""Parquet is decoded in a process of its own: what ends that process is a sentence, and its memory is bounded."""

import numpy as np
import pytest

from synib.own.table import read

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

N = 1000
RNG = np.random.default_rng(0)


def table(**more):
    columns = {"image": list(RNG.normal(size=(N, 6)).astype(np.float32)), "text": list(np.ones((N, 2), np.float32))}
    return pa.table(columns | {"label": np.arange(N) % 2} | more)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_no_damage_to_a_parquet_ends_this_process(tmp_path, compression):
    path = tmp_path / "a.parquet"
    parquet.write_table(table(), path, compression=compression, row_group_size=300)
    whole = path.read_bytes()
    assert len(read(path).target) == N
    outcomes = []
    for _ in range(5):
        broken = bytearray(whole)
        for place in RNG.integers(0, len(whole), 6):
            broken[place] = RNG.integers(256)
        path.write_bytes(broken)
        try:
            outcomes.append(len(read(path).target))
        except ValueError as mistake:
            outcomes.append(str(mistake))
    assert len(outcomes) == 5  # every one came back, as rows or as a sentence
    assert all(outcome <= N if isinstance(outcome, int) else "\n" not in outcome for outcome in outcomes)
    assert any(isinstance(outcome, str) for outcome in outcomes)


def test_a_reader_that_is_killed_is_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(table(), path)
    worker = tmp_path / "worker.py"
    worker.write_text("import os\nos.abort()\n")
    monkeypatch.setattr("synib.own.arrow_child.WORKER", worker)
    with pytest.raises(
        ValueError, match=r"a\.parquet cannot be read, or is truncated or damaged \(its decoder ended by signal"
    ):
        read(path)


def test_long_texts_that_repeat_are_not_unpacked(tmp_path):
    path = tmp_path / "a.parquet"
    caption = pa.DictionaryArray.from_arrays(pa.array(np.zeros(N, np.int32)), pa.array(["word " * 2_000_000]))
    parquet.write_table(table(caption=caption), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 2_000_000
    found = read(path)
    assert "caption" in found.unused
    with pytest.raises(ValueError, match="caption holds a text of 10,000,000 characters"):
        read(path, target="caption")
    with pytest.raises(ValueError, match="caption holds a text of 10,000,000 characters"):
        read(path, group="caption")


def test_columns_with_dots_nested_and_of_one_name_are_told_apart(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(table(**{"a.b": np.arange(N) % 7, "s": [{"x": 1.0}] * N}), path)
    found = read(path, group="a.b")
    assert len(np.unique(found.group)) == 7
    assert "s" in found.unused


def test_texts_null_and_categories_arrive_as_they_are(tmp_path):
    path = tmp_path / "a.parquet"
    words = [["no", "yes", None][i % 3] for i in range(N)]
    speaker = pa.array([f"s{i % 7}" for i in range(N)]).dictionary_encode()
    parquet.write_table(
        table().drop(["label"]).append_column("label", pa.array(words)).append_column("who", speaker), path
    )
    found = read(path, group="who")
    assert found.classes == ("no", "yes")
    assert len(found.target) == sum(word is not None for word in words)
    assert len(np.unique(found.group)) == 7


def saved(folder, content, **options):
    import json

    with (
        pa.OSFile(str(folder / "data.arrow"), "wb") as file,
        pa.ipc.new_stream(file, content.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream,
    ):
        stream.write_table(content)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return folder


def test_a_folder_of_datasets_is_decoded_there_too(tmp_path, monkeypatch):
    path = saved(tmp_path, table())
    assert len(read(path).target) == N
    worker = tmp_path / "worker.py"
    worker.write_text("import os\nos.abort()\n")
    monkeypatch.setattr("synib.own.arrow_child.WORKER", worker)
    with pytest.raises(ValueError, match=r"data\.arrow cannot be read.*\(its decoder ended by signal SIGABRT\)"):
        read(path)


def test_batches_that_are_compressed_are_counted_as_what_they_unpack_to(tmp_path, monkeypatch):
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(N * 5000, np.float32)), 5000)
    path = saved(tmp_path, pa.table({"image": zeros, "text": zeros, "label": np.arange(N) % 2}), compression="zstd")
    assert (path / "data.arrow").stat().st_size < 200_000
    monkeypatch.setattr("synib.own.budget.available_memory", lambda: 50_000_000)
    with pytest.raises(ValueError, match=r"needs at least [34]\d(\.\d)? MB of memory"):
        read(path)
    monkeypatch.setattr("synib.own.budget.available_memory", lambda: 200_000_000)
    assert len(read(path).target) == N
