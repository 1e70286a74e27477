"""Raw columns of every kind and from every format become modalities."""

import numpy as np
import pytest

from synib.own.raw import catalogue
from synib.own.raw.encoders.wordllama import WordLlama
from synib.own.table import Table, read

BOTH = {"text": "review:text", "person": "age,department:table"}


def test_texts_and_a_table_of_a_csv_become_two_modalities(reviews_csv, make):
    table = read(reviews_csv, modalities=BOTH)
    assert repr(table) == "Table(40 rows, text (262), person (3), 2 classes: 0, 1)"
    assert np.allclose(table.modalities["text"][:, :256], WordLlama().encode(make.reviews()["review"]), atol=1e-6)
    assert np.allclose(table.modalities["person"][:, 0].mean(), 0, atol=1e-6)
    assert table.columns == {"text": "review:text", "person": "age,department:table"}
    assert any(note.startswith("text is encoded by wordllama (static token") for note in table.notes)
    assert any("fitted to all rows, without the target" in note for note in table.notes)
    assert not any("not used" in note for note in table.notes)


def test_nothing_needs_to_be_named(reviews_csv):
    table = read(reviews_csv)
    assert list(table.modalities) == ["review", "table"]
    assert table.raw.modalities["table"].columns == ("age", "department")


def test_the_same_content_gives_the_same_vectors_in_every_format(reviews_csv, make, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    columns = make.reviews()
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **{name: np.array(values) for name, values in columns.items()})
    first = read(reviews_csv, modalities=BOTH)
    others = [
        read(tmp_path / "a.parquet", modalities=BOTH),
        read(tmp_path / "a.npz", modalities=BOTH),
        Table.from_dataframe(pandas.DataFrame(columns), modalities=BOTH),
    ]
    for table in others:
        for name, x in first.modalities.items():
            assert np.allclose(table.modalities[name], x, atol=1e-6)


def test_missing_texts_and_rows_of_a_table_are_missing_modalities(make, tmp_path):
    columns = make.reviews()
    columns["review"][1:3] = ["", "   "]
    columns["age"][3], columns["department"][3] = "", ""
    columns["age"][4] = ""
    table = read(make.csv(tmp_path / "a.csv", columns), modalities=BOTH)
    assert np.flatnonzero(~table.present["text"]).tolist() == [1, 2]
    assert np.flatnonzero(~table.present["person"]).tolist() == [3]
    assert not table.modalities["text"][1:3].any()
    assert table.modalities["person"][4, 1] == 1  # age, whether it is missing, departments


def test_a_text_may_begin_with_a_bracket_or_a_number(make, tmp_path):
    columns = make.reviews()
    columns["review"][0], columns["department"][0] = "[edited] lovely", "5"
    table = read(make.csv(tmp_path / "a.csv", columns), modalities={"a": "review:text", "b": "department:text"})
    assert table.present["a"].all()
    assert table.present["b"].all()


def test_images_and_sounds_of_a_folder_with_metadata(media):
    table = read(media)
    assert {name: x.shape for name, x in table.modalities.items()} == {"image": (24, 384), "sound": (24, 200)}
    red = table.modalities["image"][:, 0] > table.modalities["image"][:, 2]
    low = table.modalities["sound"][:, 5] > table.modalities["sound"][:, 20]
    assert np.array_equal(red ^ low, table.target == 1)


