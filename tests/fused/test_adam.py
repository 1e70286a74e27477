"""Adam for stacked models, on a CPU; the kernel itself is compared with torch in tests/gpu."""

import pytest
import torch

from synib import fused
from synib.fused import adam
from synib.fused import device as kernels

CPU = torch.device("cpu")


def by_torch(p, gradient, first, second, lr, decay, corrections):
    """What the kernel computes, by torch."""
    gradient = gradient + decay.view(-1, 1) * p
    first.lerp_(gradient, 1 - adam.BETAS[0])
    second.lerp_(gradient.square(), 1 - adam.BETAS[1])
    p -= (lr / corrections[0]).view(-1, 1) * first / ((second / corrections[1]).sqrt() + adam.EPSILON)


@pytest.fixture
def own_kernel(monkeypatch):
    """Lets parameters of at least eight numbers be updated as those that have a kernel."""
    monkeypatch.setattr(adam, "LARGE", 8)
    monkeypatch.setattr(adam, "prepare", lambda device: True)
    monkeypatch.setattr(adam, "_step", by_torch)


def test_large_and_small_parameters_take_the_steps_of_torchs_adam(own_kernel):
    lr, decay = [1e-2, 3e-3, 3e-3], [0.0, 1e-2, 1e-1]
    start = {
        "large": torch.randn(3, 8),
        "small": torch.randn(3, 2),
        "odd": torch.randn(3, 7),
        "double": torch.randn(3, 8).double(),
    }
    ours = {name: p.clone() for name, p in start.items()}
    made = fused.Adam(ours, lr, decay)
    assert list(made.large) == ["large"]  # a kernel wants a multiple of four numbers, in single precision
    theirs = [{name: p[i].clone() for name, p in start.items()} for i in range(3)]
    plain = [
        torch.optim.Adam(one.values(), lr=rate, weight_decay=d) for one, rate, d in zip(theirs, lr, decay, strict=True)
    ]
    for number in range(4):
        gradient = {name: torch.randn_like(p) for name, p in ours.items()}
        if number == 2:  # not trained in this step
            del gradient["large"], gradient["odd"]
        made.step(gradient)
        for i, optimiser in enumerate(plain):
            for name, p in theirs[i].items():
                p.grad = gradient[name][i] if name in gradient else None
            optimiser.step()
    for name, p in ours.items():
        torch.testing.assert_close(p, torch.stack([one[name] for one in theirs]))


def test_a_parameter_without_a_gradient_keeps_its_count_of_steps(own_kernel):
    made = fused.Adam({"a": torch.zeros(2, 8), "b": torch.zeros(2, 8)}, [1e-2] * 2, [0.0] * 2)
    made.step({"a": torch.ones(2, 8)})
    made.step({name: torch.ones(2, 8) for name in "ab"})
    assert made.steps.tolist() == [2.0, 1.0]


def test_failed_models_are_restored_and_the_others_remembered():
    now, good = torch.tensor([[1.0, 2.0], [float("nan"), 3.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    fused.keep_finite(now, good, torch.tensor([False, True]))
    assert now.tolist() == good.tolist() == [[1.0, 2.0], [7.0, 8.0]]


def test_kernels_are_not_usable_on_a_cpu_and_a_failing_check_is_told(monkeypatch):
    assert not kernels.usable("a kernel", CPU, lambda device: True)
    monkeypatch.setattr(kernels, "_usable", {})
    monkeypatch.setattr(kernels, "_index", lambda device: 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())

    def fails(device):
        raise RuntimeError("no compiler")

    with pytest.warns(UserWarning, match="a kernel runs as several kernels on cuda, since Triton failed.*no compiler"):
        assert not kernels.usable("a kernel", torch.device("cuda"), fails)
    assert not kernels.usable("a kernel", torch.device("cuda"), lambda device: True)  # asked once
    assert kernels.usable("another", torch.device("cuda"), lambda device: True)
    assert kernels.is_usable("another", torch.device("cuda"))
