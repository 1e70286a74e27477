"""Tables of what is in memory: arrays, a DataFrame, a Hugging Face dataset; by the same rules as files."""

import numpy as np
import pytest
import torch

import synib
from synib.own.table import read

N = 30
RNG = np.random.default_rng(1)
IMAGE = RNG.normal(size=(N, 3)).astype(np.float32)
TEXT = RNG.normal(size=(N, 2)).astype(np.float32)
TEXT[[4, 9]] = np.nan
LABEL = np.array(["no", "yes"])[np.arange(N) % 2]
SPEAKER = np.array([f"s{row // 5}" for row in range(N)])
CAPTION = np.array(["word " * 90] * 60)
PART = np.array(["train", "val", "test"])[np.arange(N) % 3]


@pytest.fixture
def saved(tmp_path):
    np.savez(tmp_path / "a.npz", image=IMAGE, text=TEXT, label=LABEL, speaker=SPEAKER, part=PART)
    return read(tmp_path / "a.npz", group="speaker", split="part")


def same(a, b):
    assert list(a.modalities) == list(b.modalities)
    for name in a.modalities:
        assert (a.modalities[name] == b.modalities[name]).all()
        assert (a.present[name] == b.present[name]).all()
    assert (a.target == b.target).all()
    assert (a.classes, a.kind) == (b.classes, b.kind)
    for one, other in ((a.group, b.group), (a.split, b.split)):
        assert (one is None) == (other is None)
        assert one is None or (one == other).all()


def test_arrays_make_the_table_that_their_file_makes(saved):
    before = TEXT.copy()
    table = synib.Table.from_arrays({"image": IMAGE, "text": TEXT}, LABEL, groups=SPEAKER, split=PART)
    same(table, saved)
    assert np.array_equal(TEXT, before, equal_nan=True)  # the caller's array is left alone
    assert table.modalities["image"] is IMAGE  # and what needs no change is not copied
    tensors = {"image": torch.as_tensor(IMAGE), "text": torch.as_tensor(TEXT)}
    same(synib.Table.from_arrays(tensors, LABEL.tolist(), groups=SPEAKER, split=PART), saved)


def test_arrays_with_weights_and_nuisances():
    camera, weight = np.arange(N) % 2, np.arange(N) % 3
    table = synib.Table.from_arrays({"a": IMAGE, "b": TEXT}, LABEL, nuisance={"camera": camera}, weight=weight)
    assert (table.nuisance["camera"] == camera[weight > 0]).all()
    assert (table.weight == weight[weight > 0]).all()
    assert len(table.target) == (weight > 0).sum()
    one = synib.Table.from_arrays({"a": IMAGE[:, 0], "b": TEXT}, torch.arange(N).float())
    assert (one.kind, one.modalities["a"].shape) == ("regression", (N, 1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"modalities": [IMAGE, TEXT]}, r"modalities must be a dict of name → array \(rows, width\)"),
        ({"modalities": {"image": IMAGE}}, "at least two modalities are needed"),
        ({"modalities": {"image": IMAGE, "target": TEXT}}, "The name 'target' is used twice"),
        ({"modalities": {"image": IMAGE[:5], "text": TEXT}}, "target has 30 rows, but image has 5"),
        ({"modalities": {"image": IMAGE[:, :, None], "text": TEXT}}, "image holds an array of float32 \\(30, 3, 1\\)"),
        ({"modalities": {"image": 3, "text": TEXT}}, "image must be an array with a value or a vector for each row"),
        ({"target": None}, "target must be an array with a value to predict for each row"),
        ({"target": [object()] * N}, "target must be a column with one value per row"),
        ({"groups": SPEAKER[:4]}, "target has 30 rows, but groups has 4"),
        ({"nuisance": SPEAKER}, "nuisance must be a dict of name"),
        ({"task": "guess"}, "task must be 'auto'"),
    ],
)
def test_what_is_wrong_with_arrays_is_a_sentence(changed, said):
    given = {"modalities": {"image": IMAGE, "text": TEXT}, "target": LABEL} | changed
    with pytest.raises(ValueError, match=said):
        synib.Table.from_arrays(given.pop("modalities"), given.pop("target"), **given)