def test_images_and_sounds_as_bytes_of_parquet_and_of_a_data_frame(make, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    pictures = [make.png(i % 2 == 0, i) for i in range(12)]
    waves = [{"bytes": make.wav(i % 3 == 0, i), "path": f"{i}.wav"} for i in range(12)]  # as datasets has them
    pictures[5] = None
    columns = {"photo": pictures, "call": waves, "label": [i % 2 for i in range(12)]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    table, same = read(tmp_path / "a.parquet"), Table.from_dataframe(pandas.DataFrame(columns))
    assert {name: m.kind for name, m in table.raw.modalities.items()} == {"photo": "image", "call": "audio"}
    assert np.flatnonzero(~table.present["photo"]).tolist() == [5]
    for name, x in table.modalities.items():
        assert np.array_equal(same.modalities[name], x)


def test_a_folder_of_datasets_with_raw_columns(make, tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = pa.table(make.reviews())
    (tmp_path / "saved").mkdir()
    with pa.OSFile(str(tmp_path / "saved/data.arrow"), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows)
    (tmp_path / "saved/state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    assert read(tmp_path / "saved", modalities=BOTH).modalities["text"].shape == (40, 262)


def test_several_encoders_of_a_modality_are_joined(reviews_csv):
    table = read(reviews_csv, modalities=BOTH, encoders={"text": ["wordllama", "tfidf"]})
    states = table.raw.modalities["text"].encoders
    assert [state.name for state in states] == ["wordllama", "tfidf"]
    assert table.modalities["text"].shape[1] == 256 + states[1].width


def test_joined_vectors_are_mapped_and_equal_those_of_each_encoder(reviews_csv, monkeypatch, tmp_path):
    def vectors(*names):
        return read(reviews_csv, modalities=BOTH, encoders={"text": names}).modalities["text"]

    together = vectors("wordllama", "tfidf")
    assert isinstance(together, np.memmap)
    alone = [vectors("wordllama"), vectors("tfidf")]
    assert np.array_equal(together, np.concatenate(alone, 1))
    monkeypatch.setenv("SYNIB_CACHE", str(tmp_path / "another"))
    alone = [vectors("wordllama"), vectors("tfidf")]
    for encoder in ("wordllama.WordLlama", "tfidf.TfIdf"):  # what each gave before is used again
        monkeypatch.setattr(f"synib.own.raw.encoders.{encoder}.encode", None)
    assert np.array_equal(vectors("tfidf", "wordllama"), np.concatenate(alone[::-1], 1))


def test_a_file_that_one_of_two_encoders_cannot_take_is_named(media, monkeypatch):
    from synib.data.media import BrokenFile
    from synib.own.raw.encoders.pixels import Pixels

    class Picky(Pixels):
        def __init__(self):
            super().__init__()
            self.name = "picky"

        def prepare(self, item):
            if picked.pop():
                raise BrokenFile("is too plain")
            return super().prepare(item)

    picked = [True] + 23 * [False]
    monkeypatch.setattr(
        "synib.own.raw.embed.catalogue.defaults", lambda kind: ("pixels", "picky")[: 1 + (kind == "image")]
    )
    make = catalogue.make
    monkeypatch.setattr(catalogue, "make", lambda m, name, *more: Picky() if name == "picky" else make(m, name, *more))
    table = read(media, modalities={"image": "file_name:image", "sound": "sound:audio"}, encoders={"audio": "logmel"})
    assert (~table.present["image"]).sum() == 1
    assert any("is too plain" in note for note in table.notes)


def test_encoders_are_not_fitted_to_test_rows(make, tmp_path):
    columns = make.reviews() | {"part": ["train"] * 30 + ["test"] * 10}
    columns["age"][30:] = [1000] * 10
    table = read(make.csv(tmp_path / "a.csv", columns), modalities=BOTH, split="part")
    (column, _) = table.raw.modalities["person"].encoders[0].settings["columns"]
    assert column["mean"] == pytest.approx(np.mean(columns["age"][:30]))
    assert any("all rows except those of the test split" in note for note in table.notes)


def test_a_second_reading_encodes_nothing_and_other_content_does(reviews_csv, make, monkeypatch, tmp_path):
    encoded = []
    plain = WordLlama.encode
    monkeypatch.setattr(WordLlama, "encode", lambda self, items: encoded.extend(items) or plain(self, items))
    read(reviews_csv, modalities=BOTH)
    read(reviews_csv, modalities=BOTH)
    assert len(encoded) == 40
    columns = make.reviews()
    columns["age"][0] += 1  # another column
    read(make.csv(tmp_path / "b.csv", columns), modalities=BOTH)
    assert len(encoded) == 40
    columns["review"][0] += "!"
    read(make.csv(tmp_path / "c.csv", columns), modalities=BOTH)
    assert len(encoded) == 80


def test_an_image_that_changes_is_encoded_again(media, make):
    before = read(media).modalities["image"][0].copy()
    red = before[0] > before[2]
    (media / "files/0.png").write_bytes(make.png(not red, 100))
    assert not np.array_equal(read(media).modalities["image"][0], before)


def test_progress_is_told(reviews_csv):
    told = []
    read(reviews_csv, modalities=BOTH, on_progress=lambda done, of, what: told.append((done, of, what)))
    assert (40, 40, "embedding text") in told
    assert (40, 40, "embedding person") in told


def test_rows_are_numbered_as_in_the_file(make, tmp_path):
    columns = make.reviews()
    columns["label"][2] = ""
    table = read(make.csv(tmp_path / "a.csv", columns), modalities=BOTH)
    assert table.row_numbers.tolist() == [0, 1, *range(3, 40)]
