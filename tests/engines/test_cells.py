"""Cells, their identity, and which of them may be trained together."""

import dataclasses

import pytest
import torch

from synib.engines import Cell
from synib.engines.cells import digest, learner, shards
from synib.methods import METHODS

CELL = Cell("e", "synib-random", {"beta": 1.0}, {"lr": 1e-3, "weight": 10.0, "p": 0.4, "data": {"kind": "a"}}, 3)


def test_an_id_is_a_function_of_what_the_cell_says_and_stays_the_same():
    again = Cell("e", "synib-random", {"beta": 1.0}, {"data": {"kind": "a"}, "p": 0.4, "weight": 10.0, "lr": 1e-3}, 3)
    assert again.id == CELL.id == "bccd7e3faf0b9d0f"


@pytest.mark.parametrize(
    "change",
    [
        {"experiment": "f"},
        {"method": "synib-oracle"},
        {"factors": {"beta": 0.9}},
        {"factors": {"beta": 1.0, "alpha": 1}},
        {"seed": 4},
        *({"settings": {**CELL.settings, name: value}} for name, value in (("lr", 2e-3), ("weight", 9.0), ("p", 0.5))),
        {"settings": {**CELL.settings, "data": {"kind": "b"}}},
        {"settings": {**CELL.settings, "new": None}},
    ],
)
def test_an_id_changes_with_every_setting(change):
    assert dataclasses.replace(CELL, **change).id != CELL.id


def test_seed_data_learning_rate_decay_and_weight_may_differ_within_a_program_and_nothing_else():
    def with_settings(**settings):
        return dataclasses.replace(CELL, settings={**CELL.settings, **settings})

    same = [
        dataclasses.replace(CELL, seed=9),
        dataclasses.replace(CELL, factors={"beta": 0.0}),
        with_settings(lr=1.0),
        with_settings(weight_decay=1.0),
        with_settings(weight=0.0),
    ]
    other = [
        dataclasses.replace(CELL, method="synib-oracle"),
        dataclasses.replace(CELL, experiment="f"),
        with_settings(p=0.1),
        with_settings(epochs=7),
        with_settings(data={"kind": "b"}),
    ]
    assert {cell.program for cell in same} == {CELL.program}
    assert CELL.program not in {cell.program for cell in other}
    assert len({cell.program for cell in other}) == len(other)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_shards_hold_every_cell_once_never_two_programs_and_never_too_many(cell, size):
    cells = [cell(method, seed=seed) for seed in range(5) for method in ("vanilla", "synib-random", "confidence")]
    made = shards(cells, size)
    assert sorted(c.id for shard in made for c in shard) == sorted(c.id for c in cells)
    assert all(len({c.program for c in shard}) == 1 and 1 <= len(shard) <= size for shard in made)
    assert len(made) == 3 * -(-5 // size)
    for shard in made:
        assert [c.seed for c in shard] == sorted(c.seed for c in shard)


def test_a_value_without_a_plain_form_has_no_digest():
    with pytest.raises(ValueError):
        digest({"beta": float("nan")})


def test_all_methods_start_from_the_same_weights_for_a_seed(tiny, cell):
    def weights(method, seed):
        recipe, one = tiny(dropout=0.2), cell(method, seed=seed)
        return learner(recipe, one, recipe.data(one)).model.state_dict()

    first = weights("vanilla", 0)
    for method in METHODS:
        mine = weights(method, 0)
        assert all(torch.equal(tensor, mine[name]) for name, tensor in first.items())
    assert not torch.equal(first["encoders.x1.0.weight"], weights("vanilla", 1)["encoders.x1.0.weight"])


def test_making_a_learner_leaves_torchs_generator_alone(tiny, cell):
    before = torch.get_rng_state()
    learner(tiny(), cell(), tiny().data(cell()))
    assert torch.equal(torch.get_rng_state(), before)
