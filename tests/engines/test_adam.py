"""The fleet's Adam against torch's."""

import torch

from synib.engines.adam import Adam, update

LR, WEIGHT_DECAY = [1e-2, 3e-4, 1e-1, 1e-3], [0.0, 1e-3, 1e-1, 1e-5]


def test_each_row_follows_torchs_adam_step_for_step_with_its_own_rate_and_decay():
    g = torch.Generator().manual_seed(0)
    start = torch.randn(4, 30, generator=g, dtype=torch.float64)
    ours = start.clone()
    fleet = Adam(ours, torch.tensor(LR, dtype=torch.float64), torch.tensor(WEIGHT_DECAY, dtype=torch.float64))
    alone = [torch.nn.Parameter(row.clone()) for row in start]
    theirs = [torch.optim.Adam([p], lr=lr, weight_decay=wd) for p, lr, wd in zip(alone, LR, WEIGHT_DECAY, strict=True)]
    for step in range(25):
        gradient = torch.randn(4, 30, generator=g, dtype=torch.float64) * 10.0 ** (step % 5 - 3)
        for p, row, optimiser in zip(alone, gradient, theirs, strict=True):
            p.grad = row.clone()
            optimiser.step()
        fleet.step(gradient.clone())
        assert torch.allclose(ours, torch.stack([p.detach() for p in alone]), rtol=1e-12, atol=1e-14)


def test_the_form_for_the_compiler_is_the_same_update():
    g = torch.Generator().manual_seed(1)
    start = torch.randn(4, 30, generator=g, dtype=torch.float64)
    lr, decay = torch.tensor(LR, dtype=torch.float64), torch.tensor(WEIGHT_DECAY, dtype=torch.float64)
    plain, other = start.clone(), start.clone()
    adam = Adam(plain, lr, decay)
    first, second = torch.zeros_like(start), torch.zeros_like(start)
    for step in range(1, 11):
        gradient = torch.randn(4, 30, generator=g, dtype=torch.float64)
        adam.step(gradient.clone())
        update(
            other, gradient, first, second, lr[:, None], decay[:, None], torch.tensor(float(step), dtype=torch.float64)
        )
    torch.testing.assert_close(other, plain)
    torch.testing.assert_close((first, second), (adam.first, adam.second))


def test_parameters_change_in_place_and_a_row_without_gradient_or_decay_stays():
    parameters = torch.ones(2, 3)
    Adam(parameters, torch.tensor([0.1, 0.1]), torch.tensor([0.0, 0.0])).step(torch.tensor([[1.0] * 3, [0.0] * 3]))
    assert torch.allclose(parameters[0], torch.full((3,), 0.9))
    assert torch.equal(parameters[1], torch.ones(3))
