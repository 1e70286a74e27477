"""What a step computes: every encoder and the fusion run once, on no more rows than they must."""

import torch
from torch import nn

from synib import RandomMask, ShuffledNoise, StandardNoise, SynIB


def test_fused_each_encoder_and_the_fusion_run_once(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(("encoder", len(inputs[0]))))
    model.fusion.rest.register_forward_hook(lambda _, inputs, __: seen.append(("fusion", len(inputs[0]))))
    SynIB(RandomMask(0.5), StandardNoise())(model, x, y, key=key)
    assert seen == [("encoder", 2 * len(y)), ("fusion", 3 * len(y))]


def test_swapped_latents_run_each_encoder_on_the_intact_batch_only(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    SynIB(RandomMask(1.0), ShuffledNoise(), draws=16)(model, x, y, key=key)
    assert seen == [len(y)]


def test_sampling_really_does_less(key, batch, fusion_model):
    x, y = batch(3, 12)
    model = fusion_model(3, heads=False)
    seen = []
    model.encoders["a"].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    SynIB(RandomMask(0.5), StandardNoise(), sample=1)(model, x, y, key=key)
    assert seen == [12 + 4]


def test_batch_norm_in_evaluation_mode_is_fused_without_a_word(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    model.encoders["a"].append(nn.BatchNorm1d(5).double())
    model.fusion.rest.insert(0, nn.BatchNorm1d(32).double())
    model.eval()
    losses = [SynIB(RandomMask(0.5), StandardNoise(), fused=fused)(model, x, y, key=key)[0] for fused in (None, False)]
    torch.testing.assert_close(*losses)


def test_batch_norm_in_the_encoders_does_not_matter_to_latents(key, batch, fusion_model):
    x, y = batch(2)
    model = fusion_model(2)
    model.encoders["a"].append(nn.BatchNorm1d(5).double())
    assert SynIB(RandomMask(0.5), StandardNoise())(model.on_latents(), model.encode_all(x), y, key=key)[0].isfinite()
