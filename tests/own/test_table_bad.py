"""What is wrong with a user's file is one sentence, whatever the file; random damage never ends in anything else."""

import csv
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synib.own import table as own
from synib.own.table import Table

N = 12
A = np.arange(N * 3, dtype=np.float32).reshape(N, 3)
B = A[:, :2] + 0.5
Y = np.arange(N) % 2
GOOD = {"image": A, "text": B, "label": Y, "speaker": np.array([f"s{row % 4}" for row in range(N)])}


def with_row(x, row, value):
    changed = x.astype(np.float64)
    changed[row] = value
    return changed


def table(**changes):
    return {name: x for name, x in (GOOD | changes).items() if x is not None}


@pytest.fixture
def npz(tmp_path):
    def write(**changes):
        np.savez(tmp_path / "a.npz", **table(**changes))
        return tmp_path / "a.npz"

    return write


LINES = [["image", "text_0", "text_1", "label"], *[[str(a.tolist()), *b, y] for a, b, y in zip(A, B, Y, strict=True)]]


@pytest.fixture
def text(tmp_path):
    """A .csv with one cell changed: line, place, content."""

    def write(line=None, place=0, content=""):
        lines = [list(cells) for cells in LINES]
        if line is not None:
            lines[line][place] = content
        with (tmp_path / "a.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(lines)
        return tmp_path / "a.csv"

    return write


def refused(said, path, **asked):
    with pytest.raises(ValueError, match=said) as caught:
        own.read(path, **asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"target": "lable"}, r"has no column 'lable' for target; did you mean label\? It has image, text, label"),
        ({"group": "Speaker"}, r"no column 'Speaker' for group; did you mean speaker\?"),
        ({"split": "q"}, r"no column 'q' for split; it has image, text, label, speaker\."),
        ({"nuisance": ["spekaer"]}, r"no column 'spekaer' for nuisance; did you mean speaker\?"),
        ({"modalities": {"a": "imag", "b": "text"}}, r"no column 'imag' for the modality a; did you mean image\?"),
        ({"modalities": {"a": "image"}}, "at least two modalities are needed, .*; only a is one among image, text"),
        ({"modalities": {"a": "image", "b": "image"}}, "image cannot be in two modalities"),
        ({"modalities": {"a": "image", "b": "label"}}, "label cannot be both the target and a modality"),
        ({"modalities": {"a.b": "image", "b": "text"}}, "name of a modality must be a string without a dot"),
        (
            {"modalities": ["image", "text"]},
            r"modalities must be a dict of name → column, .*; got \['image', 'text'\]\.",
        ),
        ({"target": ["label"]}, r"target must be the name of a column; got \['label'\]"),
        (
            {"modalities": {"a": ["image"], "b": "text"}},
            r"the modality a must be the name of a column; got \['image'\]",
        ),
        ({"nuisance": 3}, "nuisance must be a list of column names; got 3"),
        (
            {"target": "image"},
            r"target must be a column with one value per row; image holds an array of float32 \(12, 3\)\.",
        ),
        ({"group": "label"}, "label is the target, so it cannot also be split, group, weight or nuisance"),
        ({"split": "speaker"}, r"speaker must be train, validation or test in every row; it is 's0' .* rows 0, 1"),
        ({"target": "speaker", "task": "regression"}, "speaker holds texts such as 's0', but a regression needs"),
        ({"task": "ranking"}, "task must be 'auto', 'classification', 'ordinal', 'multilabel' or 'regression'; got"),
    ],
)
def test_what_is_asked_for_must_be_there(npz, asked, said):
    refused(said, npz(), **asked)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"label": None}, r"no target was given, .* --target COLUMN with one of: image, text, speaker\."),
        ({"y": Y}, "label and y could both be the target. Use --target COLUMN"),
        ({"image": None}, "at least two modalities are needed, .*; only text is one among text, label, speaker"),
        ({"image": None, "text": None}, "at least two modalities are needed, .*; there are none"),
        ({"label": np.ones(N, int)}, "label is 1 in every row: there is nothing to predict"),
        ({"label": np.arange(N), "task": "classification"}, "label has 12 classes in 12 rows, too many to learn"),
        ({"label": np.array([f"t{row}" for row in range(N)])}, "label has 12 classes in 12 rows, too many to learn"),
        ({"label": with_row(Y, 3, np.inf)}, r"label is infinite in row 3 \(from 0\)"),
        ({"label": 2**60 + np.arange(N)}, r"label contains integers beyond 2\^53"),
        ({"label": np.array(["x" * 300] * N)}, "label holds texts of more than 256 characters"),
        ({"image": A[:5]}, "label has 12 rows, but image has 5; all columns need equally many"),
        ({"image": with_row(A, (3, 1), np.nan)}, r"image has NaN \(or empty cells\) next to numbers in row 3 \(from 0\)"),
        ({"image": with_row(A, (slice(0, 9), 1), np.nan)}, r"next to numbers in rows 0, 1, 2 and 6 more \(from 0\)"),
        ({"image": with_row(A, 3, np.inf)}, r"image has infinite numbers, .* in row 3"),
        ({"image": with_row(A, 3, 1e300)}, r"image has infinite numbers, or numbers beyond the range of float32, in row 3"),
        ({"image": A[:, :0]}, "the vectors of image have no numbers"),
        ({"image": A[:2], "text": B[:2], "label": Y[:2]}, "has 2 usable rows out of 2; at least 10 are needed"),
        ({"image": A[:0], "text": B[:0], "label": Y[:0]}, "has 0 usable rows out of 0"),
        ({"image": np.full((N, 3), np.nan), "text": np.full((N, 2), np.nan)}, "has 0 usable rows out of 12"),
        ({"image": np.array([[1], [1, 2]] * 6, object)}, "image is an array of objects, which would have to be unpickled"),
        ({"notes": np.array([{}], object)}, "notes is an array of objects, which would have to be unpickled"),
        ({"image": A.astype([("f", "f4")])}, "image is not a plain array of numbers or strings"),
        ({"image_present": np.full(N, "yes")}, "image_present must be true or false in every row"),
        ({"image_present": np.arange(N)}, "image_present must be true or false in every row"),
        (
            {"image": with_row(A, 3, np.nan), "image_present": Y > -1},
            r"image is marked as present in row 3 \(from 0\), but is NaN",
        ),
        ({"image": None, "image_0": Y, "image_2": Y}, "the columns image_… must count up from 0 or 1; image_1 is missing"),
        ({"image": None, "image_5": Y, "image_6": Y}, "the columns image_… must count up from 0 or 1; image_0 is missing"),
        ({"image": None, "image_0": Y, "image_00": Y}, "two columns with the same number: image_0 and image_00"),
        ({"image": None, "image_0": Y, "image_1": GOOD["speaker"]}, "image_… should be columns of numbers; image_1 holds"),
        ({"image_0": Y, "image_1": Y}, "has a column image and columns image_…: name the modalities explicitly"),
        ({"type": A}, "A modality cannot be called 'type'"),
        ({"a.b": A, "a_b": B}, "two columns would both be the modality a_b"),
        ({"image\n": A}, "has characters that cannot be printed"),
    ],
)  # fmt: skip
def test_arrays_must_make_sense(npz, changes, said):
    asked = {"task": changes["task"]} if "task" in changes else {}
    refused(said, npz(**{name: x for name, x in changes.items() if name != "task"}), **asked)


