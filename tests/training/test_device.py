"""Devices and precisions: what is not available is refused, and what is released is free."""

import gc

import pytest
import torch

from synib.training.device import choose_device, choose_precision, device_name, release, without_denormals


def test_auto_is_a_device_that_is_available():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == "cpu"
    assert "CPU" in device_name("cpu")


@pytest.mark.parametrize("wrong", ["gpu", "", "meta"])
def test_an_unknown_device_is_quoted(wrong):
    with pytest.raises(ValueError, match=f"auto, cpu or cuda; got '{wrong}'"):
        choose_device(wrong)


def test_cuda_that_is_not_available_is_refused_and_never_replaced_silently(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:0"):
        with pytest.raises(ValueError, match="torch finds no CUDA device"):
            choose_device(device)
    assert choose_device("auto") == "cpu"


@pytest.mark.parametrize(
    ("precision", "device"),
    [("float32", "cpu"), ("bf16", "cpu"), ("float32", "cuda"), ("tf32", "cuda:1"), ("bf16", "cuda")],
)
def test_a_precision_that_the_device_supports_is_returned(precision, device):
    assert choose_precision(precision, device) == precision


@pytest.mark.parametrize("wrong", ["", "TF32"])
def test_an_unknown_precision_is_quoted(wrong):
    with pytest.raises(ValueError, match=f"float32, tf32, bf16; got '{wrong}'"):
        choose_precision(wrong, "cuda")


def test_tf32_on_a_cpu_is_refused_and_never_replaced_silently():
    with pytest.raises(ValueError, match="tf32 needs a CUDA device"):
        choose_precision("tf32", "cpu")


@pytest.mark.parametrize(("device", "emptied"), [("cpu", 0), ("cuda", 1), ("cuda:1", 1)])
def test_releasing_frees_what_only_itself_holds_before_the_cache_is_emptied(monkeypatch, device, emptied):
    class Held:
        def __init__(self):
            self.itself = self

        def __del__(self):
            done.append("freed")

    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    gc.disable()
    try:
        Held()
        assert done == []
        release(device)
    finally:
        gc.enable()
    assert done == ["freed"] + ["emptied"] * emptied


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
