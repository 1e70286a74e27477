import pytest
import torch
from torch import nn

from synib import FusionModel
from synib.objective import MultimodalModel
from synib.objective.model import BlackBoxModel, batch_dependent


def test_a_fusion_model_is_fusible_on_inputs_and_on_latents_and_a_function_is_not():
    model = FusionModel.mlp({"a": 2, "b": 2}, hidden=[3], classes=2)
    assert isinstance(model, MultimodalModel)
    assert isinstance(model.on_latents(), MultimodalModel)
    assert isinstance(BlackBoxModel(len, {}), MultimodalModel)
    assert not isinstance(nn.Linear(2, 2), MultimodalModel)
    assert not isinstance(lambda m: m, MultimodalModel)


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
    assert batch_dependent(module) is answer


def test_a_plain_callable_is_seen_as_a_fusion_without_encoders():
    head = nn.Linear(2, 3)
    whole = BlackBoxModel(lambda m: m["a"] + m["b"], {"a": head, "b": lambda x: x})
    x = torch.randn(4, 2)
    assert whole.encode("a", x) is x
    assert whole.project("a", x) is x
    assert torch.equal(whole.head("a", x), head(x))
    assert whole.has_head("a")
    assert not whole.has_head("c")
    assert whole.unimodal_modules("a") == [head]
    assert whole.unimodal_modules("b") == []
    assert whole.names is None
    assert not whole.mixes_rows()
