"""Devices and precisions: what is not available is refused, and what is released is free."""

import pytest
import torch

from synib.training.device import choose_device, choose_precision, device_name, without_denormals


def test_auto_is_a_device_that_is_available():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == "cpu"
    assert "CPU" in device_name("cpu")


@pytest.mark.parametrize(
    ("precision", "device", "refused"),
    [
        ("bf16", "cpu", None),
        ("tf32", "cuda:1", None),
        ("tf32", "cpu", "tf32 needs a CUDA device"),
        ("TF32", "cuda", "precision must be 'float32', 'tf32' or 'bf16'; got 'TF32'"),
    ],
)
def test_a_precision_is_the_one_that_was_asked_for_or_refused(precision, device, refused):
    if refused is None:
        assert choose_precision(precision, device) == precision
    else:
        with pytest.raises(ValueError, match=refused):
            choose_precision(precision, device)


def test_denormal_numbers_are_zero_inside_the_context_and_as_before_behind_it():
    def tiny():
        return (torch.full((8,), 1e-39) * 1.0).abs().max().item()

    assert tiny() > 0
    with without_denormals():
        assert tiny() == 0
        with without_denormals():
            assert tiny() == 0
        assert tiny() == 0  # it was so before the inner one
    assert tiny() > 0
