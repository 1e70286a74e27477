import json
import sys

import pytest
import torch

pytest.importorskip("transformers")

from synib.models.memes import ImageEncoder, TextEncoder
from synib.models.pretrained import Normalise
from synib.models.resnet import FramesEncoder, SpectrogramEncoder


@pytest.fixture
def saved(tmp_path, tiny):
    """A folder that a tiny network of CLIP was saved to, and the encoder it was saved from."""
    encoder = ImageEncoder(tiny["vision"]).eval()
    encoder.network.save_pretrained(tmp_path / "clip")
    return tmp_path / "clip", encoder


def picture():
    return torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)


@pytest.mark.parametrize("as_text", [True, False])
def test_weights_come_from_a_folder(saved, as_text):
    folder, encoder = saved
    x = picture()
    assert torch.equal(ImageEncoder(str(folder) if as_text else folder).eval()(x).values, encoder(x).values)


def test_clips_vision_is_taken_from_the_whole_of_clip(tmp_path, tiny):
    from transformers import CLIPConfig, CLIPModel

    words = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 20,
    }
    whole = CLIPModel(CLIPConfig(vision_config=tiny["vision"], text_config=words)).eval()
    whole.save_pretrained(tmp_path)
    normalised = torch.randn(2, 3, 12, 12)
    theirs = whole.vision_model(pixel_values=normalised).last_hidden_state
    torch.testing.assert_close(ImageEncoder(tmp_path).eval()(normalised).values, theirs)


def test_the_text_comes_from_a_folder_too(tmp_path, tiny):
    encoder, x = TextEncoder(tiny["text"]).eval(), torch.tensor([[3, 4, 0]])
    encoder.network.save_pretrained(tmp_path)
    assert torch.equal(TextEncoder(tmp_path).eval()(x).values, encoder(x).values)


def test_three_channels_are_summed_for_a_spectrogram(tmp_path, tiny):
    frames = FramesEncoder(tiny["resnet"]).eval()
    frames.network.save_pretrained(tmp_path)
    heard = SpectrogramEncoder(tmp_path).eval()
    x = torch.randn(2, 16, 16)
    torch.testing.assert_close(heard(x), frames(x[:, None, None].expand(-1, 1, 3, -1, -1)))


def test_a_configuration_of_transformers_is_taken(tiny):
    from transformers import CLIPVisionConfig

    assert ImageEncoder(CLIPVisionConfig(**tiny["vision"]))(picture()).values.shape == (2, 10, 16)


def test_bytes_are_normalised_and_real_numbers_are_not():
    normalise = Normalise((0.5, 0.25), (2.0, 1.0))
    x = torch.tensor([[[[255]], [[0]]]], dtype=torch.uint8)
    assert normalise(x).flatten().tolist() == [0.25, -0.25]
    real = torch.randn(1, 2, 1, 1)
    assert normalise(real) is real
    with pytest.raises(ValueError, match=r"Images must be bytes \(uint8\), or real numbers .* got torch.int64\."):
        normalise(x.long())


def said(weights):
    with pytest.raises(ValueError) as found:
        ImageEncoder(weights)
    assert str(found.value).endswith(".")
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_missing_folder_is_one_sentence(tmp_path):
    assert (
        said(tmp_path / "none")
        == f"{tmp_path / 'none'} is not a folder: give one that contains config.json and model.safetensors."
    )
    assert "is not a folder" in said(str(tmp_path / "none"))
    assert "is not a folder" in said("../../elsewhere/weights")


def test_a_folder_without_a_model_in_it_is_one_sentence(tmp_path):
    assert "has no config.json" in said(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "cannot be read" in said(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert "contains a model of type 'bert'; expected 'clip' or 'clip_vision_model'." in said(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip_vision_model"}))
    assert "no weights (model.safetensors)" in said(tmp_path)


def test_weights_that_are_damaged_or_another_models_are_one_sentence(saved):
    from safetensors.torch import load_file, save_file

    folder, _ = saved
    file = folder / "model.safetensors"
    weights = load_file(file)
    dropped = sorted(weights)[0]
    save_file({name: tensor for name, tensor in weights.items() if name != dropped}, file, metadata={"format": "pt"})
    assert "has no weights for 1 parts of CLIPVisionModel" in said(folder)
    file.write_bytes(b"nonsense")
    assert f"The weights in {folder} cannot be read" in said(folder)


def test_a_model_that_is_not_in_the_cache_is_not_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert "'nobody/nothing' is neither a folder nor a model in the transformers cache" in said("nobody/nothing")


def test_settings_that_cannot_be_are_one_sentence(tiny):
    assert "must be a folder, a Hugging Face Hub id or a configuration; got 3." in said(3)
    assert "CLIPVisionModel cannot be constructed from the settings" in said(
        tiny["vision"] | {"num_attention_heads": 5}
    )
    with pytest.raises(ValueError, match=r"tune must be 'full', 'frozen' or 'lora'; got 'some'\."):
        ImageEncoder(tiny["vision"], tune="some")


def test_a_missing_package_says_what_to_install(monkeypatch, tiny):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ImportError, match=r'CLIPVisionModel needs the package transformers: pip install "synib\[vision,text\]"'
    ):
        ImageEncoder(tiny["vision"])
