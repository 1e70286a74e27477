"""What a step computes: every encoder and the fusion run once, on no more rows than they must."""

import pytest
import torch
from torch import nn

from synib import BlackBoxModel, RandomMask, StandardNoise, SynIB


def test_each_encoder_and_the_fusion_run_once(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(("encoder", len(inputs[0]))))
    model.fusion.rest.register_forward_hook(lambda _, inputs, __: seen.append(("fusion", len(inputs[0]))))
    SynIB(RandomMask(0.5), StandardNoise())(model, x, y, key=key)
    assert seen == [("encoder", 2 * len(y)), ("fusion", 3 * len(y))]


def test_sampling_really_does_less(key, batch, fusion_model):
    x, y = batch(3, 12)
    model = fusion_model(3, heads=False)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    SynIB(RandomMask(0.5), StandardNoise(), sample=1)(model, x, y, key=key)
    assert seen == [12 + 4]


def test_batch_norm_in_evaluation_mode_shares_passes_without_a_word(key, batch, fusion_model, separate_passes):
    x, y = batch(2)
    model = fusion_model(2)
    model.encoders["a"].append(nn.BatchNorm1d(5).double())
    model.fusion.rest.insert(0, nn.BatchNorm1d(32).double())
    model.eval()
    objective = SynIB(RandomMask(0.5), StandardNoise())
    losses = [objective(given, x, y, key=key)[0] for given in (model, separate_passes(model))]
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize(("independent_rows", "calls"), [(False, [6, 6, 6]), (True, [18])])
def test_a_function_of_independent_rows_is_called_once(independent_rows, calls, key, batch):
    x, y = batch(2)
    seen = []

    def predict(m):
        seen.append(len(m["a"]))
        return m["a"][:, :3] + m["b"]

    SynIB(RandomMask(0.5), StandardNoise())(BlackBoxModel(predict, independent_rows=independent_rows), x, y, key=key)
    assert seen == calls
