"""Swaps within the class that a modality predicts by itself."""

import pytest
import torch
from torch import nn

from synib import ClassShuffledNoise, FusionModel, OnLatents, RandomMask, ShuffledNoise, SynIB, keys

CLASSES = torch.tensor([2, 0, 1, 0, 2, 0, 2, 2, 0, 0])  # five, one and four rows of a class
ALONE = 2


def rows(key, draws, classes=CLASSES):
    return ClassShuffledNoise().rows(key, len(classes), draws, classes=classes).view(draws, -1)


@pytest.mark.parametrize("draws", [1, 2, 3, 7])
def test_every_row_is_filled_from_its_own_class_and_never_by_itself(draws):
    others = torch.arange(len(CLASSES)) != ALONE
    for key in keys.split(keys.key(1), 30):
        found = rows(key, draws)
        assert (CLASSES[found] == CLASSES)[:, others].all()
        assert (found != torch.arange(len(CLASSES))).all()


def test_every_row_of_a_class_fills_exactly_one_other_in_each_draw(key):
    for one in rows(key, 3):
        for c in (0, 2):
            members = (c == CLASSES).nonzero().flatten()
            assert sorted(one[members].tolist()) == members.tolist()


def test_a_row_meets_all_others_of_its_class_before_any_of_them_twice(key):
    found = rows(key, 8)
    for i, c in enumerate(CLASSES.tolist()):
        others = set((c == CLASSES).nonzero().flatten().tolist()) - {i}
        if others:
            first, again = found[: len(others), i].tolist(), found[len(others) : 2 * len(others), i].tolist()
            assert sorted(first) == sorted(others)
            assert set(again) <= others


def test_who_fills_whom_follows_the_key_and_every_pair_is_as_likely():
    counts = torch.zeros(10, 10)
    for key in keys.split(keys.key(2), 900):
        counts[torch.arange(10), rows(key, 1)[0]] += 1
    for i, c in enumerate(CLASSES.tolist()):
        pool = c == CLASSES if i != ALONE else torch.ones(10, dtype=torch.bool)
        expected = 900 / (int(pool.sum()) - 1)
        partners = pool & (torch.arange(10) != i)
        assert (counts[i][partners] - expected).abs().max() < 5 * expected**0.5
        assert not counts[i][~partners].any()


def test_a_row_alone_in_its_class_is_filled_as_if_there_were_no_classes(key):
    anybody = ShuffledNoise().rows(key, 10, 4).view(4, 10)
    assert torch.equal(rows(key, 4)[:, ALONE], anybody[:, ALONE])
    assert torch.equal(rows(key, 4, torch.arange(10)), anybody)


def test_many_models_at_once_swap_as_they_would_alone():
    many = keys.split(keys.key(3), 4)
    classes = torch.stack([CLASSES, CLASSES.flip(0), CLASSES % 2, torch.arange(10)])
    noise = ClassShuffledNoise()
    together = torch.func.vmap(lambda k, c: noise.rows(k, 10, 3, classes=c))(many, classes)
    alone = torch.stack([noise.rows(k, 10, 3, classes=c) for k, c in zip(many, classes, strict=True)])
    assert torch.equal(together, alone)


# In the objective


class Sign(nn.Module):
    """A head that says whether the first coordinate is above 0."""

    def forward(self, z):
        return torch.stack([-z[:, 0], z[:, 0]], 1)


class Sum(nn.Module):
    def forward(self, latents):
        return latents["a"][:, :2] + latents["b"][:, :2]


def a_model():
    return FusionModel({"a": nn.Identity(), "b": nn.Identity()}, Sum(), {"a": Sign(), "b": Sign()})


@pytest.mark.parametrize("on_latents", [False, True])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_objective_swaps_values_that_say_the_same_and_leaves_the_other_modality_in_place(on_latents, draws, key):
    x = {"a": torch.randn(20, 3), "b": torch.randn(20, 3)}
    objective = SynIB(RandomMask(1.0), ClassShuffledNoise(), draws=draws)
    objective = OnLatents(objective) if on_latents else objective
    intact, changed = objective.counterfactuals(a_model(), x, torch.arange(20) % 2, key)
    for name, other in (("a", "b"), ("b", "a")):
        assert torch.equal(changed[name][other], torch.cat([x[other]] * draws))
        swapped = changed[name][name].view(draws, 20, 3)
        assert ((swapped[..., 0] > 0) == (x[name][:, 0] > 0)).all()
        assert (swapped != x[name]).any(-1).all()
        assert all(any(torch.equal(row, own) for own in x[name]) for row in swapped.flatten(0, 1))
    assert torch.equal(intact["a"], x["a"])


def test_what_a_head_predicts_is_asked_without_dropout_and_its_mode_put_back(key):
    x = {"a": torch.randn(20, 3), "b": torch.randn(20, 3)}
    model = a_model()
    for name in x:
        model.heads[name] = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Dropout(0.9), model.heads[name])
        with torch.no_grad():
            model.heads[name][0].weight.copy_(torch.eye(3))
    objective = SynIB(RandomMask(1.0), ClassShuffledNoise(), draws=1)
    _, changed = objective.counterfactuals(model, x, torch.arange(20) % 2, key)
    assert ((changed["a"]["a"][:, 0] > 0) == (x["a"][:, 0] > 0)).all()
    assert all(head[1].training for head in model.heads.values())


def test_dealt_rows_are_swapped_within_their_classes_in_the_whole_batch(key):
    x = {"a": torch.randn(20, 3), "b": torch.randn(20, 3)}
    objective = SynIB(RandomMask(1.0), ClassShuffledNoise(), sample=1, draws=2)
    _, changed = objective.counterfactuals(a_model(), x, torch.arange(20) % 2, key)
    assert sum(len(one["a"]) for one in changed.values()) == 40
    assert all(len(one["a"]) == 20 for one in changed.values())
    for name, other in (("a", "b"), ("b", "a")):
        kept = [int((x[other] == row).all(1).nonzero()) for row in changed[name][other]]
        assert ((changed[name][name][:, 0] > 0) == (x[name][kept, 0] > 0)).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda noise, key: noise.rows(key, 4), "ClassShuffledNoise needs classes: the class that"),
        (lambda noise, key: noise.rows(key, 1, classes=torch.zeros(1)), "ClassShuffledNoise needs at least 2 rows"),
        (lambda noise, key: noise.corrupt(torch.zeros(4, 3), torch.ones(4, 3).bool(), key), "use it in SynIB with"),
    ],
)
def test_where_there_are_no_classes_to_swap_within_it_says_so(call, said, key):
    with pytest.raises(ValueError, match=said):
        call(ClassShuffledNoise(), key)
