import pytest
import torch
from torch import nn

from synib.models.lora import LowRank, add_lora


def test_it_begins_as_the_layer_it_updates():
    linear, x = nn.Linear(5, 4), torch.randn(3, 5)
    assert torch.equal(LowRank(linear, rank=2)(x), linear(x))


def test_its_update_has_the_rank_it_says_and_the_scale_of_alpha():
    linear = nn.Linear(8, 8)
    layer = LowRank(linear, rank=2, alpha=6.0)
    nn.init.normal_(layer.b)
    update = layer(torch.eye(8)).T - linear(torch.eye(8)).T
    assert torch.linalg.matrix_rank(update, rtol=1e-4) == 2
    torch.testing.assert_close(update, 3.0 * layer.b @ layer.a)


def test_only_the_updates_train():
    network = nn.ModuleDict(
        {"q_proj": nn.Linear(4, 4), "other": nn.Linear(4, 4), "deep": nn.ModuleDict({"v_proj": nn.Linear(4, 4)})}
    )
    assert add_lora(network, rank=1) == 2
    assert {name for name, p in network.named_parameters() if p.requires_grad} == {
        "q_proj.a",
        "q_proj.b",
        "deep.v_proj.a",
        "deep.v_proj.b",
    }


def test_layers_may_be_named():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    assert add_lora(network, layers=["2"]) == 1
    assert isinstance(network[2], LowRank)
    assert isinstance(network[0], nn.Linear)


def test_a_network_without_such_layers_is_refused_and_left_alone():
    network = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"Sequential has no linear layer called q_proj"):
        add_lora(network)
    assert all(p.requires_grad for p in network.parameters())
