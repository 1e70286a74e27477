"""``synib audit``, ``fit``, ``predict`` and ``embed`` on raw columns, as a user meets them."""

import csv
import importlib
import json

import numpy as np
import pytest

PRAISE = ("lovely soft shirt that fits well", "awful cut and terrible fabric")
RAW = ("--modality", "text=review:text", "--modality", "person=age,department:table")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One candidate and few epochs: the command is what is tested here."""
    monkeypatch.setattr(importlib.import_module("synib.cli.fit"), "QUICK", {"budget": 1, "epochs": 8})
    monkeypatch.setattr("synib.own.fit.NESTED", 0)


@pytest.fixture
def reviews(tmp_path):
    rng = np.random.default_rng(0)
    bad, tops = rng.integers(2, size=(2, 60))
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "age", "department", "shop", "label"])
        for i in range(60):
            age, department = 20 + rng.integers(40), "Tops" if tops[i] else "Dresses"
            writer.writerow(
                [f"<b>{PRAISE[bad[i]]}</b>, number {i}", age, department, f"shop {i // 4}", bad[i] ^ tops[i]]
            )
    return tmp_path / "reviews.csv"


def test_a_model_is_fitted_to_raw_columns_and_predicts_raw_rows(synib_command, reviews, tmp_path):
    fast = ("--quick", "--device", "cpu", "--no-baselines", "--method", "vanilla")
    code, out, err = synib_command("fit", reviews, *RAW, "--encoder", "text=tfidf", *fast)
    assert (code, err) == (0, "")
    assert "text is encoded by tfidf" in out
    assert (tmp_path / "model" / "README.md").is_file()
    code, out, err = synib_command("predict", "model", reviews, "--out", "p.csv")
    assert (code, err) == (0, "")
    assert "Predictions of 60 rows: p.csv" in out
    with (tmp_path / "p.csv").open() as file:
        first = next(csv.DictReader(file))
    assert first["shop"] == "shop 0"
    assert "review" not in first
    assert first["has_text"] == "1"


def test_vectors_are_written_to_a_file_that_can_be_audited(synib_command, reviews, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    code, out, err = synib_command("embed", reviews, *RAW)
    assert (code, err) == (0, "")
    assert "Vectors of 60 rows: latents.parquet" in out
    table = parquet.read_table(tmp_path / "latents.parquet")
    assert table.column_names == ["age", "department", "shop", "label", "text", "person"]
    assert len(table["text"][0]) == 256 + 2  # wordllama and TF-IDF
    code, out, _ = synib_command("embed", reviews, "--target", "label", "--out", "a.npz", "--json")
    assert code == 0
    assert json.loads(out)["widths"]["review"] == 256 + 2
    from synib import read

    again = read(tmp_path / "latents.parquet", modalities={"text": "text", "person": "person"})
    plain = read(reviews, modalities={"text": "review:text", "person": "age,department:table"})
    assert np.array_equal(again.modalities["text"], plain.modalities["text"])
    assert np.array_equal(np.load(tmp_path / "a.npz")["review"], plain.modalities["text"])
    for arguments, said in (
        (("--out", "latents.parquet"), "latents.parquet exists; choose another file"),
        (("--out", "a.csv"), "--out must end in .parquet or .npz"),
        (
            ("--out", "b.npz", "--encoder", "text"),
            "--encoder must be MODALITY=NAME, for example text=wordllama; got 'text'",
        ),
        (("--out", "b.npz", "--modality", "a=age"), "a is a column of vectors, which needs no embedding"),
        (("--out", "no/b.npz"), "there is no folder no"),
    ):
        code, out, err = synib_command("embed", reviews, *arguments)
        assert (code, out) == (2, "")
        assert said in err


def _link_out(folder):
    (folder / "in").mkdir()
    (folder / "secret.png").write_bytes(b"")
    (folder / "in" / "link.png").symlink_to(folder / "secret.png")
    return "link.png"


BAD_CELLS = {
    "a path out of the folder": (
        lambda folder: "../secret.png",
        "row 3 (from 0): '../secret.png' points outside of in",
    ),
    "a link out of the folder": (_link_out, "row 3 (from 0): 'link.png' points outside of in, to"),
    "no image": (lambda folder: "photos.csv", "row 3 (from 0): photos.csv is not a readable image"),
    "a URL": (lambda folder: "https://a.invalid/a.png", "https://a.invalid/a.png is a URL, and nothing is downloaded"),
}


@pytest.mark.parametrize("name", BAD_CELLS)
@pytest.mark.parametrize("command", [("embed",), ("fit", "--quick", "--device", "cpu"), ("audit", "--quick")])
def test_a_bad_cell_is_one_sentence_and_nothing_is_written(synib_command, tmp_path, name, command):
    cell, said = BAD_CELLS[name]
    bad = cell(tmp_path)
    (tmp_path / "in").mkdir(exist_ok=True)
    rows = [[bad if i == 3 else "photos.csv", PRAISE[i % 2], i % 2] for i in range(12)]
    with (tmp_path / "in" / "photos.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["photo", "review", "label"], *rows])
    before = sorted(tmp_path.rglob("*"))
    modalities = ("--modality", "photo=photo:image", "--modality", "text=review:text", "--target", "label", "--strict")
    out = {"embed": "latents.npz", "fit": "model", "audit": "audit"}[command[0]]
    code, _, err = synib_command(command[0], "in/photos.csv", *modalities, *command[1:], "--out", out)
    assert code == 2
    assert said in err or "no image of photo (photo:image) can be read" in err
    assert err.startswith("synib: in/photos.csv")
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_whose_encoder_has_changed_predicts_nothing(synib_command, reviews, tmp_path):
    fast = ("--quick", "--device", "cpu", "--no-baselines", "--method", "vanilla")
    assert synib_command("fit", reviews, *RAW, *fast)[0] == 0
    path = tmp_path / "model" / "model.json"
    kept = json.loads(path.read_text())
    kept["raw"]["text"]["encoders"][0]["revision"] = "0" * 16
    path.write_text(json.dumps(kept))
    code, out, err = synib_command("predict", "model", reviews, "--out", "p.csv")
    assert (code, out) == (2, "")
    assert "The encoder wordllama has changed since the model was fitted: revision" in err
    assert not (tmp_path / "p.csv").exists()
