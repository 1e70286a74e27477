"""Files that ask for more than they hold: memory, time or a process. Each is one sentence, before anything is taken."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from synib.own.from_arrays import read_npz
from synib.own.table import read

N = 24
RNG = np.random.default_rng(0)
X = {"image": RNG.normal(size=(N, 3)).astype(np.float32), "text": RNG.normal(size=(N, 2)).astype(np.float32)}
LABEL = np.arange(N) % 2


def npy_head(descr, shape):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
    return head.getvalue()


def npy(values):
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


class Zeros(io.RawIOBase):
    """A head, and zeros after it."""

    def __init__(self, head, length):
        self.head, self.left = head, length

    def chunks(self):
        yield self.head
        while self.left:
            step = min(self.left, 2**24)
            self.left -= step
            yield bytes(step)


@pytest.fixture(scope="module")
def small_npz(tmp_path_factory):
    """640 MB of bytes in 640 kB, which are 2.5 GB as float32."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("image", "text"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for chunk in Zeros(npy_head("|i1", (20_000, 16_000)), 320_000_000).chunks():
                    member.write(chunk)
        archive.writestr("label.npy", npy(np.arange(20_000) % 2))
    return path


def test_bytes_are_counted_as_the_floats_they_become(small_npz):
    with pytest.raises(ValueError, match=r"would unpack to 1,280,000,000: files that expand this much are refused"):
        read(small_npz)


@pytest.fixture
def little_memory(monkeypatch):
    def set_to(size):
        monkeypatch.setattr("synib.own.budget.available_memory", lambda: size)

    return set_to


def forms(folder):
    """The same data in every format that is held in memory: each needs 4 MB as float32."""
    rows, width = 2000, 250
    x = {name: RNG.integers(-9, 9, (rows, width)).astype(np.float64) for name in ("image", "text")}
    label = np.arange(rows) % 2
    np.savez(folder / "a.npz", **x, label=label)
    np.savez_compressed(folder / "b.npz", **{n: v.astype(np.float32) for n, v in x.items()}, label=label)
    (folder / "arrays").mkdir()
    for name, values in {**x, "label": label}.items():
        np.save(folder / "arrays" / f"{name}.npy", values)
    paths = [folder / "a.npz", folder / "b.npz", folder / "arrays"]
    lines = ["image,text,label"]
    lines += [f'"{i.tolist()}","{t.tolist()}",{y}' for i, t, y in zip(x["image"], x["text"], label, strict=True)]
    (folder / "c.csv").write_text("\n".join(lines))
    paths.append(folder / "c.csv")
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return paths
    table = pa.table({name: list(v) for name, v in x.items()} | {"label": label})
    parquet.write_table(table, folder / "d.parquet")
    (folder / "saved").mkdir()
    with pa.OSFile(str(folder / "saved" / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=1000)
    (folder / "saved" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return [*paths, folder / "d.parquet", folder / "saved"]


def test_every_reader_refuses_what_does_not_fit_into_memory_and_says_so(tmp_path, little_memory):
    paths = forms(tmp_path)
    for path in paths:
        little_memory(4_000_000)
        with pytest.raises(ValueError, match=r"needs? .*(MB|GB).* of memory.* are available") as caught:
            read(path)
        assert len(str(caught.value).splitlines()) == 1
        little_memory(64 * 2**20)
        assert len(read(path).target) == 2000


def test_files_that_are_mapped_need_no_memory(tmp_path, little_memory):
    x = RNG.normal(size=(4000, 500)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=x, text=x, label=np.arange(4000) % 2)
    little_memory(8_000_000)
    assert len(read(tmp_path / "a.npz").target) == 4000


def safetensors(path, entries, body):
    head = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


def test_tensors_that_overlap_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    entry = {"dtype": "F32", "shape": [N, 3], "data_offsets": [0, 12 * N]}
    label = {"dtype": "I64", "shape": [N], "data_offsets": [12 * N, 20 * N]}
    safetensors(path, {"image": entry, "text": entry, "label": label}, bytes(20 * N))
    with pytest.raises(ValueError, match=r"text begins at byte .* inside another tensor"):
        read(path)


def test_a_gap_between_tensors_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    entries = {
        "image": {"dtype": "F32", "shape": [N, 3], "data_offsets": [0, 12 * N]},
        "label": {"dtype": "I64", "shape": [N], "data_offsets": [20 * N, 28 * N]},
    }
    safetensors(path, entries, bytes(28 * N))
    with pytest.raises(ValueError, match="truncated or damaged"):
        read(path)


def test_a_folder_of_datasets_that_names_a_file_twice_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"image": list(X["image"]), "text": list(X["text"]), "label": LABEL})
    with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}] * 200}))
    with pytest.raises(ValueError, match=r"lists the data file data\.arrow twice"):
        read(tmp_path)


