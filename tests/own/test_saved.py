"""A model on disk: the same when it is loaded, and no more than JSON and tensors."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from synib.own.fit import fit
from synib.own.saved import load


@pytest.fixture(scope="module")
def fitted(table, simple_cross_validation):
    made = {"xor": table(n=60), "unique": table(n=60, kind="unique"), "number": table(n=60, classes=0)}
    made["labels"] = table(n=60, kind="labels")
    return {
        name: (one, fit(one, "synib", budget=1, epochs=1, device="cpu", baselines=False)) for name, one in made.items()
    }


@pytest.fixture
def folder(fitted, tmp_path):
    return fitted["xor"][1].save(tmp_path / "model")


def test_a_saved_model_predicts_the_same_and_says_how_it_was_made(fitted, tmp_path):
    for name, (one, model) in fitted.items():
        again = load(model.save(tmp_path / name))
        assert np.array_equal(again.predict(one.modalities), model.predict(one.modalities))
        assert np.array_equal(again.needs_both(one.modalities), model.needs_both(one.modalities))
        assert repr(again) == repr(model)
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["README.md", "model.json", "model.safetensors"]
    plain = json.loads((tmp_path / "xor" / "model.json").read_text())
    assert plain["classes"] == ["no", "yes"]
    assert plain["about"]["rows"] == {"train": 60, "validation": 0, "test": 0}
    assert plain["about"]["budget"] == 1
    assert plain["settings"]["lr"] == 3e-3
    assert {"torch", "numpy", "python"} <= plain["versions"].keys()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(fitted)


def test_a_model_of_the_first_format_has_no_kind_and_is_read(fitted, folder):
    rewrite(folder, format=1, kind="gone")
    one, model = fitted["xor"]
    assert load(folder).kind == "classification"
    assert np.array_equal(load(folder).predict(one.modalities), model.predict(one.modalities))


def test_a_model_may_take_the_place_of_an_earlier_one_and_of_nothing_else(fitted, folder, tmp_path):
    model = fitted["unique"][1]
    model.save(folder)
    assert np.array_equal(load(folder).background["a"], model.background["a"])
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.json").write_text('{"my": "settings"}')
    for place, said in (
        (folder, r"holds other files \(notes.txt\); choose an empty folder"),
        (tmp_path / "file", "is a file; choose another"),
        (other, "does not describe a synib model"),
    ):
        with pytest.raises(ValueError, match=said):
            model.save(place)
    assert (other / "model.json").read_text() == '{"my": "settings"}'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "model", "other"]


def rewrite(folder, **changes):
    said = json.loads((folder / "model.json").read_text()) | changes
    (folder / "model.json").write_text(json.dumps({k: v for k, v in said.items() if v != "gone"}))


def retensor(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    rewrite(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


BROKEN = {
    "does not exist": lambda f: shutil.rmtree(f),
    "has no readable model.json": lambda f: (f / "model.json").unlink(),
    "has no readable model.safetensors": lambda f: (f / "model.safetensors").unlink(),
    "model.json is not valid JSON": lambda f: (f / "model.json").write_bytes(b"\x80\x04K\x01."),
    "not valid JSON: it is not a synib model": lambda f: (f / "model.json").write_text("[" * 100_000),
    "not valid JSON: it is": lambda f: (f / "model.json").write_text('{"format": NaN}'),
    "does not describe a synib model": lambda f: (f / "model.json").write_text("[1]"),
    "has format 7, written by synib '.*'; this version reads formats up to 4": lambda f: rewrite(f, format=7),
    "is damaged: widths is None": lambda f: rewrite(f, widths="gone"),
    "is damaged: temperature is True": lambda f: rewrite(f, temperature=True),
    "temperature must be between 1e-06 and 1e\\+06; got -1": lambda f: rewrite(f, temperature=-1),
    "temperature must be between 1e-06 and 1e\\+06; got 1e-320": lambda f: rewrite(f, temperature=1e-320),
    "the target is 'number', with 2 classes": lambda f: rewrite(f, kind="number"),
    "the target is 'regression', with 2 classes": lambda f: rewrite(f, kind="regression"),
    "background.a has 5,000 rows; at most 1,024": lambda f: retensor(
        f, lambda t: t.update({"background.a": t["background.a"][:1].repeat(5000, 1)})
    ),
    "does not match model.json": lambda f: (f / "model.safetensors").write_bytes(b"x" * 99),
    "target must be a mean and a positive deviation": lambda f: rewrite(f, target=[0.0, 0.0]),
    "hidden must be a list of widths": lambda f: rewrite(f, settings={"hidden": "wide"}),
    "a network of these widths is larger": lambda f: rewrite(f, widths={"a": 10**12, "b": 2}),
    "its settings are not those of a model": lambda f: rewrite(f, settings={"hidden": [32, 32]}),
    "Unknown method 'evil'": lambda f: rewrite(f, method="evil"),
    "classes hold characters that cannot be printed: .*x1b": lambda f: rewrite(f, classes=["\x1b[31mno", "yes"]),
    "classes hold characters that cannot be printed: .*ud800": lambda f: rewrite(f, classes=["\ud800", "yes"]),
    "classes must be texts": lambda f: rewrite(f, classes=[1, 2]),
    "contradict each other": lambda f: rewrite(f, learned=["a"]),
    "has other tensors: 'background.a'": lambda f: retensor(f, lambda t: t.pop("background.a")),
    r"background.a is \(0,\) of": lambda f: retensor(f, lambda t: t.update({"background.a": torch.zeros(0)})),
    r"mean.a is \(3,\) of torch.float32, and not \(3,\) of torch.float64": lambda f: retensor(
        f, lambda t: t.update({"mean.a": torch.zeros(3)})
    ),
    "factor.b holds numbers that are not finite": lambda f: retensor(f, lambda t: t["factor.b"].fill_(np.nan)),
}


@pytest.mark.parametrize("said", BROKEN)
def test_a_broken_folder_is_one_sentence(folder, said):
    BROKEN[said](folder)
    with pytest.raises(ValueError, match=said):
        load(folder)


def test_what_is_no_safetensors_is_refused_even_with_its_checksum(folder):
    (folder / "model.safetensors").write_bytes(b"\x80\x04K\x01." * 9)
    rewrite(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load(folder)
