import pytest
import torch
from torch import nn

from synib import BlackBoxModel
from synib.models.fusion import normalises_batch


@pytest.mark.parametrize(
    ("module", "answer"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2))), True),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval(), False),
        (nn.BatchNorm2d(2, track_running_stats=False).eval(), True),
        (nn.SyncBatchNorm(2), True),
        (nn.LayerNorm(2), False),
        (nn.GroupNorm(1, 2), False),
        (nn.InstanceNorm1d(2), False),
    ],
    ids=["nested", "evaluated", "without statistics", "synchronised", "layer", "group", "instance"],
)
def test_layers_that_mix_rows_are_recognised(module, answer):
    assert normalises_batch(module) is answer


def test_a_plain_callable_is_seen_as_a_fusion_without_encoders():
    head = nn.Linear(2, 3)
    model = BlackBoxModel(lambda m: m["a"] + m["b"], {"a": head, "b": lambda x: x})
    x = torch.randn(4, 2)
    assert model.encode("a", x) is x
    assert model.project("a", x) is x
    assert torch.equal(model.head("a", x), head(x))
    assert model.has_head("a")
    assert not model.has_head("c")
    assert model.unimodal_modules("a") == [head]
    assert model.unimodal_modules("b") == []
    assert model.names is None
    assert model.mixes_rows()  # as far as anybody knows
    assert not BlackBoxModel(model.predict, independent_rows=True).mixes_rows()
