"""Learners: the same initial weights for every method, and nothing else touched."""

import torch

from synib import Bernoulli, MatchedNoise, SynIB
from synib.methods import METHODS, Experts, OnLatents
from synib.training.cells import learner


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


def test_noise_has_room_for_what_it_fills_before_the_first_batch(tiny, cell):
    for space, width in (("inputs", 64), ("latents", 8)):
        one = cell("synib-random", noise="matched", space=space)
        method = learner(tiny(), one, tiny().data(one)).method
        noise = method.noise if space == "inputs" else method.objective.noise
        assert {name: tuple(b.shape) for name, b in noise.named_buffers()} == {
            **{f"{kind}_{name}": (width,) for kind in ("mean", "variance") for name in ("x1", "x2")},
            "seen_x1": (),
            "seen_x2": (),
        }


def test_experts_prepare_the_noise_of_their_synergy_expert(tiny, cell):
    one = cell("vanilla")
    data = tiny().data(one)
    method = Experts(OnLatents(SynIB(noise=MatchedNoise(), family=Bernoulli())))
    method.prepare(tiny().model(one, data), data.train.modalities)
    assert len(method.synergy.objective.noise.mean_x1) == 8
