"""Cells, their identity, which of them may be trained together, and the learners made of them."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib import Bernoulli, MatchedNoise, SynIB
from synib.methods import METHODS, Experts, OnLatents
from synib.training import Cell
from synib.training.cells import cut, digest, learner, programs

CELL = Cell("e", "synib-random", {"beta": 1.0}, {"lr": 1e-3, "weight": 10.0, "p": 0.4, "data": {"kind": "a"}}, 3)


def test_an_id_is_a_function_of_the_cells_values_and_stays_the_same():
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
        {"settings": {**CELL.settings, "lr": 2e-3}},
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


@given(count=st.integers(1, 300), size=st.integers(1, 40))
def test_a_cut_is_complete_in_order_and_as_even_as_can_be(count, size):
    pieces = cut(range(count), size)
    assert [item for piece in pieces for item in piece] == list(range(count))
    sizes = {len(piece) for piece in pieces}
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert len(pieces) == -(-count // size)  # no more pieces than there must be


@pytest.mark.parametrize(
    ("count", "size", "sizes"), [(17, 16, [9, 8]), (7, 4, [4, 3]), (10, 4, [4, 3, 3]), (3, 9, [3])]
)
def test_a_cut_gives_what_is_over_to_the_first(count, size, sizes):
    assert [len(piece) for piece in cut(range(count), size)] == sizes


def test_programs_come_in_the_order_of_their_first_cells_and_keep_theirs(cell):
    cells = [cell(method, seed=s) for s in (4, 0, 2) for method in ("synib-random", "vanilla")]
    made = programs([*cells, cell("vanilla", seed=9, epochs=7)])
    assert [[(c.method, c.seed) for c in same] for same in made] == [
        [("synib-random", 4), ("synib-random", 0), ("synib-random", 2)],
        [("vanilla", 4), ("vanilla", 0), ("vanilla", 2)],
        [("vanilla", 9)],
    ]


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


def test_experts_prepare_the_noise_of_their_synergy_expert(tiny, cell):
    one = cell("vanilla")
    data = tiny().data(one)
    method = Experts(OnLatents(SynIB(noise=MatchedNoise(), family=Bernoulli())))
    method.prepare(tiny().model(one, data), data.train.modalities)
    assert len(method.synergy.objective.noise.mean_x1) == 8
