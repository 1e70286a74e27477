"""Exported files give what ``predict`` gives, say what they need, and take the place of nothing."""

import importlib.util
import json
import re
import shutil
import zipfile

import numpy as np
import pytest
import torch

from synib.own.export.inputs import inputs_of, made_up_rows
from synib.own.export.programs import run_onnx

from .conftest import raw_columns

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def opened(folder):
    """What ``export.json`` says, and the path of the graph."""
    plain = json.loads((folder / "export.json").read_text())
    return plain, folder / plain["graph"]


@pytest.mark.parametrize(
    "case", ["experts of three classes, absence learned", "fusion, a number, some absent", "labels", "raw"]
)
def test_both_files_equal_predict_for_other_numbers_of_rows(exported, case):
    for to in ("onnx", "torch"):
        model, folder = exported(case, to)
        inputs = inputs_of(model)
        plain, path = opened(folder)
        assert plain["check"]["largest_difference"] < 1e-5
        program = torch.export.load(path).module() if to == "torch" else None  # once: it takes as long as a fit
        for count in (1, 2, 33):
            rows = made_up_rows(model, inputs, count, seed=count)
            if program is None:
                out = run_onnx(path.read_bytes(), rows.inputs, inputs)
            else:
                out = [y.detach().numpy() for y in program(rows.inputs)]
            got = np.stack(out, 1) if model.kind == "regression" else out[0]
            assert got.shape == (count, 2 if model.kind == "regression" else len(model.classes))
            assert np.abs(got - model.predict(rows.modalities)).max() < 1e-5


def test_raw_columns_of_new_rows_give_what_predict_gives(exported, write_rows, tmp_path):
    model, folder = exported("raw", "onnx")
    columns = raw_columns(20, seed=3)
    columns["colour"][4] = "never seen"
    vectors, present = model.read(write_rows(tmp_path / "new.csv", columns))
    expected = model.predict(vectors, present)
    numbers = np.array([float(t) if t else np.nan for t in columns["time"]])
    names = ("colour", "size")
    _, path = opened(folder)
    texts = {f"thing.{name}": np.array(columns[name], dtype=object) for name in names}
    session = onnxruntime.InferenceSession(path.read_bytes())
    (got,) = session.run(None, {"words": vectors["words"], "thing.time": numbers, **texts})
    assert np.abs(got - expected).max() < 1e-5
    plain, path = opened(exported("raw", "torch")[1])
    categories = {one["name"]: one["categories"] for one in plain["inputs"] if one["kind"] == "category"}
    codes = {
        f"thing.{name}": torch.tensor([
            -1 if not text else known.index(text) if text in known else len(known) for text in columns[name]
        ])
        for name in names
        for known in [categories[f"thing.{name}"]]
    }  # fmt: skip
    program = torch.export.load(path).module()
    (got,) = program({"thing.time": torch.from_numpy(numbers), **codes, "words": torch.from_numpy(vectors["words"])})
    assert np.abs(got.detach().numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_the_description_names_encoders_and_its_example_runs(exported, monkeypatch, to):
    model, folder = exported("raw", to)
    plain, path = opened(folder)
    state = model.raw["words"].encoders[0]
    assert plain["inputs"][0]["encoders"] == [
        {"name": "tfidf", "revision": state.revision, "width": state.width, "licence": state.licence,
         "why": "it is not a transformers model"}
    ]  # fmt: skip
    assert plain["inputs"][0]["shape"] == ["rows", state.width]
    assert plain["classes"] == ["no", "yes"]
    card = (path.parent / "README.md").read_text()
    expected = "The encoder of `words` (text) is not part of the graph: the input is the vector from `tfidf`, revision "
    assert f"{expected}`{state.revision}`" in card
    (example,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(path.parent)
    names = {}
    exec(example, names)
    got = np.asarray(names["probabilities"].detach() if to == "torch" else names["probabilities"])
    assert got.shape == (2, 2)
    assert np.allclose(got.sum(1), 1, atol=1e-6)


def test_files_hold_no_pickle_and_no_path_of_this_machine(exported):
    _, path = opened(exported("labels", "onnx")[1])
    assert b".py" not in path.read_bytes()
    dimensions = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dimensions] == ["rows", 3]
    _, path = opened(exported("labels", "torch")[1])
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            content = file.read(name)
            assert not name.endswith((".pt", ".pkl")) or name.endswith(
                "sample_inputs/model.pt"
            )  # torch's own, of made-up rows
            assert b".py" not in content


def test_an_export_replaces_an_earlier_one_and_nothing_else(exported, make_fitted, raw_model, tmp_path):
    model, folder = make_fitted("frequencies"), tmp_path / "made"
    shutil.copytree(exported("labels", "torch")[1], folder)
    model.export(folder, "torch")
    assert opened(folder)[0]["classes"] == list(model.classes)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "export.json", "model.pt2"]
    (tmp_path / "file").write_text("mine")
    for place, to, sentence in (
        (folder, "onnx", r"made holds other files \(model.pt2\); choose an empty folder"),
        (raw_model / "model", "torch", r"holds other files \(README.md, encoders.safetensors, model.json, ...\)"),
        (tmp_path / "file", "torch", "is written to a folder, but .* is a file"),
        (tmp_path / "new", "tflite", "to must be onnx or torch; got 'tflite'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.export(place, to)
    assert not (tmp_path / "new").exists()


def test_without_onnx_the_sentence_says_what_to_install(make_fitted, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "onnxscript" else find(name, *a))
    with pytest.raises(ValueError, match=r"needs onnxscript: pip install 'synib\[export\]'"):
        make_fitted("labels").export(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_graph_that_differs_is_not_written(make_fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("synib.own.export.write.run_torch", lambda content, rows: [torch.zeros(64, 3).numpy()])
    with pytest.raises(ValueError, match=r"differs from predict by .*: nothing was written"):
        make_fitted("labels").export(tmp_path / "new", "torch")
    assert not (tmp_path / "new").exists()