@pytest.mark.parametrize("descr", ["<f4", "<f8", "|b1"])
def test_a_head_without_width_and_with_countless_rows_takes_no_time(tmp_path, descr):
    for name, values in {"text": X["text"], "label": LABEL}.items():
        np.save(tmp_path / f"{name}.npy", values)
    (tmp_path / "image.npy").write_bytes(npy_head(descr, (10**15, 0)))
    with pytest.raises(
        ValueError, match=r"the vectors of image have no numbers|has 24 rows, but image has 1,000,000,000,000,000"
    ):
        read(tmp_path)
    (tmp_path / "image.npy").write_bytes(npy_head(descr, (0, 10**15)))
    with pytest.raises(ValueError):
        read(tmp_path)


def test_texts_without_characters_are_damage(tmp_path):
    for name, values in X.items():
        np.save(tmp_path / f"{name}.npy", values)
    (tmp_path / "label.npy").write_bytes(npy_head("<U0", (10**15,)))
    with pytest.raises(ValueError, match="not a plain array of numbers or strings, or is damaged"):
        read(tmp_path)


def test_a_safetensors_head_without_width_takes_no_time(tmp_path):
    path = tmp_path / "a.safetensors"
    entries = {
        "image": {"dtype": "F64", "shape": [10**15, 0], "data_offsets": [0, 0]},
        "text": {"dtype": "F32", "shape": [N, 2], "data_offsets": [0, 8 * N]},
        "label": {"dtype": "I64", "shape": [N], "data_offsets": [8 * N, 16 * N]},
    }
    safetensors(path, entries, bytes(8 * N) + LABEL.astype("<i8").tobytes())
    with pytest.raises(ValueError, match=r"have no numbers|rows"):
        read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.parquet", "a.safetensors"])
def test_a_pipe_where_a_file_belongs_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="is a device or a pipe; expected a file"):
        read(tmp_path / name)
    (tmp_path / f"zero{name}").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="is a device or a pipe; expected a file"):
        read(tmp_path / f"zero{name}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_pipes_in_folders_are_refused_at_once(tmp_path):
    from synib.own.saved import load

    (tmp_path / "arrays").mkdir()
    os.mkfifo(tmp_path / "arrays" / "image.npy")
    with pytest.raises(ValueError, match=r"image\.npy is a device or a pipe; expected a file"):
        read(tmp_path / "arrays")
    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "model" / "model.json")
    pytest.importorskip("safetensors")
    with pytest.raises(ValueError, match=r"model\.json"):
        load(tmp_path / "model")


def test_a_bit_flip_in_an_archive_without_compression_is_seen(tmp_path):
    path = tmp_path / "a.npz"
    image, text = RNG.normal(size=(2, 20_000, 4)).astype(np.float32)
    arrays = {"image": image, "text": text.astype(np.float64), "label": RNG.integers(0, 2, 20_000)}
    np.savez(path, **arrays)
    whole = path.read_bytes()
    assert len(read(path).target) == 20_000
    for name, values in arrays.items():
        held = values.tobytes()
        start = whole.index(held)
        for place, bit in ((0, 0), (len(held) // 2, 3), (len(held) - 1, 6)):
            broken = bytearray(whole)
            broken[start + place] ^= 1 << bit
            path.write_bytes(broken)
            with pytest.raises(ValueError, match=rf"{name}.*(checksum|CRC)"):
                read(path)
            with pytest.raises(ValueError, match=rf"{name}.*(checksum|CRC)"):
                read_npz(path, [name])


def test_a_hundred_thousand_numbered_columns_take_seconds(tmp_path):
    import time

    columns = 100_000
    names = [f"image_{k}" for k in range(columns)] + ["text_0", "text_1", "label"]
    line = ",".join(["0.5"] * columns)
    rows = [f"{line},{i},{-i},{i % 2}" for i in range(12)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *rows]))
    start = time.process_time()
    table = read(tmp_path / "a.csv")
    assert time.process_time() - start < 20  # two minutes where every name is compared with all before it
    assert table.modalities["image"].shape == (12, columns)


