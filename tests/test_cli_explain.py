"""``synib explain``, as a user meets it."""

import csv
import json

import numpy as np
import pytest

from synib.own.fit import fit
from synib.own.table import Table


def values(n=80):
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2, n))
    a, b = 0.2 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=(n, 2))
    a[:, 0] += signs[0]
    b[:, 0] += signs[1]
    return {"image": a.astype(np.float32), "text": b.astype(np.float32)}, np.where(signs[0] * signs[1] > 0, "<b>", "no")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("safetensors")
    x, label = values()
    split = ["train"] * 64 + ["validation"] * 16
    made = fit(Table.from_arrays(x, label, split=split), "vanilla", budget=1, epochs=20, device="cpu", baselines=False)
    return made.save(tmp_path_factory.mktemp("explain") / "model")


@pytest.fixture
def data(tmp_path):
    x, label = values()
    np.savez(tmp_path / "data.npz", **x, label=label, clip=np.array([f"clip {i}" for i in range(80)]))
    return tmp_path / "data.npz"


def test_it_writes_a_page_of_the_rows_that_need_both(synib_command, model, data, tmp_path):
    code, out, err = synib_command("explain", model, data, "--rows", "top:3", "--csv", "rows.csv")
    assert (code, err) == (0, "")
    assert out.count("of which synergy") == 3
    assert out.endswith("Page: explanation.html\n")
    page = (tmp_path / "explanation.html").read_text()
    assert page.count("<section>") == 3
    assert "(clip clip " in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "http-equiv" in page
    assert "<script" not in page
    assert "column 0" in page
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    assert float(rows[0]["synergy_low"]) <= float(rows[0]["synergy"]) <= float(rows[0]["synergy_high"])
    assert (
        synib_command("explain", model, data, "--rows", "0", "--csv", "rows.csv")[0] == 0
    )  # its own files it replaces


def test_the_page_of_many_rows_shows_kinds_of_rows(synib_command, model, tmp_path):
    x, _ = values(120)
    np.savez(tmp_path / "many.npz", **x)
    assert synib_command("explain", model, tmp_path / "many.npz", "--rows", "0")[0] == 0
    page = (tmp_path / "explanation.html").read_text()
    assert "<h2>Kinds of rows</h2>" in page
    assert "in the evidence for no" in page
    assert "image, cluster 1 × text, cluster " in page
    assert "image, high × text, low" in page


def test_rows_can_be_named_and_read_by_a_program(synib_command, model, data):
    code, out, _ = synib_command("explain", model, data, "--rows", "3,5-6", "--no-parts", "--json")
    assert code == 0
    found = json.loads(out)
    assert [row["row"] for row in found["rows"]] == [f"{i} (clip clip {i})" for i in (3, 5, 6)]


def test_a_file_of_few_rows_is_explained_without_parts(synib_command, model, tmp_path):
    x, _ = values()
    np.savez(tmp_path / "few.npz", **{name: v[:2] for name, v in x.items()})
    code, out, _ = synib_command("explain", model, tmp_path / "few.npz")
    assert code == 0
    assert "Parts are not explained: this needs 16 rows with every modality, but few.npz has 2." in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--rows", "x"), "--rows takes row numbers from 0"),
        (("--rows", "5-2"), "--rows takes row numbers from 0"),
        (("--rows", "top:0"), "top:N with N from 1 to 200"),
        (("--rows", "80"), "has rows 0 to 79; row 80 was requested"),
        (("--out", "nowhere/page.html"), "--out must be a file in an existing folder"),
        (("--out", "data.npz"), "is not a page of synib explain"),
    ],
)
def test_a_mistake_is_one_sentence(synib_command, model, data, options, sentence):
    before = data.read_bytes()
    code, _, err = synib_command("explain", model, data, *options)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
    assert data.read_bytes() == before
