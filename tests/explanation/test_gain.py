"""The gain of parts: what the model needs is found, what it does not need adds nothing."""

import numpy as np
import pytest
import torch

import synib
from synib.explanation import part_gain

BERNOULLI = synib.Bernoulli()


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    x = {"a": torch.randn(120, 4, generator=generator), "b": torch.randn(120, 2, generator=generator)}
    return x, (x["a"][:, 0] * x["b"][:, 0] > 0).long()


def test_a_part_that_only_both_need_gains_together_and_a_cue_alone(rows):
    x, y = rows

    def model(x):
        return 3 * x["a"][:, :1] * x["b"][:, :1] + 2 * x["a"][:, 1:2]

    cue = {**x, "a": x["a"].clone()}
    cue["a"][:, 1] += 2.0 * y - 1.0
    gain = part_gain(model, cue, y, {"a": "coordinates", "b": "coordinates"}, family=BERNOULLI)
    a, b = gain["a"], gain["b"]
    assert a.together.argmax() == 0
    assert a.together_low[0] > 0
    assert a.alone.argmax() == 1
    assert a.alone_low[1] > 0
    assert b.together.argmax() == 0
    assert np.abs(a.together[2:]).max() < 1e-5
    assert np.abs(a.alone[2:]).max() < 1e-5
    assert (a.rows, a.names[0]) == (120, "column 0")


def test_a_part_that_argues_against_as_often_as_for_is_found(rows):
    x, y = rows
    noise = torch.randn(120, generator=torch.Generator().manual_seed(1))
    x = {**x, "a": x["a"].clone()}
    x["a"][:, 0] += noise
    x["a"][:, 1] = noise  # says nothing of the target, and corrects the first column

    def model(x):
        return 3 * (x["a"][:, :1] - x["a"][:, 1:2]) * x["b"][:, :1]

    found = part_gain(model, x, y, {"a": "coordinates"}, family=BERNOULLI)["a"]
    assert found.together_low[1] > 0
    assert set(np.argsort(-found.together)[:2]) == {0, 1}


def test_a_model_that_knows_nothing_of_the_target_gains_from_no_part(rows):
    x, _ = rows
    y = torch.randint(2, (120,), generator=torch.Generator().manual_seed(5))
    scale = torch.tensor([5.0, 1.0, 1.0, 1.0])  # a part that varies much is no more needed than another
    gain = part_gain(
        lambda x: (x["a"] * scale).sum(1, keepdim=True) * x["b"][:, :1], x, y, {"a": "coordinates"}, family=BERNOULLI
    )["a"]
    assert (gain.together_low <= 0).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"parts": {"c": "coordinates"}}, "parts must be for the modalities a, b; got some for 'c'"),
        ({"family": synib.Gaussian(1)}, "is defined for classes only"),
    ],
)
def test_a_mistake_is_one_sentence(rows, settings, sentence):
    x, y = rows
    settings = {"parts": {"a": "coordinates"}, "family": BERNOULLI, **settings}
    with pytest.raises(ValueError, match=sentence):
        part_gain(
            lambda x: torch.cat([x["a"][:, :1]] * 2, 1) if settings["family"] is not BERNOULLI else x["a"][:, :1],
            x,
            y,
            **settings,
        )