def test_lone_surrogates_in_names_and_texts_are_sentences(tmp_path):
    pa = pytest.importorskip("pyarrow")
    features = {"label": {"_type": "ClassLabel", "names": ["yes", "\ud800no"]}}
    schema = pa.schema(
        [("image", pa.list_(pa.float32())), ("text", pa.list_(pa.float32())), ("label", pa.int64())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    table = pa.table({"image": list(X["image"]), "text": list(X["text"]), "label": LABEL}, schema=schema)
    with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        stream.write_table(table)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    names = read(tmp_path).classes
    assert names == ("yes", "\\ud800no")
    "".join(names).encode()
    from synib import Table

    table = Table.from_arrays(X, np.array(["a\udc80", "b"])[LABEL])
    assert table.classes == ("a\\udc80", "b")
    (tmp_path / "a.json").write_text(json.dumps({"_data_files": [{"filename": "\ud800.arrow"}]}))
    (tmp_path / "state.json").write_text((tmp_path / "a.json").read_text())
    with pytest.raises(ValueError):
        read(tmp_path)


def test_escape_sequences_in_classes_and_groups_are_shown_and_not_sent(tmp_path):
    label, speaker = (
        np.array(["\x1b[31mred", "naïve café\u3000好"])[LABEL],
        np.array(["a\x07", "b\n", "c", "d"])[np.arange(N) % 4],
    )
    np.savez(tmp_path / "a.npz", **X, label=label, speaker=speaker)
    table = read(tmp_path / "a.npz", group="speaker")
    assert set(table.classes) == {"\\x1b[31mred", "naïve café\u3000好"}
    assert set(table.group) == {"a\\x07", "b\\n", "c", "d"}
    assert "\x1b" not in " ".join(table.notes)


COLUMNS = 100_000


def wide_csv(path, names, cells, lines=12):
    rows = [f"{cells},{i},{-i},some words of row {i},{i % 2}" for i in range(lines)]
    path.write_text("\n".join([",".join([*names, "image_0", "image_1", "review", "label"]), *rows]))
    return path


def within_seconds(path):
    import time

    start = time.process_time()
    try:
        return read(path)
    finally:
        assert time.process_time() - start < 20


@pytest.mark.parametrize("name", ["column{k}", "column{k}_0"])
def test_a_hundred_thousand_columns_of_different_names_take_seconds(tmp_path, name):
    names = [name.format(k=k) for k in range(COLUMNS)]
    table = within_seconds(wide_csv(tmp_path / "a.csv", names, ",".join(["0.5"] * COLUMNS)))
    assert {name: x.shape[1] for name, x in table.modalities.items() if name != "review"} == {
        "image": 2,
        "table": COLUMNS,
    }
    assert max(map(len, table.notes)) < 1000


def test_a_hundred_thousand_numbered_columns_next_to_a_text_take_seconds(tmp_path):
    names = [f"sensor_{k}" for k in range(COLUMNS)]
    table = within_seconds(wide_csv(tmp_path / "a.csv", names, ",".join(["0.5"] * COLUMNS)))
    assert table.modalities["sensor"].shape == (12, COLUMNS)


@pytest.mark.parametrize(("name", "cell"), [("pair{k}_{j}", "0.5"), ("text{k}x{j}", "{k} and some words of its own")])
def test_more_modalities_than_can_be_compared_are_refused(tmp_path, name, cell):
    names = [name.format(k=k, j=j) for k in range(COLUMNS // 2) for j in range(2)]
    cells = ",".join(cell.format(k=k) for k in range(COLUMNS))
    if "text" in name:  # texts differ from row to row, or they are categories
        rows = [f"{cells.replace('its own', f'row {i}')},{i},{-i},some words of row {i},{i % 2}" for i in range(12)]
        path = tmp_path / "a.csv"
        path.write_text("\n".join([",".join([*names, "image_0", "image_1", "review", "label"]), *rows]))
    else:
        path = wide_csv(tmp_path / "a.csv", names, cells)
    with pytest.raises(ValueError, match="has more than 64 modalities, such as") as caught:
        within_seconds(path)
    assert len(str(caught.value)) < 1000
