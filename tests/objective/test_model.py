import pytest
from torch import nn

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
