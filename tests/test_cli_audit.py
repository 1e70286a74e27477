"""``synib audit``: from a file to a verdict, and one sentence for every mistake."""

import hashlib
import importlib
import json

import numpy as np
import pytest

from synib.own.refute import Refutation

pytest.importorskip("sklearn", reason="scikit-learn is part of synib[audit]")
PLAN = {"k": 3, "seeds": 1, "budget": 1, "judge": False, "tries": 1}


@pytest.fixture
def brief(monkeypatch):
    """Few steps, one candidate: the command is what is tested here."""
    monkeypatch.setattr("synib.own.search_space.STEPS", 5)
    monkeypatch.setattr(importlib.import_module("synib.cli.audit"), "QUICK", PLAN)


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    n = 90
    a, b = rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32)
    path = tmp_path / "mine.npz"
    np.savez(path, image=a, words=b, label=(a[:, 0] > 0).astype(int), who=np.array([f"p{i // 6}" for i in range(n)]),
             camera=np.array(["x", "y"])[(a[:, 0] > 0).astype(int)])  # fmt: skip
    return path


def test_a_file_ends_in_a_verdict_a_page_and_sentences(synib_command, file, tmp_path, brief):
    out = tmp_path / "out"
    out.mkdir()
    (out / "verdict.json").write_text("{}")  # of an earlier audit
    options = ["--quick", "--group", "who", "--nuisance", "camera", "--out", out, "--static"]
    code, printed, _ = synib_command("audit", file, *options)
    assert code == 0
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["synergy"] in ("present", "absent", "unclear")
    assert set(verdict["modalities"]) == {"image", "words"}
    assert set(verdict["gain"]) == {"mean", "low", "high", "n"}
    assert [s["what"] for s in verdict["shortcuts"]][:1] == ["camera"]
    assert f"Synergy: {verdict['synergy']}" in printed
    assert "Shortcut: camera alone predicts the target" in printed
    record = json.loads((out / "run.json").read_text())
    assert record["command"].startswith("synib audit ")
    assert record["data"] == {"mine.npz": {"mine.npz": hashlib.sha256(file.read_bytes()).hexdigest()}}
    assert record["plan"] == PLAN | {"metric": None, "seed": 0, "device": "auto"}
    assert record["options"]["group"] == "who"
    assert verdict["recommendation"]["method"]
    assert f"--from-audit {out}" in printed
    assert "90 rows of 2 modalities" in printed  # what was found about the data, too
    assert record["seeds"] == [0]
    page = (out / "report.html").read_text()
    assert "Audit of mine.npz" in page
    assert "--nuisance camera" in page


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "lable"], "label"),
        (["--modality", "image=imge", "--modality", "words"], "image"),
        (["--modality", "=x"], "--modality must be NAME=COLUMN"),
        (["--modality", "image", "--modality", "image=words"], "contains 'image' twice"),
        (["--quick", "--thorough"], "Use either --quick or --thorough, not both."),
        (["--task", "ranking"], "task"),
        (["--device", "tpu"], "auto, cpu or cuda"),
        (["--metric", "explained_variance"], "The metric of classification must be one of accuracy"),
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
    code, _, err = synib_command("audit", file, "--out", tmp_path)
    assert code == 2
    assert "contains other files, such as mine.npz" in err
    code, _, err = synib_command("audit", file, "--out", file)
    assert code == 2
    assert "--out must be a folder" in err


def test_json_alone_is_printed_and_refutations_are_part_of_it(synib_command, file, tmp_path, brief, monkeypatch):
    one = Refutation("dummy target", "not present", "unclear", True, "Dummy target: passed.")
    monkeypatch.setattr("synib.own.refute.refute", lambda *_, **__: [one])  # tests/own/test_refute.py has the real ones
    code, printed, _ = synib_command(
        "audit", file, "--quick", "--json", "--refute", "--out", tmp_path / "out", "--static"
    )
    assert code == 0
    verdict = json.loads(printed)
    assert verdict == json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert [r["name"] for r in verdict["refutations"]] == ["dummy target"]


def test_a_missing_package_is_named_before_any_work(synib_command, file, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "cvxpy" else True)
    code, _, err = synib_command("audit", file, "--quick", "--out", tmp_path / "out")
    assert code == 2
    assert 'An audit needs cvxpy: pip install "synib[audit]"' in err