@pytest.mark.parametrize(
    ("line", "place", "content", "said"),
    [
        (3, 0, "[1.0, 2.0]", r"all vectors of image must have the same width; row 2 \(from 0\) has 2 numbers, .* 3\."),
        (3, 0, "[]", r"image is an empty list in row 2 \(from 0\)"),
        (3, 0, "[1, x, 2]", r"image should be a list of numbers such as \[0\.1, 0\.2\]; row 2 \(from 0\) is '\[1, x"),
        (3, 0, "[1, 2, 3", "image should be a list of numbers"),
        (3, 0, "a.jpg", "image should be a list of numbers .* is 'a.jpg'"),
        (3, 1, "a.jpg", r"text_0 should be a number in every row; row 2 \(from 0\) is 'a.jpg'"),
        (3, 1, "", r"text has NaN \(or empty cells\) next to numbers in row 2"),
        (3, 1, "9" * 400, "text has infinite numbers, or numbers beyond the range of float32, in row 2"),
        (0, 1, "label", "has two columns called 'label': rename one"),
        (0, 3, "", "no column is called label, target or y"),
    ],
)
def test_cells_must_make_sense(text, line, place, content, said):
    refused(said, text(line, place, content))


def test_lines_must_be_whole_and_texts(text, tmp_path):
    path = text()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b",")])
    refused(r"row 11 \(from 0\) has 3 cells, but the header has 4 columns", path)
    path.write_text("Dear all,\n\nhere are the data.\n")
    refused(r"row 0 \(from 0\) has 1 cell, but the header has 2 columns\. Separate cells with commas", path)
    path.write_bytes(whole[: whole.index(b"\n") + 1])
    refused("has no rows", path)
    path.write_bytes(whole.replace(b"label", b"l\xe9bel"))
    refused("is not UTF-8 text", path)
    path.write_bytes(b"image;text;label\n1;2;3\n")
    refused("the first line should be column names separated by commas; it is 'image;text;label'", path)
    path.write_bytes(whole.replace(b"\r\n", b"\r\n\r\n").replace(b"image", b"\xef\xbb\xbfimage", 1))
    assert list(own.read(path).modalities) == ["image", "text"]


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (
            [[1.0, 2.0]] * 5 + [[1.0]] + [[1.0, 2.0]] * 6,
            "list",
            "must have the same width; row 5 .* has 1 numbers, .* 2",
        ),
        ([None] * 5 + [[]] + [[1.0]] * 6, "list", "image is an empty list in row 5"),
        ([[1.0, None]] + [[1.0, 2.0]] * 11, "list", "next to numbers in row 0"),
        ([None] * 12, "list", "image is missing in every row"),
        ([[["a"]]] * 12, "nested", "the modality image must be vectors of numbers, texts, .*; image holds list"),
    ],
)
def test_columns_of_parquet_must_make_sense(tmp_path, values, kind, said):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = pa.array(values, pa.list_(pa.float32())) if kind == "list" else pa.array(values)
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"image": column, "text": pa.array(list(B)), "label": Y}), path)
    refused(said, path, modalities={"image": "image", "text": "text"})
    parquet.write_table(pa.table([column, pa.array(list(B)), pa.array(Y)], names=["a", "a", "label"]), path)
    refused("has two columns called 'a'", path)


