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
