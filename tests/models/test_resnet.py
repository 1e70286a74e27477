import warnings

import pytest
import torch

pytest.importorskip("transformers")

from synib import RandomMask, ShuffledNoise, StandardNoise, SynIB
from synib.models import resnet_model
from synib.models.resnet import FramesEncoder


def test_its_shapes_are_the_papers():
    model = resnet_model(7)
    for encoder in model.encoders.values():
        convolutions = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv2d) and m.kernel_size != (1, 1)]
        assert len(convolutions) == 17  # and one layer behind: 18
    assert model.fusion.slices["video"].weight.shape == (64, 512)
    assert model.heads["audio"][0].weight.shape == (64, 512)
    assert model.fusion.rest[-1].weight.shape == (7, 64)
    assert model.encoders["audio"].network.embedder.embedder.convolution.in_channels == 1


def test_frames_and_spectrograms_become_a_vector_each_and_a_prediction(clips):
    model, x, _ = clips()
    assert {name: z.shape for name, z in model.encode_all(x).items()} == {"video": (6, 6), "audio": (6, 6)}
    assert model(x).shape == (6, 3)


def test_a_clip_is_the_mean_of_its_frames_in_any_order(tiny):
    encoder = FramesEncoder(tiny["resnet"]).eval()
    x = torch.randint(0, 256, (2, 3, 3, 16, 16), dtype=torch.uint8)
    each = torch.stack([encoder(x[:, i : i + 1]) for i in range(3)]).mean(0)
    torch.testing.assert_close(encoder(x), each)
    torch.testing.assert_close(encoder(x.flip(1)), each)


def test_masks_on_inputs_take_separate_passes_and_say_so(clips, key):
    model, x, y = clips()
    with pytest.warns(UserWarning, match="BatchNorm"):
        SynIB(RandomMask(0.5), ShuffledNoise())(model, x, y, key=key)


def test_masks_on_latents_do_not_meet_the_batch_norm(clips, key):
    model, x, y = clips()
    seen = []
    for encoder in model.encoders.values():
        encoder.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, parts = SynIB(RandomMask(0.5), StandardNoise())(model.on_latents(), model.encode_all(x), y, key=key)
    loss.backward()
    assert seen == [6, 6]
    assert parts["penalty/video"] > 0
    assert all(p.grad.isfinite().all() for p in model.parameters())
    once = {name: b.clone() for name, b in model.named_buffers() if "num_batches" in name}
    assert set(map(int, once.values())) == {1}


def test_frozen_encoders_do_not_change_in_any_way(clips, key):
    model, x, y = clips(tune="frozen")
    model.train()
    before = {name: t.clone() for name, t in model.encoders.state_dict().items()}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    SynIB(RandomMask(0.5), ShuffledNoise())(model, x, y, key=key)[0].backward()  # fused, without a warning
    optimiser.step()
    after = model.encoders.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_each_modality_may_have_weights_of_its_own(tiny, clips):
    wide = tiny["resnet"] | {"hidden_sizes": [4, 8]}
    model, x, _ = clips(weights={"video": tiny["resnet"], "audio": wide})
    assert model.encode_all(x)["audio"].shape == (6, 8)
    assert model(x).shape == (6, 3)


def test_wrong_batches_and_settings_are_one_sentence(clips, tiny):
    model, x, _ = clips()
    with pytest.raises(
        ValueError,
        match=r"Frames must have shape \(batch, frames, 3, height, width\); got \(6, 3, 16, 16\) of torch.uint8\.",
    ):
        model.encode("video", x["video"][:, 0])
    with pytest.raises(
        ValueError, match=r"Spectrograms must have shape \(batch, frequencies, times\); got \(6, 1, 17, 12\) of"
    ):
        model.encode("audio", x["audio"][:, None])
    with pytest.raises(
        ValueError, match=r"modalities must be a dict of name → 'frames' or 'spectrogram'; got .*'mesh'"
    ):
        resnet_model(3, {"video": "mesh", "audio": "spectrogram"})
    with pytest.raises(
        ValueError, match=r"tune must be 'full' or 'frozen' for a ResNet, which has no attention; got 'lora'\."
    ):
        clips(tune="lora")
