"""Fleets that are trained in two threads of one process train the models of each fleet alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from synib.training import fleet


class Meeting:
    """A recipe whose models wait, half initialised, for a model of another thread to be created."""

    curves = False

    def __init__(self, recipe):
        self.recipe, self.data, self.method = recipe, recipe.data, recipe.method
        self.halfway = threading.Barrier(2)

    def model(self, cell, data):
        model = self.recipe.model(cell, data)
        try:
            self.halfway.wait(timeout=0.05)
        except threading.BrokenBarrierError:  # the other thread is not creating a model at the same time
            self.halfway.reset()
        for layer in model.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        return model


def result(recipe, cells):
    """Parameters, buffers and metrics after training."""
    trained = fleet.train(recipe, cells)
    return {**trained.fleet.parameters, **trained.fleet.buffers}, trained.metrics


@pytest.mark.parametrize("method", ["vanilla", "synib-learned", "experts"])
def test_two_fleets_in_two_threads_train_the_models_of_each_alone(tiny, cell, method):
    shards = [[cell(method, seed=seed) for seed in seeds] for seeds in ((0, 1, 2), (3, 4, 5))]
    recipe = Meeting(tiny(0.3))
    alone = [result(recipe, shard) for shard in shards]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda shard: result(recipe, shard), shards))
    for (tensors, metrics), (expected, expected_metrics) in zip(together, alone, strict=True):
        assert all(torch.equal(tensors[name], expected[name]) for name in expected)
        assert metrics == expected_metrics
