"""Small fitted models of every kind of target, by every way that a method answers."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from synib.own.fit import fit
from synib.own.saved import load
from synib.own.table import read

QUICK = {"budget": 1, "epochs": 1, "device": "cpu", "baselines": False}
CASES = {  # name → method, and what the table is
    "experts of three classes, absence learned": ("synib", {"n": 100, "classes": 3, "lacks": 0.4}),
    "fusion of two classes, some absent": ("vanilla", {"lacks": 0.1}),
    "additive, a number": ("additive", {"classes": 0}),
    "fusion, a number, some absent": ("vanilla", {"classes": 0, "lacks": 0.1}),
    "labels": ("synib", {"kind": "labels", "lacks": 0.1}),
    "ordered classes": ("vanilla", {"classes": 3, "task": "ordinal"}),
    "one modality": ("unimodal-b", {"kind": "unique"}),
    "ensemble": ("ensemble", {"kind": "unique", "lacks": 0.1}),
    "every absence learned": ("vanilla", {"n": 120, "lacks": 0.4, "both": True}),
    "three modalities": ("synib", {"third": True, "lacks": 0.1}),
    "frequencies": ("frequencies", {"classes": 3}),
    "frequencies of a number": ("frequencies", {"classes": 0}),
}


def _far_from_zero(model):
    """With a temperature and a bias that one epoch does not give."""
    bias = (0.0,) * model.outputs if model.kind == "regression" else tuple(0.3 * np.arange(1, model.outputs + 1))
    return replace(model, temperature=0.7, bias=bias)


@pytest.fixture(scope="session")
def make_fitted(table):
    """``make_fitted(case)``: the model of one of ``CASES``, fitted once."""
    made = {}

    def fitted(case):
        if case not in made:
            method, options = CASES[case]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("synib.own.fit.NESTED", 30)
                one = table(**{"n": 60, **{k: v for k, v in options.items() if k not in ("task", "third", "both")}})
                one = replace(one, kind=options.get("task", one.kind))
                if "both" in options:  # lack a modality, but no row lacks both
                    has = ~one.present["a"] | (np.arange(120) % 2 > 0)
                    b = one.modalities["b"] * has[:, None]
                    one = replace(one, modalities={**one.modalities, "b": b}, present={**one.present, "b": has})
                if "third" in options:
                    c, present = one.modalities["b"][:, ::-1].copy(), one.present["b"]
                    both = {"modalities": {**one.modalities, "c": c}, "present": {**one.present, "c": present}}
                    one = replace(one, **both)
                made[case] = _far_from_zero(fit(one, method, **QUICK))
                if "both" in options:
                    assert made[case].learned == ("a", "b")
        return made[case]

    return fitted


def raw_columns(n, seed=0):
    """A text, a number and two categories, of which some are missing, one in rows that have neither of the others."""
    rng = np.random.default_rng(seed)
    age, colour = rng.normal(1.7e9, 1e6, n), np.array(["red", "light, blue", "grün"])[rng.integers(3, size=n)]
    columns = {
        "text": [f"{('good', 'bad')[i % 2]} number {i}" for i in range(n)],
        "time": [f"{a:.3f}" for a in age],
        "colour": colour.tolist(),
        "size": [("S", "L")[i % 2] for i in range(n)],
        "label": [("no", "yes")[i % 2] for i in range(n)],
    }
    for i in range(0, n, 6):
        columns["time"][i] = ""
        columns["size"][i] = ""
    for i in range(0, n, 12):
        columns["colour"][i] = ""
    columns["text"][1] = ""
    return columns


@pytest.fixture(scope="session")
def write_rows():
    """``write_rows(path, columns)``: a CSV."""

    def write(path, columns):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path

    return write


@pytest.fixture(scope="session")
def raw_model(tmp_path_factory, write_rows):
    """A model of a text and a table, in a folder beside its rows."""
    folder = tmp_path_factory.mktemp("raw")
    modalities = {"words": "text:text", "thing": "time,colour,size:table"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(folder / "cache"))
        patch.setattr("synib.own.fit.NESTED", 30)
        path = write_rows(folder / "rows.csv", raw_columns(48))
        table = read(path, target="label", modalities=modalities, encoders={"words": "tfidf"})
        model = fit(table, "vanilla", columns=table.columns, **QUICK)
    model.save(folder / "model")
    return folder


@pytest.fixture(scope="session")
def exported(make_fitted, raw_model, tmp_path_factory):
    """``exported(case, to)``: a model (``"raw"`` for that of raw columns), and the folder of its export, which is made once."""
    made = {}

    def export(case, to):
        if (case, to) not in made:
            model = load(raw_model / "model") if case == "raw" else make_fitted(case)
            made[case, to] = model, model.export(tmp_path_factory.mktemp("exported") / to, to)
        return made[case, to]

    return export
