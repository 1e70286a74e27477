"""As many candidates for every method, and a pace that fits the rows."""

import pytest

from synib.own.search_space import CANDIDATES, SPECIFIC, candidates, fixed, pace


def test_every_method_has_as_many_candidates_and_all_are_different():
    for name in ("vanilla", "unimodal-a", *SPECIFIC):
        for budget in (1, 4, CANDIDATES):
            assert len({tuple(c.items()) for c in candidates(name, budget)}) == budget
        assert {c["lr"] for c in candidates(name, 3)} == {1e-3, 3e-3, 1e-2}
        assert {c["dropout"] for c in candidates(name, 2)} == {0.0, 0.3}
        (specific,) = [key for key in candidates(name, 1)[0] if key not in ("lr", "dropout")]
        assert specific == ("weight" if name in SPECIFIC else "weight_decay")
        assert len({c[specific] for c in candidates(name, 3)}) == 3
    with pytest.raises(ValueError, match="candidates per method and must be at most 18; got 19"):
        candidates("vanilla", 19)


def test_no_batch_is_a_row_alone_and_training_ends():
    for rows in [*range(2, 6000), *range(50_000, 50_600)]:
        batch, epochs = pace(rows)
        assert rows % batch != 1
        assert 2 <= epochs <= 40


def test_only_on_numbers_the_weight_of_averaged_draws_is_annealed_from_larger_values():
    assert [c["weight"] for c in candidates("synib-marginal", 3, "multilabel")] == [1.0, 3.0, 10.0]
    assert [c["weight"] for c in candidates("synib-marginal", 3, "regression")] == [30.0, 10.0, 3.0]
    assert fixed("synib-marginal", 100, "regression")["weight_steps"] == 80
    assert "weight_steps" not in fixed("synib-marginal", 100, "multilabel")
    assert candidates("vanilla", 3, "regression") == candidates("vanilla", 3)
