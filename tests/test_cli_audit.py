"""``synib audit``: from a file to a verdict, and one sentence for every mistake."""

import hashlib
import json

import numpy as np
import pytest

from synib.own import recipe

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")


@pytest.fixture
def brief(monkeypatch):
    """Few steps."""
    monkeypatch.setattr(recipe, "STEPS", 20)


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    a, b = rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32)
    path = tmp_path / "mine.npz"
    np.savez(path, image=a, words=b, label=(a[:, 0] > 0).astype(int), who=np.array([f"p{i // 6}" for i in range(n)]),
             camera=np.array(["x", "y"])[(a[:, 0] > 0).astype(int)])  # fmt: skip
    return path


def test_a_file_ends_in_a_verdict_a_page_and_sentences(synib_command, file, tmp_path, brief):
    out = tmp_path / "out"
    code, said, _ = synib_command(
        "audit", file, "--quick", "--group", "who", "--nuisance", "camera", "--out", out, "--static"
    )
    assert code == 0
    told = json.loads((out / "verdict.json").read_text())
    assert told["synergy"] in ("present", "absent", "unclear")
    assert set(told["modalities"]) == {"image", "words"}
    assert set(told["gain"]) == {"mean", "low", "high", "n"}
    assert [s["what"] for s in told["shortcuts"]][:1] == ["camera"]
    assert f"Synergy: {told['synergy']}" in said
    assert "Shortcut: camera alone predicts the target" in said
    record = json.loads((out / "run.json").read_text())
    assert record["command"].startswith("synib audit ")
    assert record["data"] == {"mine.npz": {"mine.npz": hashlib.sha256(file.read_bytes()).hexdigest()}}
    assert record["plan"] == {"k": 3, "seeds": 1, "budget": 2}
    assert record["seeds"] == [0]
    page = (out / "report.html").read_text()
    assert "Audit of mine.npz" in page
    assert "--nuisance camera" in page
    code, _, _ = synib_command("audit", file, "--quick", "--out", out, "--static")  # over an earlier one
    assert code == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "lable"], "label"),
        (["--modality", "image=imge", "--modality", "words"], "image"),
        (["--modality", "image"], "two"),
        (["--modality", "=x"], "--modality takes NAME=COLUMN"),
        (["--modality", "image", "--modality", "image=words"], "names 'image' twice"),
        (["--group", "whoo"], "who"),
        (["--quick", "--thorough"], "give one of them"),
        (["--task", "ranking"], "task"),
        (["--device", "tpu"], "device must be auto, cpu or cuda"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(synib_command, file, tmp_path, options, sentence):
    out = tmp_path / "out"
    code, _, err = synib_command("audit", file, *options, "--out", out)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err
    assert not out.exists()


def test_a_folder_with_other_files_is_not_written_into(synib_command, file, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    code, _, err = synib_command("audit", file, "--out", tmp_path)
    assert code == 2
    assert "holds other files, such as mine.npz" in err
    code, _, err = synib_command("audit", file, "--out", file)
    assert code == 2
    assert "--out is a folder" in err


def test_a_file_that_is_not_there(synib_command, tmp_path):
    code, _, err = synib_command("audit", tmp_path / "no.npz")
    assert code == 2
    assert "no.npz" in err
