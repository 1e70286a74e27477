"""A model that was fitted to raw columns takes raw rows again, and says what it is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from synib.own.fit import fit
from synib.own.raw.spec import RawModality
from synib.own.saved import load
from synib.own.table import read

BOTH = {"text": "review:text", "person": "age,department:table"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make, simple_cross_validation):
    """A model of texts (by an encoder that was fitted to them) and a table, saved."""
    place = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(place / "cache"))
        columns = make.reviews(60)
        columns["age"][3] = ""
        path = make.csv(place / "reviews.csv", columns)
        table = read(path, modalities=BOTH, encoders={"text": "tfidf"})
        model = fit(table, "vanilla", budget=1, epochs=5, device="cpu", columns=table.columns, baselines=False)
    model.save(place / "model")
    np.savez(place / "expected.npz", p=model.predict(table.modalities, table.present))
    return place


def test_a_loaded_model_encodes_raw_rows_as_in_training(folder):
    model = load(folder / "model")
    assert model.raw["text"].columns == ("review",)
    assert [state.name for state in model.raw["text"].encoders] == ["tfidf"]
    rows, present = model.read(folder / "reviews.csv")
    assert np.allclose(model.predict(rows, present), np.load(folder / "expected.npz")["p"], atol=1e-9)


def test_other_rows_of_other_formats_and_columns_of_other_names(folder, make, tmp_path):
    pandas = pytest.importorskip("pandas")
    model = load(folder / "model")
    columns = make.reviews(12, seed=5)
    from_csv = model.predict(*model.read(make.csv(tmp_path / "new.csv", columns)))
    renamed = pandas.DataFrame(columns).rename(columns={"review": "comment"})
    assert np.allclose(model.predict(*model.read(renamed, {"text": "comment"})), from_csv)
    with pytest.raises(ValueError, match="text was review:text in training and needs as many columns of the same kind"):
        model.read(renamed, {"text": "age,department"})
    with pytest.raises(ValueError, match="The model has no modality 'image'"):
        model.read(renamed, {"image": "comment"})


def test_a_modality_or_a_column_of_a_table_may_be_missing(folder, make, tmp_path):
    from synib.own.new_rows import new_rows

    model = load(folder / "model")
    columns = make.reviews(6, seed=5)
    del columns["review"], columns["department"]
    found = new_rows(model, make.csv(tmp_path / "new.csv", columns))
    assert list(found.modalities) == ["person"]
    assert any("person: department is not in" in note for note in found.notes)
    assert any("text is not in" in note and "predictions are made without it" in note for note in found.notes)
    assert np.isfinite(model.predict(found.modalities, found.present)).all()
    with pytest.raises(ValueError, match=r"has none of the model's modalities \(review:text, age,department:table\)"):
        new_rows(model, make.csv(tmp_path / "none.csv", {"a": [1, 2], "b": [3, 4]}))


def test_all_rows_may_lack_a_text(folder, make, tmp_path):
    from synib.own.new_rows import new_rows

    model = load(folder / "model")
    columns = make.reviews(6, seed=5)
    without = model.predict(
        *model.read(make.csv(tmp_path / "no column.csv", {k: columns[k] for k in ("age", "department")}))
    )
    found = new_rows(model, make.csv(tmp_path / "empty.csv", columns | {"review": ["", " "] * 3}))
    assert "text is missing in 6 of 6 rows." in found.notes
    assert np.array_equal(model.predict(found.modalities, found.present), without)


def test_a_changed_encoder_is_refused(folder, reviews_csv):
    model = load(folder / "model")
    text = model.raw["text"]
    other = replace(text.encoders[0], name="wordllama", revision="0" * 16, width=256)
    changed = replace(model, raw={**model.raw, "text": RawModality("text", text.columns, (other,))})
    with pytest.raises(ValueError, match=r"The encoder wordllama has changed since .*: revision .* here, 0000"):
        changed.read(reviews_csv)


def test_the_folder_is_plain_and_has_a_model_card(folder):
    files = sorted(path.name for path in (folder / "model").iterdir())
    assert files == ["README.md", "encoders.safetensors", "model.json", "model.safetensors"]
    plain = json.loads((folder / "model" / "model.json").read_text())
    assert plain["format"] == 4
    assert plain["raw"]["person"]["columns"] == ["age", "department"]
    card = (folder / "model" / "README.md").read_text()
    for part in ("# Model card: `reviews.csv`", "60 training rows", "| `text` | `tfidf` |", "| accuracy | 0.", "95 % CI",
                 "| `person` | 0.", "## Limits", "probability below 0.7"):  # fmt: skip
        assert part in card


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw["text"].update(kind="smell"), "raw.text must have a kind, columns and encoders"),
        (lambda raw: raw["text"]["encoders"][0].update(width=5), "give 5 numbers, but the model takes"),
        (
            lambda raw: raw["text"]["encoders"][0].update(arrays=["none"]),
            "the array none of the encoder of text is missing",
        ),
        (lambda raw: raw["text"]["encoders"][0].update(arrays=[]), "the file of encoders has other arrays"),
        (lambda raw: raw["text"]["encoders"][0].update(name=3), "must have a name, a revision, a licence"),
        (lambda raw: raw.update(smell=1), "raw has 'smell', which is not a modality of the model"),
    ],
)
def test_a_damaged_description_of_raw_columns_is_one_sentence(folder, tmp_path, change, said):
    copy = tmp_path / "model"
    copy.mkdir()
    for path in (folder / "model").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    plain = json.loads((copy / "model.json").read_text())
    change(plain["raw"])
    (copy / "model.json").write_text(json.dumps(plain))
    with pytest.raises(ValueError, match=said):
        load(copy)


def test_changed_arrays_of_encoders_are_refused(folder, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for path in (folder / "model").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "encoders.safetensors").write_bytes((copy / "encoders.safetensors").read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(ValueError, match=r"encoders.safetensors does not match model.json"):
        load(copy)


def test_a_users_own_readme_is_never_overwritten(folder, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(README.md\)"):
        load(folder / "model").save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
