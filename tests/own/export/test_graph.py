"""The module that is exported says what ``predict`` says, whatever the target, the method and the rows."""

import numpy as np
import pytest
import torch

from synib.own.export.graph import Graph
from synib.own.export.inputs import inputs_of, made_up_rows
from synib.own.saved import load

from .conftest import CASES


def traced(graph, inputs):
    """The outputs; what ``torch.cond`` chooses between is compiled, which fails where it could not be exported."""
    with torch.no_grad():
        out = graph(inputs)
    return torch.stack(out, 1).numpy() if len(out) == 2 else out[0].numpy()


def said(graph, inputs):
    """The same outputs without compiling, which takes much longer than the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "cond", lambda chosen, yes, no, operands: (yes if chosen else no)(*operands))
        return traced(graph, inputs)


@pytest.mark.parametrize("case", CASES)
def test_it_equals_predict_with_and_without_missing_modalities(make_fitted, case):
    model = make_fitted(case)
    graph, inputs = Graph(model), inputs_of(model)
    rows = made_up_rows(model, inputs, 40)
    assert any(np.isnan(x).any() for x in rows.modalities.values())
    got = traced(graph, rows.inputs)
    assert np.abs(got - model.predict(rows.modalities)).max() < 1e-5
    complete = {name: x[:1] for name, x in rows.inputs.items()}  # the first row lacks nothing
    assert np.allclose(said(graph, complete), got[:1], atol=1e-6)


def test_a_row_that_lacks_everything_gets_the_mean_prediction(make_fitted):
    model = make_fitted("fusion of two classes, some absent")
    nothing = {name: np.full((2, width), np.nan, np.float32) for name, width in model.widths.items()}
    got = said(Graph(model), {name: torch.from_numpy(x) for name, x in nothing.items()})
    assert np.abs(got - model.predict(nothing)).max() < 1e-5


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_predict_refuses_gives_nan_in_its_row_alone(make_fitted, value):
    model = make_fitted("additive, a number")
    rows = made_up_rows(model, inputs_of(model), 4)
    rows.inputs["a"][0, 1] = value
    got = said(Graph(model), rows.inputs)
    assert np.isnan(got[0]).all()
    assert np.isfinite(got[1:]).all()
    with pytest.raises(ValueError, match="NaN next to numbers, or infinite values, in row 0"):
        model.predict({name: x.numpy() for name, x in rows.inputs.items()})


def test_a_large_number_is_predicted_as_exactly_as_a_small_one(make_fitted):
    from dataclasses import replace

    model = make_fitted("fusion, a number, some absent")
    far = replace(model, scaling=replace(model.scaling, target=(1.7e9, 3.0)))
    rows = made_up_rows(far, inputs_of(far), 20)
    assert np.abs(said(Graph(far), rows.inputs) - far.predict(rows.modalities)).max() < 3e-5


def test_the_columns_of_a_table_are_inputs_and_texts_are_vectors(raw_model):
    model = load(raw_model / "model")
    inputs = {one.name: one for one in inputs_of(model)}
    assert list(inputs) == ["words", "thing.time", "thing.colour", "thing.size"]
    assert [one.kind for one in inputs.values()] == ["vector", "number", "category", "category"]
    assert inputs["thing.colour"].categories == ("grün", "light, blue", "red")
    rows = made_up_rows(model, list(inputs.values()), 60)
    codes = rows.inputs["thing.colour"]
    assert set(codes.tolist()) == {-1, 0, 1, 2, 3}  # with unknown ones and missing ones
    assert np.abs(said(Graph(model), rows.inputs) - model.predict(rows.modalities)).max() < 1e-5
