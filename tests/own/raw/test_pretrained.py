"""Models of transformers as frozen encoders, from a folder; tiny ones with random weights."""

import numpy as np
import pytest
import torch

from synib.own.raw import images, sounds
from synib.own.raw.catalogue import make as make_encoder
from synib.own.raw.catalogue import moved, restore
from synib.own.raw.encoders.pretrained import Pretrained
from synib.own.raw.spec import RawModality

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("bert")
    words = {word: k for k, word in enumerate(["[PAD]", "[UNK]", "the", "cat", "sat", "dog"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=6, max_position_embeddings=16, **size)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return folder


def test_texts_are_averaged_over_what_is_not_padding(bert):
    encoder = Pretrained("text", str(bert), device="cpu")
    assert (encoder.width, encoder.licence) == (8, "apache-2.0")
    values = encoder.encode(["the cat", "the dog sat the cat sat"])
    network = transformers.BertModel.from_pretrained(bert).eval()
    with torch.no_grad():
        alone = network(torch.tensor([[2, 3]])).last_hidden_state.mean(1)[0]
    assert np.allclose(values[0], alone.numpy(), atol=1e-5)
    assert values.dtype == np.float32
    assert encoder.encode(["the cat " * 100]).shape == (1, 8)  # longer than it can read: cut


def test_a_text_model_that_pools_its_first_token_does_so(bert, tmp_path):
    for path in bert.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "1_Pooling").mkdir()
    network = transformers.BertModel.from_pretrained(bert).eval()
    with torch.no_grad():
        hidden = network(torch.tensor([[2, 3]])).last_hidden_state[0]
    for settings, expected in (
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}', hidden[0]),
        ('{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}', hidden.mean(0)),
        ("[broken", hidden.mean(0)),
        ("[1]", hidden.mean(0)),
    ):
        (tmp_path / "1_Pooling" / "config.json").write_text(settings)
        values = Pretrained("text", str(tmp_path), device="cpu").encode(["the cat"])
        assert np.allclose(values[0], expected.numpy(), atol=1e-5)


def test_other_weights_are_another_revision(bert, tmp_path):
    modality = RawModality("text", ("review",))
    for path in bert.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    state = make_encoder(modality, str(tmp_path), False, "cpu").state()
    assert restore(modality, state, False, "cpu").revision == state.revision
    content = bytearray((tmp_path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="has changed since the model was fitted: revision"):
        restore(modality, state, False, "cpu")


def test_images_and_sounds_are_encoded(make, tmp_path, monkeypatch):
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vit = transformers.ViTConfig(image_size=16, patch_size=8, **size)
    transformers.ViTModel(vit).save_pretrained(tmp_path / "vit")
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
    encoder = Pretrained("image", str(tmp_path / "vit"), device="cpu")
    items = [images.decode(make.png(red)) for red in (True, False)]
    values = encoder.encode([encoder.prepare(item) for item in items])
    assert values.shape == (2, 8)
    assert not np.allclose(values[0], values[1])
    small = {"conv_dim": (8, 8), "conv_stride": (20, 20), "conv_kernel": (20, 20), "num_conv_pos_embeddings": 4}
    wav2vec = transformers.Wav2Vec2Config(num_conv_pos_embedding_groups=2, **size, **small)
    transformers.Wav2Vec2Model(wav2vec).save_pretrained(tmp_path / "wav")
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(tmp_path / "wav")
    encoder = Pretrained("audio", str(tmp_path / "wav"), device="cpu")
    waves = [sounds.decode(make.wav(low, seconds=s)) for low, s in ((True, 0.3), (False, 0.6))]
    values = encoder.encode([encoder.prepare(wave) for wave in waves])
    assert values.shape == (2, 8)
    assert np.isfinite(values).all()
    assert np.isfinite(encoder.encode([sounds.Wave(waves[0].samples[:5], 16_000)])).all()  # less than a first window
    monkeypatch.setattr("synib.own.raw.encoders.pretrained.SECONDS", 1)
    wave = np.random.default_rng(0).normal(size=40_000).astype(np.float32)
    first, second = (encoder.encode([sounds.Wave(wave[at : at + 16_000], 16_000)]) for at in (0, 16_000))
    assert np.allclose(encoder.encode([sounds.Wave(wave, 16_000)]), (first + second) / 2, atol=1e-5)


def test_a_folder_of_another_kind_of_model_is_a_sentence(bert, tmp_path):
    with pytest.raises(ValueError, match="contains no readable transformers image model"):
        Pretrained("image", str(bert), device="cpu")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="contains no readable transformers text model"):
        Pretrained("text", str(tmp_path), device="cpu")


def test_an_encoder_that_was_moved_is_found_in_its_new_folder(bert, make, tmp_path, simple_cross_validation):
    from synib.own.fit import fit
    from synib.own.saved import load
    from synib.own.table import read

    path = make.csv(tmp_path / "a.csv", make.reviews(40))
    (tmp_path / "here").mkdir()
    for file in bert.iterdir():
        (tmp_path / "here" / file.name).write_bytes(file.read_bytes())
    encoders = {"text": [str(tmp_path / "here"), "tfidf"]}
    modalities = {"text": "review:text", "person": "age,department:table"}
    table = read(path, modalities=modalities, encoders=encoders, device="cpu")
    model = fit(table, "vanilla", budget=1, epochs=1, device="cpu", columns=table.columns, baselines=False)
    model.save(tmp_path / "model")
    (tmp_path / "here").rename(tmp_path / "there")
    again = load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"here.* If it was moved since the model was fitted: --encoder text=FOLDER"):
        again.read(path, device="cpu")
    expected = model.predict(table.modalities, table.present)
    for key in ("text", "person"):
        if key == "text":
            rows = again.read(path, device="cpu", encoders={key: str(tmp_path / "there")})
            assert np.allclose(again.predict(*rows), expected, atol=1e-6)
        else:
            with pytest.raises(ValueError, match=r"the model has 0 such encoders of person \(none\), and 1 names"):
                moved(again.raw, {key: "onehot"})
    with pytest.raises(ValueError, match="There is no modality 'image' to encode"):
        moved(again.raw, {"image": "x"})
    (tmp_path / "there" / "README.md").unlink()  # says nothing about the outputs
    content = bytearray((tmp_path / "there" / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "there" / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="has changed since the model was fitted: revision"):
        again.read(path, device="cpu", encoders={"text": str(tmp_path / "there")})
