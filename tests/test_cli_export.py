"""``synib export``, as a user meets it."""

import json

import numpy as np
import pytest

pytest.importorskip("onnxruntime")


@pytest.fixture
def model(tmp_path, monkeypatch):
    from synib.own.fit import fit
    from synib.own.table import read

    monkeypatch.setattr("synib.own.fit.NESTED", 0)
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=(40, 3)), "b": rng.normal(size=(40, 2)), "label": np.arange(40) % 2}
    np.savez(tmp_path / "data.npz", **columns)
    fit(read(tmp_path / "data.npz"), "vanilla", budget=1, epochs=1, device="cpu", baselines=False).save(
        tmp_path / "model"
    )
    return tmp_path / "model"


def test_a_model_is_exported_and_nothing_is_written_beside_other_files(synib_command, model, tmp_path):
    code, out, err = synib_command("export", model, "--out", "graph")
    assert (code, err) == (0, "")
    assert "The outputs of the graph equal those of predict up to " in out
    assert out.endswith("Graph: graph/model.onnx (inputs and outputs: graph/README.md)\n")
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == ["README.md", "export.json", "model.onnx"]
    code, out, _ = synib_command("export", model, "--to", "torch", "--out", "program", "--json")
    said = json.loads(out)
    assert (code, said["graph"]) == (0, "program/model.pt2")
    assert [one["shape"] for one in said["inputs"]] == [["rows", 3], ["rows", 2]]
    for arguments, sentence in (
        (("--out", "model"), "holds other files"),
        (("--to", "tflite", "--out", "x"), "to must be onnx or torch; got 'tflite'."),
    ):
        code, out, err = synib_command("export", "model", *arguments)
        assert (code, out) == (2, "")
        assert sentence in err
    code, _, err = synib_command("export", "nowhere", "--out", "x")
    assert code == 2
    assert "A model must be a folder written by synib fit; nowhere does not exist." in err
    assert not (tmp_path / "x").exists()
