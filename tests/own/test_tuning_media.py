"""Tuning the encoders of images and sounds: tiny ViT, CLIP, Wav2Vec2 and Whisper networks with random weights."""

import csv
import dataclasses
import wave

import numpy as np
import pytest
import torch

from synib.own import tuning
from synib.own.fit import fit
from synib.own.new_rows import new_rows
from synib.own.raw import images, sounds
from synib.own.raw.encoders.adapters import add_adapters
from synib.own.raw.encoders.pretrained import Pretrained
from synib.own.saved import load
from synib.own.table import read

transformers = pytest.importorskip("transformers")
pytest.importorskip("lightning")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("soundfile")
SIZE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
LARGE = {"initializer_range": 0.3}  # weights as small as by default make a network of this size nearly constant
ROWS, RATE = 48, 16_000


def vit(folder):
    transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **SIZE, **LARGE)).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)


def clip(folder):
    vision = {"image_size": 16, "patch_size": 4, "initializer_factor": 8.0, **SIZE}
    text = {"vocab_size": 8, "max_position_embeddings": 8, "eos_token_id": 1, "bos_token_id": 0, **SIZE}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    transformers.CLIPModel(config).save_pretrained(folder)
    size = {"height": 16, "width": 16}
    transformers.CLIPImageProcessor(size=size, crop_size=size).save_pretrained(folder)


def wav2vec(folder):
    small = {"conv_dim": (8, 8), "conv_stride": (20, 20), "conv_kernel": (20, 20), "num_conv_pos_embeddings": 4}
    config = transformers.Wav2Vec2Config(num_conv_pos_embedding_groups=2, **SIZE, **LARGE, **small)
    transformers.Wav2Vec2Model(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)


def whisper(folder):
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    width = {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_mel_bins": 16}
    short = {"max_source_positions": 50, "max_target_positions": 8, "vocab_size": 16}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = transformers.WhisperConfig(**layers, **width, **short, **ids)
    transformers.WhisperModel(config).save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1).save_pretrained(folder)


NETWORKS = {
    "vit": ("image", vit),
    "clip": ("image", clip),
    "wav2vec": ("audio", wav2vec),
    "whisper": ("audio", whisper),
}


def picture(folder, k, truth, rng):
    """Noise with a bright patch, in the left half or in the right one."""
    pixels = rng.integers(0, 90, size=(16, 16, 3), dtype=np.uint8)
    row, column = 4 * rng.integers(4), 4 * rng.integers(2) + 8 * truth
    pixels[row : row + 4, column : column + 4] = 255
    Image.fromarray(pixels).save(folder / f"{k}.png")
    return f"{k}.png"


def sound(folder, k, truth, rng):
    """A low tone and a high one, either of which comes first."""
    time = np.arange(RATE // 5) / RATE
    tones = [np.sin(2 * np.pi * hertz * time) for hertz in (300, 1200)]
    samples = np.concatenate(tones[:: -1 if truth else 1]) * 0.4 + rng.normal(size=2 * len(time)) * 0.02
    with wave.open(str(folder / f"{k}.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((np.clip(samples, -1, 1) * 32_000).astype("<i2").tobytes())
    return f"{k}.wav"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """For each kind a file of rows: media that decide the label, and a number that tells nothing."""
    result = {}
    for kind, make in (("image", picture), ("audio", sound)):
        folder, rng = tmp_path_factory.mktemp(kind), np.random.default_rng(0)
        truth = rng.integers(2, size=ROWS)
        with (folder / "rows.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["media", "age", "label"])
            for k in range(ROWS):
                rows.writerow(["" if k == 7 else make(folder, k, truth[k], rng), 20 + rng.integers(40), truth[k]])
        result[kind] = folder / "rows.csv"
    return result


@pytest.mark.parametrize("network", NETWORKS)
def test_vectors_do_not_depend_on_the_rows_beside_them_and_pass_gradients_to_the_updates(network, folders, tmp_path):
    kind, make = NETWORKS[network]
    torch.manual_seed(0)
    make(tmp_path / "encoder")
    encoder = Pretrained(kind, str(tmp_path / "encoder"), device="cpu")
    add_adapters(encoder.name, encoder.network)
    decode = images.decode if kind == "image" else sounds.decode
    items = [encoder.prepare(decode(path.read_bytes())) for path in sorted(folders[kind].parent.glob("1.*"))]
    if kind == "audio" and network == "whisper":  # a network without normalisation over the padded length
        short = items[0]._replace(samples=items[0].samples[: RATE // 10])
        together, alone = encoder.encode([items[0], short]), encoder.encode([short])
        assert np.allclose(together[1], alone[0], atol=1e-4)
    torch.autograd.backward([encoder.pool(encoder.inputs(items)).square().sum()])
    given = [p.grad for p in encoder.network.parameters() if p.requires_grad]
    assert given
    assert any(g is not None and g.abs().sum() > 0 for g in given)


@pytest.mark.parametrize("network", ["vit", "whisper"])
def test_tuned_encoders_of_images_and_sounds_are_saved_and_used_again(network, folders, tmp_path, monkeypatch):
    kind, make = NETWORKS[network]
    torch.manual_seed(0)
    make(tmp_path / "encoder")
    path, modalities = folders[kind], {"media": f"media:{kind}", "person": "age:table"}
    table = read(path, modalities=modalities, encoders={"media": str(tmp_path / "encoder")}, device="cpu")
    frozen = fit(table, "vanilla", budget=1, epochs=2, device="cpu", columns=table.columns, baselines=False)
    real = tuning.compare

    def kept(*given):  # too few rows to be better: what is kept is tried all the same
        compared = real(*given)
        return dataclasses.replace(compared, loss_difference=dataclasses.replace(compared.loss_difference, value=-1.0))

    monkeypatch.setattr(tuning, "compare", kept)
    model, tuned = tuning.tune(frozen, table, epochs=2, device="cpu")
    assert model.about["tuned"]["kept"]
    assert model.second is not None
    before, after = table.modalities["media"], tuned.modalities["media"]
    assert not np.allclose(before, after)
    assert not after[7].any()  # the row without it
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    x, present, *_ = new_rows(again, path)
    has = table.present["media"]
    assert np.allclose(x["media"][has], after[has], atol=1e-3)
    assert np.allclose(again.predict(x, present), model.predict(tuned.modalities, tuned.present), atol=1e-3)
