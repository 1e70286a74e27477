"""Parts of a row: their contributions add up, land on what is known, and are lost with the model's knowledge."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import synib
from synib.explanation import kept_by_mask, part_gain, patches
from synib.explanation.partition import partition
from synib.measure import auc
from synib.studies.spurious_xor.data import spurious_xor
from synib.tokens import Tokens
from synib.training.loop import fit

BERNOULLI = synib.Bernoulli()
SIGNAL, SHORTCUT = np.arange(64) < 4, (np.arange(64) >= 4) & (np.arange(64) < 10)


def product(x):
    return x["a"][:, :1] * x["b"][:, :1] + x["a"][:, 1:2]


@pytest.fixture
def rows():
    torch.manual_seed(0)
    return {"a": torch.randn(50, 3), "b": torch.randn(50, 8)}


def test_contributions_go_to_the_parts_that_act_and_to_no_other(rows):
    found = synib.explain(product, rows, family=BERNOULLI, parts=True, of=[0, 3], part_draws=4)
    a, b = found.parts["a"], found.parts["b"]
    assert (a.exact, b.exact, a.names[0], a.rows) == (True, False, "column 0", (0, 3))
    assert np.abs(a.together[:, 1:]).max() < 1e-6
    assert np.abs(a.alone[:, 2]).max() < 1e-6
    assert np.abs(b.together[:, 1:]).max() < 1e-6
    assert np.abs(b.together[:, 0]).min() > 1e-3


def test_contributions_add_up_to_what_the_modality_says(rows):
    found = synib.explain(product, rows, family=BERNOULLI, parts=True, of=range(20), draws=50, part_draws=50)
    for name in ("a", "b"):
        parts = found.parts[name]
        reach = (parts.together_high - parts.together_low).sum(1)
        near = np.abs(parts.together.sum(1) - found.rows.interaction.value[:20]) <= reach
        assert near.mean() > 0.9
        assert np.corrcoef(parts.together.sum(1), found.rows.interaction.value[:20])[0, 1] > 0.9


def test_all_subsets_give_shapley_values():
    torch.manual_seed(0)
    x = {"a": torch.randn(2, 4), "b": torch.randn(2, 1)}

    def model(x):
        return (x["a"][:, :1] * x["a"][:, 1:2] * x["a"][:, 2:3] + x["a"][:, 3:] ** 2) * x["b"]

    # Of two rows, one draw of the fill and the others' values is a known game: its Shapley values by their definition.
    exact = synib.explain(model, x, family=BERNOULLI, answer=1, parts={"a": "coordinates"}, of=[0], part_draws=2)
    fill = x["a"][1]

    def worth(own):
        mixed = torch.where(torch.tensor(own), x["a"][0], fill)[None]
        both = [float(model({"a": mixed, "b": x["b"][i : i + 1]})) for i in (0, 1)]
        return both[0] - sum(both) / 2

    expected = np.zeros(4)
    for order in itertools.permutations(range(4)):
        own = [False] * 4
        for part in order:
            before = worth(own)
            own[part] = True
            expected[part] += (worth(own) - before) / 24
    # The two draws are the row itself, which changes nothing, and the other one.
    assert np.allclose(exact.parts["a"].together[0], expected / 2, atol=1e-5)


def test_blocks_tokens_and_patches_are_parts():
    assert partition({"first": range(2)}, torch.zeros(1, 5)).names == ("first", "rest")
    assert patches((4, 6), (2, 3)).tolist()[0] == [0, 0, 0, 1, 1, 1]
    assert len(partition(patches((4, 6), 2), torch.zeros(1, 24))) == 6
    x = Tokens(torch.zeros(2, 3, 5), torch.tensor([[False, False, True], [False, True, True]]))
    parts = partition("tokens", x)
    one, other = (Tokens(x.values[i : i + 1] + i, x.padding[i : i + 1]) for i in (0, 1))
    mixed = parts.swapped(one, other, torch.tensor([[True, False, True]]))
    assert mixed.values[0, :, 0].tolist() == [0.0, 1.0, 0.0]
    assert mixed.padding.tolist() == [[False, True, True]]  # a swapped token brings its padding along
    for wrong in ("words", {"x": [7]}, {"x": [0], "y": [0]}, np.zeros(4), np.array([-1, 0, 0, 0, 0])):
        with pytest.raises(ValueError, match="of 'm'"):
            partition(wrong, torch.zeros(1, 5), "m")


def test_tokens_of_a_sequence_are_explained():
    torch.manual_seed(0)
    x = {"text": torch.randn(30, 7, 2), "b": torch.randn(30, 1)}
    found = synib.explain(lambda x: x["text"][:, 3, :1] * x["b"], x, family=BERNOULLI, parts=True, of=[0], part_draws=4)
    scores = found.parts["text"]
    assert scores.names[3] == "token 3"
    assert np.abs(np.delete(scores.together[0], 3)).max() < 1e-6
    assert scores.on_coordinates(scores.together[0]).shape == (7, 2)


@pytest.fixture(scope="module")
def trained():
    """Spurious XOR: a model that uses both modalities, one that takes the shortcut, one of random labels."""
    data = spurious_xor(beta=1.0, train=300, validation=60, test=10)
    shuffled = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    random = type(data)(
        type(data.train)(data.train.modalities, data.train.target[shuffled]), data.validation, data.test
    )
    models = {}
    for name, of, weight in (("synib", data, 10.0), ("vanilla", data, 0.0), ("random labels", random, 10.0)):
        torch.manual_seed(0)
        model = synib.FusionModel.mlp(data.widths, hidden=[16], classes=1, head_hidden=[])
        method = synib.SynIB(synib.RandomMask(1.0), synib.ShuffledNoise(), weight=weight, draws=8, family=BERNOULLI)
        fit(method, model, of, lr=1e-2, epochs=30 if weight else 10, batch_size=100)
        models[name] = model
    return data, models


def map_of(model, data, score="together"):
    found = synib.explain(
        model, data.validation.modalities, family=BERNOULLI, parts=True, of=range(12), part_draws=8, draws=32
    )
    return {name: getattr(parts, score).mean(0) for name, parts in found.parts.items()}


def test_synergy_lands_on_the_signal_and_a_shortcut_is_named(trained):
    data, models = trained
    scores = map_of(models["synib"], data)
    assert auc(scores["x1"], SIGNAL) > 0.95
    assert auc(scores["x2"], SIGNAL) > 0.95
    assert auc(map_of(models["vanilla"], data, "alone")["x1"], SHORTCUT) > 0.95


def test_random_weights_and_random_labels_lose_it(trained):
    data, models = trained
    torch.manual_seed(3)
    fresh = synib.FusionModel.mlp(data.widths, hidden=[16], classes=1)
    learned = map_of(models["synib"], data)
    for model in (fresh, models["random labels"]):
        scores = map_of(model, data)
        assert np.mean([auc(s, SIGNAL) for s in scores.values()]) < 0.95
        on_signal = [scores[m][SIGNAL].sum() / learned[m][SIGNAL].sum() for m in scores]
        assert max(on_signal) < 0.3


def test_on_held_out_rows_parts_gain_only_if_the_model_has_learned_something_true(trained):
    data, models = trained
    torch.manual_seed(3)
    fresh = synib.FusionModel.mlp(data.widths, hidden=[16], classes=1)
    x, y = data.validation.modalities, data.validation.target

    def gain(model):
        parts = part_gain(model, x, y, {"x1": "coordinates"}, family=BERNOULLI, draws=4)["x1"]
        return parts.together[SIGNAL].sum(), auc(parts.together, SIGNAL)

    learned, area = gain(models["synib"])
    assert area > 0.95
    for model in (fresh, models["random labels"]):
        assert gain(model)[0] < 0.1 * learned


def test_a_learned_mask_keeps_what_the_unimodal_head_relies_on(trained):
    data, models = trained
    few = {name: x[:20] for name, x in data.validation.modalities.items()}
    kept = kept_by_mask(
        models["vanilla"], synib.LearnedMask(steps=20, lr=0.5, sparsity=0.02), few, data.validation.target[:20],
        family=BERNOULLI, draws=2,
    )  # fmt: skip
    assert kept["x1"].shape == (20, 64)
    assert auc(kept["x1"].mean(0), SHORTCUT) > 0.9
    with pytest.raises(ValueError, match="such as FusionModel"):
        kept_by_mask(nn.Linear(2, 2), synib.RandomMask(), few, data.validation.target[:20])
