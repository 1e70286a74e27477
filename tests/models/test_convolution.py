import pytest
import torch
from torch.nn import functional

from synib.models.convolution import TemporalCNN


def test_its_layers_are_strided_convolutions_over_time():
    torch.manual_seed(0)
    network, x = TemporalCNN(4, [3, 5], width=6, kernel=3, stride=2), torch.randn(2, 17, 4)
    seen = x.mT
    for linear in network.maps:
        weight = linear.weight.unflatten(1, (3, -1)).mT
        seen = functional.conv1d(seen, weight, linear.bias, stride=2).relu()
    assert seen.shape == (2, 5, 3)
    expected = network.out(torch.cat([seen.mean(-1), seen.amax(-1)], -1)).relu()
    torch.testing.assert_close(network(x), expected)


def test_it_runs_under_vmap():
    network, x = TemporalCNN(4, [3], width=6), torch.randn(3, 2, 17, 4)
    stacked = {name: torch.stack([p, p + 1, p + 2]) for name, p in network.named_parameters()}
    together = torch.vmap(lambda own, x: torch.func.functional_call(network, own, (x,)))(stacked, x)
    alone = torch.func.functional_call(network, {name: p[1] for name, p in stacked.items()}, (x[1],))
    torch.testing.assert_close(together[1], alone)


def test_spectrograms_of_another_width_or_too_few_frames_are_refused():
    network = TemporalCNN(4, [3, 3])
    with pytest.raises(ValueError, match=r"\(batch, frames, 4\); got \(2, 17, 5\)"):
        network(torch.zeros(2, 17, 5))
    with pytest.raises(ValueError, match="of 3 frames is too short"):
        network(torch.zeros(2, 9, 4))
