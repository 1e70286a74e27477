"""A user's own data: every format says the same, what is missing is known, and nothing is held twice."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from synib.own import table as own
from synib.own.new_rows import read_rows
from synib.own.opening import open_source

N = 24
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(N, 3)).astype(np.float32)
TEXT = RNG.normal(size=(N, 2)).astype(np.float32)
TEXT[[4, 9]] = np.nan
LABEL = np.arange(N) % 3
SPEAKER = np.array([f"0{row % 4}é" for row in range(N)])
PART = np.array(["train", "val", "test", "Train"] * (N // 4))
COLUMNS = {"image": IMAGE, "text": TEXT, "label": LABEL, "speaker": SPEAKER, "part": PART}


def npz(folder, columns):
    np.savez(folder / "a.npz", **columns)
    return folder / "a.npz"


def compressed(folder, columns):
    np.savez_compressed(folder / "a.npz", **columns)
    return folder / "a.npz"


def npy(folder, columns):
    (folder / "a").mkdir()
    for name, x in columns.items():
        np.save(folder / "a" / f"{name}.npy", x)
    return folder / "a"


def safetensors(folder, columns):
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({name: x for name, x in columns.items() if x.dtype.kind != "U"}, folder / "a.safetensors")
    return folder / "a.safetensors"


def csv_lists(folder, columns):
    def cell(x):
        return x if np.ndim(x) == 0 else "" if np.isnan(x).all() else str(x.tolist())

    return write_csv(folder, columns, zip(*[[cell(value) for value in x] for x in columns.values()], strict=True))


def csv_numbered(folder, columns):
    flat = flattened(columns)
    cells = [["" if value != value else value for value in x.tolist()] for x in flat.values()]
    return write_csv(folder, flat, zip(*cells, strict=True))


def write_csv(folder, names, rows):
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([list(names), *rows])
    return folder / "a.csv"


def flattened(columns):
    flat = {}
    for name, x in columns.items():
        flat |= {name: x} if x.ndim == 1 else {f"{name}_{place}": x[:, place] for place in range(x.shape[1])}
    return flat


def arrow(columns, size=None):
    pa = pytest.importorskip("pyarrow")

    def column(x):
        if x.ndim == 2 and not size and not np.isnan(x).any():  # at once: a list of rows takes long
            return pa.ListArray.from_arrays(np.arange(0, x.size + 1, x.shape[1], dtype=np.int32), x.ravel())
        rows = [None if np.isnan(row).all() else row for row in x] if x.ndim == 2 else x.tolist()
        return pa.array(rows, pa.list_(pa.float32(), *([x.shape[1]] if size else [])) if x.ndim == 2 else None)

    return pa.table({name: column(x) for name, x in columns.items()})


def parquet(folder, columns):
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow(columns), folder / "a.parquet", row_group_size=len(columns["text"]) // 3
    )
    return folder / "a.parquet"


def parquet_fixed(folder, columns):
    pytest.importorskip("pyarrow.parquet").write_table(arrow(columns, size=True), folder / "a.parquet")
    return folder / "a.parquet"


def parquet_numbered(folder, columns):
    pytest.importorskip("pyarrow.parquet").write_table(arrow(flattened(columns)), folder / "a.parquet")
    return folder / "a.parquet"


def datasets(folder, columns, name="a", notes=None):
    """As ``save_to_disk`` of datasets 5.2 writes it, in two files of small batches."""
    pa = pytest.importorskip("pyarrow")
    (folder / name).mkdir(parents=True)
    table = arrow(columns).replace_schema_metadata(notes)
    files = [f"data-0000{part}-of-00002.arrow" for part in range(2)]
    for file, rows in zip(files, (table[: N // 3], table[N // 3 :]), strict=True):
        with pa.OSFile(str(folder / name / file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(rows, max_chunksize=4 if len(table) == N else 1000)
    (folder / name / "state.json").write_text(json.dumps({"_data_files": [{"filename": file} for file in files]}))
    return folder / name


FORMATS = [npz, compressed, npy, csv_lists, csv_numbered, parquet, parquet_fixed, parquet_numbered, datasets]
EVERY = [*FORMATS, safetensors]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_says_the_same(tmp_path, write):
    table = own.read(write(tmp_path, COLUMNS), split="part", group="speaker", nuisance=["part"])
    np.testing.assert_allclose(table.modalities["image"], IMAGE, rtol=1e-6)
    np.testing.assert_allclose(table.modalities["text"], np.nan_to_num(TEXT), rtol=1e-6)
    assert list(table.modalities) == ["image", "text"]
    assert {x.dtype for x in table.modalities.values()} == {np.dtype(np.float32)}
    assert table.present["image"].all()
    np.testing.assert_array_equal(np.flatnonzero(~table.present["text"]), [4, 9])
    np.testing.assert_array_equal(table.target, LABEL)
    assert (table.target.dtype, table.classes) == (np.dtype(np.int64), ("0", "1", "2"))
    np.testing.assert_array_equal(table.group, SPEAKER)
    np.testing.assert_array_equal(table.split, ["train", "validation", "test", "train"] * (N // 4))
    np.testing.assert_array_equal(table.nuisance["part"], PART)
    assert table.source.startswith("a")
    assert "text is missing in 2 of 24 rows." in table.notes


@pytest.mark.parametrize("dtype", ["f2", "f8", "u8", ">f4", "bool"])
@pytest.mark.parametrize("write", [npy, compressed])
def test_arrays_of_any_numbers_are_read_in_either_order(tmp_path, write, dtype):
    given = (10 * np.abs(IMAGE)).astype(dtype)
    table = own.read(write(tmp_path, {"a": given, "b": np.asfortranarray(given), "y": LABEL}))
    for x in table.modalities.values():
        np.testing.assert_array_equal(x, given.astype(np.float32))
        assert x.dtype == (np.float16 if dtype == "f2" else np.float32)


def test_tensors_are_read_also_as_bfloat16_and_their_labels_are_tensors(tmp_path):
    save = pytest.importorskip("safetensors.torch").save_file
    x = torch.from_numpy(IMAGE)
    save({"rough": x.to(torch.bfloat16), "b": x, "label": torch.from_numpy(LABEL)}, tmp_path / "a.safetensors")
    table = own.read(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(table.modalities["rough"], x.to(torch.bfloat16).float().numpy())
    np.testing.assert_array_equal(table.modalities["b"], IMAGE)
    np.testing.assert_array_equal(table.target, LABEL)


@pytest.mark.parametrize("write", [npz, npy, safetensors])
def test_what_is_mapped_can_be_written_to_and_the_file_stays_as_it_is(tmp_path, write):
    path = write(tmp_path, COLUMNS)
    file = path / "text.npy" if path.is_dir() else path
    before = file.read_bytes()
    table = own.read(path, target="label")
    assert not table.modalities["text"].flags.owndata
    table.modalities["text"][:] = 7
    assert torch.from_numpy(table.modalities["image"]).sum().item() == pytest.approx(float(IMAGE.sum()), rel=1e-4)
    assert file.read_bytes() == before


@pytest.mark.parametrize("write", EVERY)
def test_rows_without_a_target_or_without_a_modality_are_left_out_and_named(tmp_path, write):
    image, score = IMAGE.copy(), RNG.normal(size=N).astype(np.float32)
    image[4], score[[0, 1]] = np.nan, np.nan
    table = own.read(write(tmp_path, {"image": image, "text": TEXT, "y": score}))
    kept = np.setdiff1d(np.arange(N), [0, 1, 4])
    np.testing.assert_allclose(table.modalities["image"], IMAGE[kept], rtol=1e-6)
    np.testing.assert_allclose(table.target, score[kept], rtol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(~table.present["text"]), [kept.tolist().index(9)])
    assert (table.target.dtype, table.classes) == (np.dtype(np.float64), ())
    assert table.notes[:2] == (
        "Left out, because y is missing: rows 0, 1 (from 0).",
        "Left out, because they have no modality: row 4 (from 0).",
    )


@pytest.mark.parametrize("write", EVERY)
def test_blocks_of_rows_without_a_modality_or_to_leave_out_shift_nothing(tmp_path, write, monkeypatch):
    monkeypatch.setattr("synib.own.values.STEP", 5)
    monkeypatch.setattr("synib.own.from_csv.LINES", 5)
    text, score = TEXT.copy(), np.arange(N) + 0.5
    text[:11], score[::3] = np.nan, np.nan
    table = own.read(write(tmp_path, {"image": IMAGE, "text": text, "y": score}))
    kept = np.arange(N) % 3 != 0
    np.testing.assert_allclose(table.modalities["text"], np.nan_to_num(text)[kept], rtol=1e-6)
    np.testing.assert_allclose(table.modalities["image"], IMAGE[kept], rtol=1e-6)
    np.testing.assert_array_equal(table.present["text"], ~np.isnan(text[kept, 0]))


def test_a_csv_keeps_texts_of_digits_and_long_lists(tmp_path):
    long = np.tile(IMAGE[:, :1], 9000)
    path = csv_lists(tmp_path, COLUMNS | {"image": long, "speaker": np.array([f"{row % 4:03}" for row in range(N)])})
    limit = csv.field_size_limit()
    table = own.read(path, group="speaker")
    np.testing.assert_allclose(table.modalities["image"], long, rtol=1e-6)
    assert table.group[:4].tolist() == ["000", "001", "002", "003"]
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("write", EVERY)
def test_a_flag_says_which_rows_have_a_modality_whatever_stands_there(tmp_path, write):
    image, flag = IMAGE.copy(), np.arange(N) % 4 != 1
    image[1], image[5, 0] = np.inf, np.nan
    table = own.read(write(tmp_path, {"image": image, "text": 2 * IMAGE, "label": LABEL, "image_present": flag}))
    np.testing.assert_array_equal(table.present["image"], flag)
    assert (table.modalities["image"][~flag] == 0).all()
    np.testing.assert_allclose(table.modalities["image"][flag], IMAGE[flag], rtol=1e-6)


@pytest.mark.parametrize(
    ("target", "task", "classes"),
    [
        (np.array(["no", "yes", "maybe"])[LABEL], "auto", ("maybe", "no", "yes")),
        (LABEL == 1, "auto", ("False", "True")),
        (LABEL * 100 - 100, "auto", ("-100", "0", "100")),
        (LABEL.astype(np.float64), "auto", ("0", "1", "2")),
        (LABEL / 2, "classification", ("0", "0.5", "1")),
        (np.array([2**63, 1], np.uint64)[LABEL % 2], "auto", ("1", str(2**63))),
        (LABEL, "regression", ()),
        (LABEL / 2, "auto", ()),
        (np.arange(N), "auto", ()),
        (LABEL[:, None], "auto", ("0", "1", "2")),
    ],
)
def test_classes_and_numbers_are_told_apart(tmp_path, target, task, classes):
    table = own.read(npz(tmp_path, {"a": IMAGE, "b": TEXT, "y": target}), task=task)
    assert table.classes == classes
    if classes:
        plain = target.reshape(-1)
        assert [classes[k] for k in table.target] == [f"{v:g}" if plain.dtype.kind == "f" else str(v) for v in plain]
    else:
        np.testing.assert_array_equal(table.target, target)


def test_names_that_the_user_gives_choose_columns_prefixes_and_single_numbers(tmp_path):
    path = npz(
        tmp_path,
        {
            "v.emb": IMAGE,
            "w_1": LABEL,
            "w_2": LABEL * 2.0,
            "age": np.arange(N),
            "kind": PART,
            "y": LABEL,
            "video": IMAGE[:, None],
        },
    )
    named = own.read(path, modalities={"face": "v.emb", "words": "w", "age": "age"})
    assert {name: x.shape[1] for name, x in named.modalities.items()} == {"face": 3, "words": 2, "age": 1}
    np.testing.assert_array_equal(named.modalities["words"], np.stack([LABEL, 2 * LABEL], 1))
    guessed = own.read(path)
    assert list(guessed.modalities) == ["v_emb", "w"]
    assert "Columns that are not used: age, kind." in guessed.notes
    assert "Not used, because they are not vectors: video (an array of float32 (24, 1, 3))." in guessed.notes


def test_ten_numbered_columns_keep_the_order_of_their_numbers(tmp_path):
    wide = RNG.normal(size=(N, 12)).astype(np.float32)
    shuffled = dict(sorted(flattened({"a": wide}).items())) | {"b": IMAGE, "y": LABEL}
    np.testing.assert_array_equal(own.read(npz(tmp_path, shuffled)).modalities["a"], wide)


def test_parts_of_a_dict_of_datasets_are_the_split_and_class_labels_have_their_names(tmp_path):
    features = {"label": {"_type": "ClassLabel", "names": ["neg", "pos"]}}
    label = np.where(np.arange(N) == 3, -1, LABEL % 2)
    for name in ("train", "test"):
        notes = {"huggingface": json.dumps({"info": {"features": features}})}
        datasets(tmp_path / "d", COLUMNS | {"label": label}, name, notes)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    table = own.read(tmp_path / "d")
    assert table.classes == ("neg", "pos")
    assert table.split.tolist() == ["train"] * (N - 1) + ["test"] * (N - 1)  # -1 is no label


MEASURE = """
import sys
import pyarrow.compute, pyarrow.parquet
from synib.own import table as own
def peak(): return 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
for path in sys.argv[1:]:
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    table = own.read(path)
    print((peak() - before) / sum(x.nbytes for x in table.modalities.values()))
    del table
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read from /proc")
def test_large_files_are_mapped_or_held_once(tmp_path):
    pytest.importorskip("pyarrow")
    x = RNG.normal(size=(20_000, 512)).astype(np.float32)
    paths, most = [], {npz: 0.3, npy: 0.3, safetensors: 0.3, compressed: 1.5, datasets: 1.7, parquet: 1.7}
    for write in most:
        (tmp_path / write.__name__).mkdir()
        vectors = 0 * x if write is compressed else x  # packing noise would take long
        columns = {"image": vectors, "text": vectors, "label": np.arange(20_000) % 2}
        paths.append(str(write(tmp_path / write.__name__, columns)))
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    for write, peak in zip(most, map(float, done.stdout.split()), strict=True):
        assert peak < most[write], write.__name__