def test_a_dataframe_with_numbered_columns_or_cells_of_vectors(saved):
    pd = pytest.importorskip("pandas")
    cells = [None if np.isnan(t).any() else t.tolist() for t in TEXT]
    columns = {f"image_{k}": IMAGE[:, k] for k in range(3)} | {
        "text": cells,
        "label": LABEL,
        "speaker": SPEAKER,
        "part": PART,
    }
    data = pd.DataFrame(columns)
    table = synib.Table.from_dataframe(data, target="label", group="speaker", split="part",
                                       modalities={"image": "image", "text": "text"})  # fmt: skip
    same(table, saved)
    assert table.columns == {"image": "image", "text": "text"}
    guess = synib.Table.from_dataframe(data.assign(text=pd.Series([np.array(c) if c else None for c in cells])))
    assert set(guess.modalities) == {"image", "text"}
    assert guess.suggested_groups == ("speaker",)
    nullable = data.assign(label=pd.array([0, 1, None] * (N // 3), dtype="Int64"), part=pd.Categorical(PART))
    table = synib.Table.from_dataframe(nullable, split="part")
    assert (table.classes, len(table.target)) == (("0", "1"), 20)
    for wrong, said in (
        ({"a": 1}, "takes a pandas DataFrame; got dict"),
        (
            data.assign(text=[[1.0]] * 3 + [[1.0, 2.0]] * (N - 3)),
            r"row 3 \(from 0\) has 2 numbers, the rows before it 1",
        ),
        (data.assign(text=[[1.0]] * 3 + ["x"] * (N - 3)), r"text should be a list of numbers in every row; row 3"),
        (data.assign(label=[1, "x"] * (N // 2)), "label must hold either texts or numbers; it also has 1"),
        (pd.concat([data, data], axis=1), "two columns called 'image_0'"),
    ):
        with pytest.raises(ValueError, match=said):
            synib.Table.from_dataframe(wrong)


class Dataset:
    """As much of a ``datasets.Dataset`` as is used of it."""

    def __init__(self, table):
        self.table = table
        self.features = type("Features", (), {"arrow_schema": table.schema})()

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def __len__(self):
        return len(self.table)

    def __getitem__(self, rows):
        return self.table[rows]


def test_a_hugging_face_dataset_and_a_dict_of_them(saved):
    pa = pytest.importorskip("pyarrow")
    texts = [None if np.isnan(t).any() else t for t in TEXT]
    table = pa.table({"image": list(IMAGE), "text": texts, "label": LABEL, "speaker": SPEAKER, "part": PART})
    same(synib.Table.from_dataset(Dataset(table), group="speaker", split="part"), saved)
    parts = {"train": Dataset(table[:20]), "test": Dataset(table[20:])}
    assert synib.Table.from_dataset(parts).split.tolist() == ["train"] * 20 + ["test"] * 10
    for wrong, said in (
        ([1, 2], "datasets.Dataset or DatasetDict, not streamed; got list"),
        (Dataset(table[:0]), "has no rows"),
        ({"train": Dataset(table), "test": Dataset(table.drop(["text"]))}, "must have the same columns"),
    ):
        with pytest.raises(ValueError, match=said):
            synib.Table.from_dataset(wrong)


def test_columns_that_look_like_units_are_suggested_as_groups(tmp_path):
    rows = np.arange(60)
    x = RNG.normal(size=(60, 2)).astype(np.float32)
    more = {"speaker": np.array([f"s{r // 3}" for r in rows]), "row": rows, "age": 20 + rows % 30, "caption": CAPTION,
            "sex": np.array(["f", "m"])[rows % 2], "unique_id": np.array([f"u{r}" for r in rows])}  # fmt: skip
    np.savez(tmp_path / "a.npz", image=x, text=x[::-1], label=rows % 2, **more)
    table = read(tmp_path / "a.npz")
    assert table.suggested_groups == ("speaker",)
    note = "speaker has 20 distinct values that repeat: if rows of one speaker are related, use --group speaker."
    assert note in table.notes
    assert set(table.unused) == set(more)
    grouped = read(tmp_path / "a.npz", group="speaker")
    assert grouped.suggested_groups == ()
    assert "speaker" not in grouped.unused
    np.savez(tmp_path / "b.npz", image=x, text=x[::-1], label=rows % 2, age=20 + rows % 30)
    assert read(tmp_path / "b.npz").suggested_groups == ("age",)  # nothing better
    pytest.importorskip("pyarrow")
    from pyarrow import parquet
    from pyarrow import table as arrow

    columns = {"image": list(x), "text": list(x[::-1]), "label": rows % 2} | {n: list(v) for n, v in more.items()}
    parquet.write_table(arrow(columns), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").suggested_groups == ("speaker",)


def test_columns_beside_the_modalities_can_be_read_for_predictions(tmp_path):
    from synib.own.new_rows import read_rows
    from synib.own.opening import open_source

    np.savez(tmp_path / "a.npz", image=IMAGE, text=TEXT, id=np.arange(N), name=SPEAKER, long=np.array(["x" * 300] * N))
    x, present, beside = read_rows(open_source(tmp_path / "a.npz"), lambda source: {"image": "image"}, identifiers=True)
    assert set(x) == set(present) == {"image"}
    assert set(beside) == {"id", "name"}
    assert beside["id"].values.tolist() == list(range(N))
    assert read_rows(open_source(tmp_path / "a.npz"), lambda source: {"image": "image"})[2] == {}


def test_a_table_shows_itself_in_a_line_and_in_a_notebook(table):
    some = table()
    assert repr(some) == "Table(160 rows, a (3), b (2), 2 classes: no, yes)"
    html = table(
        classes=2, source="<b>.npz", notes=("<script>alert(1)</script>",), group=np.arange(160).astype(str)
    )._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "160" in html
    assert "\x1b" not in repr(table(classes=2).__class__(**{**vars(some), "classes": ("\x1b[31mred", "b")}))
    assert "a number from 4 to 10" in repr(table(classes=0))


def make(**changes):
    given = {"modalities": {"image": IMAGE, "text": TEXT}, "target": LABEL} | changes
    return synib.Table.from_arrays(given.pop("modalities"), given.pop("target"), **given)


def test_what_limits_the_answers_is_noted():
    constant = make(modalities={"image": IMAGE, "text": np.ones((N, 2), np.float32)})
    assert "text is the same in every row, so it cannot help to predict anything." in constant.notes
    rare = np.arange(N) % 2
    rare[7] = 2
    assert "Only one row is of class 2: a model cannot be both trained and tested on it." in make(target=rare).notes
    flags = np.stack([np.arange(N) % 2, np.arange(N) == 3], 1)
    assert "Only one row has the label 1: a model cannot be both trained and tested on it." in make(target=flags).notes
    few = make(groups=np.array(["a", "b", "c"])[np.arange(N) % 3])
    assert "There are only 3 groups: intervals over them are very wide." in few.notes
    plain = make(groups=SPEAKER).notes
    assert not any(words in note for note in plain for words in ("only", "Only", "same in every"))


def test_a_modality_that_no_row_has_and_groups_that_are_the_classes_are_refused():
    with pytest.raises(ValueError, match="text is missing in every row: leave it out, or give it vectors"):
        make(modalities={"image": IMAGE, "text": np.full((N, 2), np.nan)})
    with pytest.raises(ValueError, match="each group of groups is a class of its own"):
        make(groups=LABEL)
    with pytest.raises(ValueError, match="each group of groups is a class of its own"):
        make(groups=np.where(LABEL == "no", "g1", "g2"))
    assert (
        make(groups=np.char.add(LABEL, (np.arange(N) % 4).astype(str))).group is not None
    )  # several groups of a class
