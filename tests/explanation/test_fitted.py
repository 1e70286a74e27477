"""Fitted models: the same numbers as needs_both, and rows that lack a modality."""

import numpy as np
import pytest

import synib
from synib.own.fit import fit
from synib.own.table import Table


def xor(n=160):
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2, n))
    a, b = 5 + 0.2 * rng.normal(size=(n, 3)), 0.2 * rng.normal(size=(n, 2))
    a[:, 0] += signs[0]
    b[:, 0] += signs[1]
    target = np.where(signs[0] * signs[1] > 0, "yes", "no")
    split = ["train"] * (n - 32) + ["validation"] * 32  # one model; folds are the subject of own/test_fit
    return Table.from_arrays({"a": a, "b": b}, target, split=split)


@pytest.fixture(scope="module")
def fitted():
    table = xor()
    return table, fit(table, "vanilla", budget=1, epochs=20, device="cpu", baselines=False)


def test_it_says_what_needs_both_says(fitted):
    table, model = fitted
    found = synib.explain(model, table.modalities)
    assert np.allclose(found.rows.needs_both, model.needs_both(table.modalities), atol=1e-6)
    assert np.allclose(found.rows.probability, model.predict(table.modalities).max(1))
    assert found.answer(0) in ("no", "yes")
    assert np.median(found.rows.synergy.value / found.rows.evidence) > 0.7
    with pytest.raises(ValueError, match="give these rows as background"):
        synib.explain(model, table.modalities, parts=True)


def test_parts_of_a_fitted_model_are_its_columns(fitted):
    table, model = fitted
    few = {name: x[:6] for name, x in table.modalities.items()}
    found = synib.explain(model, few, background=table.modalities, parts=True, of=[0, 1, 2], part_draws=8)
    for parts in found.parts.values():
        assert (parts.together.argmax(1) == 0).all()


def test_a_row_without_a_modality_has_no_synergy(fitted):
    table, model = fitted
    some = {name: np.array(x[:8], dtype=np.float64) for name, x in table.modalities.items()}
    some["a"][2] = np.nan
    found = synib.explain(model, some, background=table.modalities, parts=True, of=range(8), part_draws=2)
    assert found.rows.synergy.value[2] == 0
    assert found.rows.alone["a"].value[2] == 0
    assert (np.delete(found.rows.synergy.value, 2) > 0.5).all()
    assert 2 not in found.parts["a"].rows
    assert found.top(8)[-1] == 2
    nothing = synib.explain(model, some, background=table.modalities, answer=1 - found.rows.answer)
    assert (np.delete(nothing.rows.lead, 2) < nothing.rows.lead[2]).all()
    assert nothing.top(8)[-1] == 2  # also where synergy speaks against every answer