def test_paths_must_lead_to_data(tmp_path, npz):
    refused(r"a.nzp does not exist; did you mean .*a.npz\?", npz().with_suffix(".nzp"))
    refused(r"does not exist\.", tmp_path / "no" / "a.npz")
    refused("holds neither metadata.csv nor .npy files, and was not written by datasets' save_to_disk", tmp_path)
    refused("path must be that of a file or a folder; got 3", 3)
    refused("path must be that of a file or a folder; got ''", "")
    for ending in (".npz", ".safetensors", ".csv", ".parquet"):
        (tmp_path / f"empty{ending}").touch()
        refused("is empty", tmp_path / f"empty{ending}")
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(GOOD))
    refused(r"must end in .npz, .safetensors, .csv, .parquet, or be a folder; it ends in '.pkl'", tmp_path / "a.pkl")


@pytest.mark.parametrize("name", ["../image.npy", "/etc/image.npy", "a/../../image.npy", "..\\image.npy"])
def test_no_member_of_an_archive_leads_out_of_it(npz, name):
    path = npz()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")
    refused("which points outside of it: an array needs a name, not a path", path)


def test_no_array_comes_twice(npz, tmp_path):
    path = npz()
    with zipfile.ZipFile(path) as archive:
        content = archive.read("image.npy")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("image.npy", content)
    refused("has two arrays called 'image'", path)
    entry = '"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}'
    head = f"{{{entry}, {entry}}}".encode()
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    refused("two tensors have the same name", tmp_path / "a.safetensors")


def test_no_file_of_a_folder_leads_out_of_it(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "secret.arrow").write_bytes(b"x")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../secret.arrow"}]}))
    refused("points outside of", tmp_path / "a")
    (tmp_path / "a" / "state.json").write_text(json.dumps({"_data_files": [{"filename": "gone.arrow"}]}))
    refused("the data file gone.arrow is missing", tmp_path / "a")
    (tmp_path / "a" / "state.json").write_text(json.dumps({"_data_files": [], "_indices_data_files": [{}]}))
    refused("it is a selection of rows: call flatten_indices", tmp_path / "a")
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "image.npy", A)
    (tmp_path / "b" / "image.npy").symlink_to(tmp_path / "image.npy")
    refused("points outside of", tmp_path / "b")