def test_modalities_alone_are_read_by_the_names_that_the_caller_chooses(tmp_path):
    path = tmp_path / "new.npz"
    image = np.arange(12, dtype=np.float32).reshape(4, 3)
    image[1] = np.nan
    np.savez(path, clip=image, words=np.ones((4, 2), np.float32), words_present=np.array([1, 1, 0, 1], bool))
    seen = []

    def choose(source):
        seen.extend(source.kinds)
        return {"image": "clip", "text": "words"}

    x, present, _ = read_rows(open_source(path), choose)
    assert seen == ["clip", "words", "words_present"]
    assert x["image"].shape == (4, 3)
    assert present["image"].tolist() == [True, False, True, True]
    assert present["text"].tolist() == [True, True, False, True]
    with pytest.raises(ValueError, match=r"does not exist"):
        read_rows(open_source(tmp_path / "none.npz"), choose)
    with pytest.raises(ValueError, match="has no column 'clop'"):
        read_rows(open_source(path), lambda source: {"image": "clop"})


def test_a_column_of_weights_is_read_and_rows_of_weight_0_are_left_out(tmp_path):
    weight = np.arange(N) % 3
    path = npz(tmp_path, COLUMNS | {"importance": weight})
    table = own.read(path, weight="importance")
    assert table.weight.tolist() == weight[weight > 0].tolist()
    assert len(table.target) == len(table.weight)
    with pytest.raises(ValueError, match="speaker must be a number of at least 0 in every row"):
        own.read(path, weight="speaker")
