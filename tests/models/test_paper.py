import torch

from synib.models import pid_xor_model, spurious_xor_model


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_the_spurious_xor_network_has_the_papers_shapes():
    model = spurious_xor_model({"x1": 64, "x2": 64})
    assert count(model.encoders["x1"]) == 64 * 16 + 16
    assert count(model.heads["x1"]) == 16 + 1
    assert count(model.fusion) == (32 * 32 + 32) + (32 + 1)
    assert count(model) == 3203
    assert model({"x1": torch.zeros(2, 64), "x2": torch.zeros(2, 64)}).shape == (2, 1)


def test_the_pid_xor_network_has_the_papers_shapes():
    model = pid_xor_model({"x1": 32, "x2": 32})
    assert count(model.encoders["x1"]) == (32 * 1024 + 1024) + (1024 * 1024 + 1024)
    assert count(model.heads["x1"]) == (1024 * 1024 + 1024) + (1024 + 1)
    assert count(model.fusion) == (2048 * 128 + 128) + (128 * 128 + 128) + (128 + 1)
    assert count(model) == 4546947
    assert model({"x1": torch.zeros(2, 32), "x2": torch.zeros(2, 32)}).shape == (2, 1)


def test_more_modalities_only_widen_the_fusion():
    two, three = (spurious_xor_model(dict.fromkeys(names, 64)) for names in ("ab", "abc"))
    assert count(three.fusion) - count(two.fusion) == 16 * 32


def test_the_pid_xor_network_drops_units_where_the_paper_does():
    model = pid_xor_model({"x1": 32, "x2": 32}, width=8, dropout=0.1, detach_heads=True)
    assert model.detach_heads
    assert model.encoders["x1"][0].out_features == 8
    kinds = {part: [type(layer).__name__ for layer in layers] for part, layers in (
        ("encoder", model.encoders["x1"]), ("head", model.heads["x1"]), ("fusion", model.fusion.rest),
    )}  # fmt: skip
    assert kinds["encoder"] == ["Linear", "ReLU", "Dropout", "Linear", "ReLU"]
    assert kinds["head"] == ["Linear", "ReLU", "Linear"]
    assert kinds["fusion"] == ["ReLU", "Dropout", "Linear", "ReLU", "Linear"]