def damaged_npz(folder, compressed=False):
    (np.savez_compressed if compressed else np.savez)(folder / "a.npz", **GOOD)
    return folder / "a.npz", folder / "a.npz"


def damaged_compressed(folder):
    return damaged_npz(folder, compressed=True)


def damaged_npy(folder):
    for name, x in GOOD.items():
        np.save(folder / f"{name}.npy", x)
    return folder, folder / "image.npy"


def damaged_safetensors(folder):
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file(table(speaker=np.arange(len(Y)) % 4), folder / "a.safetensors")
    return folder / "a.safetensors", folder / "a.safetensors"


def damaged_csv(folder):
    lines = [
        ["image", "text_0", "text_1", "label", "speaker"],
        *[[*line, f"s{row % 4}"] for row, line in enumerate(LINES[1:])],
    ]
    with (folder / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(lines)
    return folder / "a.csv", folder / "a.csv"


def arrow():
    pa = pytest.importorskip("pyarrow")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(B.ravel()), 2)
    speaker = pa.array(GOOD["speaker"].tolist()).dictionary_encode()
    return pa.table({"image": pa.array([None, *A[1:]]), "text": fixed, "label": pa.array(Y), "speaker": speaker})


def damaged_parquet(folder):
    pytest.importorskip("pyarrow.parquet").write_table(arrow(), folder / "a.parquet", row_group_size=5)
    return folder / "a.parquet", folder / "a.parquet"


def damaged_datasets(folder):
    pa, rows = pytest.importorskip("pyarrow"), arrow()
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    with pa.OSFile(str(folder / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows, max_chunksize=5)
    return folder, folder / "data.arrow"


BINARY = [damaged_npz, damaged_compressed, damaged_npy, damaged_safetensors, damaged_parquet, damaged_datasets]


@pytest.mark.parametrize("write", BINARY)
def test_a_file_that_is_cut_anywhere_is_refused(tmp_path, write):
    path, file = write(tmp_path)
    assert isinstance(own.read(path, group="speaker"), Table)
    whole = file.read_bytes()
    for length in {*range(0, len(whole), 97), len(whole) - 1}:
        file.write_bytes(whole[:length])
        refused("truncated or damaged|is empty|is not", path, group="speaker")


@pytest.mark.parametrize("write", [damaged_npy, damaged_safetensors, damaged_datasets])
def test_a_file_with_more_in_it_than_it_says_is_refused(tmp_path, write):
    path, file = write(tmp_path)
    file.write_bytes(file.read_bytes() + b"more")
    refused("truncated or damaged", path)


def test_lists_that_begin_outside_their_numbers_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path, file = damaged_datasets(tmp_path)
    rows = pa.record_batch({"image": pa.array(list(A)), "text": pa.array(list(B)), "label": pa.array(Y)})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    starts = 3 * np.arange(N + 1, dtype=np.int32)
    whole = file.read_bytes()
    assert whole.count(starts.tobytes()) == 1
    file.write_bytes(whole.replace(starts.tobytes(), (starts + 3).tobytes()))
    refused("truncated or damaged", path)


def test_a_truth_value_is_true_or_false_whatever_its_byte(tmp_path):
    path, _ = damaged_npy(tmp_path)
    np.save(tmp_path / "label.npy", np.array([0, 1, 2, 255] * 3, np.uint8).view(np.bool_))
    found = own.read(path)
    assert (found.classes, found.target.tolist()) == (("False", "True"), [0, 1, 1, 1] * 3)


@pytest.mark.parametrize("write", [*BINARY, damaged_csv])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_ends_in_a_table_or_a_sentence(tmp_path, write, data):
    path, file = write(tmp_path)
    content = bytearray(file.read_bytes())
    match data.draw(st.sampled_from(["flip", "replace", "cut", "noise"])):
        case "flip":
            for place in data.draw(st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=5)):
                content[place // 8] ^= 1 << place % 8
        case "replace":
            start = data.draw(st.integers(0, len(content) - 1))
            content[start : start + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=30))
        case "cut":
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        case "noise":
            content = bytearray(data.draw(st.binary(max_size=300)))
    file.write_bytes(content)
    try:
        found = own.read(path, group="speaker")
    except ValueError as mistake:
        found = mistake
    if not isinstance(found, Table):
        assert type(found) is ValueError  # a decoder's own error says nothing to a user
        assert str(tmp_path) in str(found)
        assert "\n" not in str(found)
