"""As many candidates for every method, and a pace that fits the rows."""

import pytest

from synib.own.search_space import CANDIDATES, CONTROL, FIRST, SPECIFIC, SYNIB, candidates, fixed, pace


def test_every_method_has_as_many_candidates_and_all_are_different():
    for name in ("vanilla", "unimodal-a", *SPECIFIC):
        for budget in (1, 4, CANDIDATES):
            assert len({tuple(c.items()) for c in candidates(name, budget)}) == budget
        assert {c["lr"] for c in candidates(name, 6)} == {1e-3, 3e-3, 1e-2}
        assert {c["dropout"] for c in candidates(name, 3)} == {0.0, 0.3}
        (specific,) = [key for key in candidates(name, 1)[0] if key not in ("lr", "dropout")]
        assert specific == ("weight" if name in SPECIFIC else "weight_decay")
        assert len({c[specific] for c in candidates(name, 6)}) == 3
    with pytest.raises(ValueError, match="candidates per method and must be at most 18; got 19"):
        candidates("vanilla", 19)


def test_no_batch_is_a_row_alone_and_training_ends():
    for rows in [*range(2, 6000), *range(50_000, 50_600)]:
        batch, epochs = pace(rows)
        assert rows % batch != 1
        assert 2 <= epochs <= 40


def test_synib_and_its_control_differ_in_the_number_of_steps_alone():
    for budget in (1, 3, CANDIDATES):
        assert candidates(SYNIB, budget) == candidates(CONTROL, budget)
    assert fixed(SYNIB, 100) == {**fixed(CONTROL, 100), "steps": 100}


def test_models_of_interactions_try_weight_decay_without_dropout_first():
    assert [tuple(c.values()) for c in candidates(SYNIB, 3)] == [*FIRST]
    assert candidates("additive", CANDIDATES) == candidates("unimodal-a", CANDIDATES) != candidates(SYNIB, CANDIDATES)
