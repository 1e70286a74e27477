"""Learners: the same initial weights for every method, and nothing else touched."""

import torch

from synib.engines.learner import learner
from synib.methods import METHODS


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
