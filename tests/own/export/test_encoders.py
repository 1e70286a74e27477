"""Encoders beside an exported model: the same vectors from the same texts, images and sounds, or a reason."""

import json

import numpy as np
import pytest
import torch

from synib.own.export.encoders import exported_encoders
from synib.own.export.programs import run_torch
from synib.own.fit import fit
from synib.own.raw import catalogue
from synib.own.raw.encoders.pretrained import Pretrained
from synib.own.saved import load
from synib.own.table import read

transformers = pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")
SIZE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = ["[PAD]", "[UNK]", "good", "bad", "number", "1", "2", "a", "words", "longer"]


def bert(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, **SIZE)
    transformers.BertModel(config).save_pretrained(folder)


def vit(folder):
    transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **SIZE)).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)


def wav2vec(folder):
    small = {"conv_dim": (8, 8), "conv_stride": (20, 20), "conv_kernel": (20, 20), "num_conv_pos_embeddings": 4}
    config = transformers.Wav2Vec2Config(num_conv_pos_embedding_groups=2, **SIZE, **small)
    transformers.Wav2Vec2Model(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_rows):
    """A model of texts, images, sounds and a number, encoded by networks with random weights, and its rows."""
    place, rng = tmp_path_factory.mktemp("networks"), np.random.default_rng(0)
    torch.manual_seed(0)
    for make in (bert, vit, wav2vec):
        make(place / make.__name__)
    import soundfile

    columns = {"text": [], "photo": [], "call": [], "age": [], "label": []}
    for k in range(40):
        Image.fromarray(rng.integers(0, 256, (20 + k, 30, 3)).astype(np.uint8)).save(place / f"{k}.png")
        soundfile.write(place / f"{k}.wav", 0.1 * rng.normal(size=4000 + 100 * k), 16_000)
        row = (" ".join(rng.choice(WORDS[2:], 1 + k % 9)), f"{k}.png", f"{k}.wav", 20 + k, k % 2)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    path = write_rows(place / "rows.csv", columns)
    modalities = {"text": "text:text", "photo": "photo:image", "call": "call:audio", "age": "age:table"}
    encoders = {
        "text": ["tfidf", str(place / "bert")], "photo": str(place / "vit"), "call": str(place / "wav2vec"),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(place / "cache"))
        patch.setattr("synib.own.fit.NESTED", 0)
        table = read(path, modalities=modalities, encoders=encoders, device="cpu")
        model = fit(table, "vanilla", budget=1, epochs=1, columns=table.columns, baselines=False, device="cpu")
        model.save(place / "model")
        model.export(place / "exported")
    return place


def features(entry, reader, content):
    """What ``export.json`` says to give to the graph: from a class of transformers and its options."""
    options = dict(entry["options"])
    given = dict(
        getattr(transformers, entry["reader_class"]).from_pretrained(reader)(content, return_tensors="np", **options)
    )
    if "mask" in entry:
        given[entry["mask"]] = given.pop("attention_mask")
    wanted = {one["name"]: one["dtype"] for one in entry["inputs"]}
    return {name: np.asarray(given[name]).astype(dtype) for name, dtype in wanted.items()}


def test_raw_content_through_the_exported_graphs_gives_what_predict_gives(folder):
    import soundfile

    plain = json.loads((folder / "exported" / "export.json").read_text())
    model = load(folder / "model")
    rows, present = model.read(folder / "rows.csv", device="cpu")
    expected = model.predict(rows, present)
    content = {
        "photo": lambda k: Image.open(folder / f"{k}.png"),
        "call": lambda k: soundfile.read(folder / f"{k}.wav")[0],
    }
    lines = (folder / "rows.csv").read_text().splitlines()[1:]
    content["text"] = lambda k: lines[k].split(",")[0]
    feeds = {"age.age": np.array([float(line.split(",")[3]) for line in lines[:6]])}
    for graph_input in plain["inputs"]:
        for entry in graph_input.get("encoders", ()):
            if "graph" not in entry:
                assert (entry["name"], entry["why"]) == ("tfidf", "it is not a transformers model")
                continue
            assert entry["check"]["largest_difference"] < 1e-3
            session = onnxruntime.InferenceSession(folder / "exported" / entry["graph"])
            reader = folder / "exported" / entry["reader"]
            of_rows = [features(entry, reader, [content[graph_input["modality"]](k)]) for k in range(6)]
            vectors = np.concatenate([session.run(None, one)[0] for one in of_rows])
            feeds[graph_input["name"]] = vectors
    feeds["text"] = np.concatenate([rows["text"][:6, : -feeds["text"].shape[1]], feeds["text"]], 1).astype(np.float32)
    graph = onnxruntime.InferenceSession(folder / "exported" / "model.onnx")
    inputs = {one["name"] for one in plain["inputs"]}
    (probabilities,) = graph.run(None, {name: x for name, x in feeds.items() if name in inputs})
    assert np.allclose(probabilities, expected[:6], atol=1e-4)
    card = (folder / "exported" / "README.md").read_text()
    assert "`encoders/text-2.onnx` computes it (output `vectors`) from" in card
    assert "It is not exported: it is not a transformers model." in card


def test_encoders_are_exported_as_torch_programs_and_replaced(synib_command, folder, tmp_path):
    model = load(folder / "model")
    code, out, err = synib_command("export", folder / "model", "--to", "torch", "--out", "program")
    assert (code, err) == (0, "")
    assert "text: its encoder (tfidf) is not part of the graph, which takes its vectors as input.\n" in out
    assert f"photo: its encoder {folder / 'vit'} is exported beside the graph: program/encoders/photo.pt2.\n" in out
    files = {path.relative_to(tmp_path / "program").as_posix() for path in (tmp_path / "program").rglob("*")}
    assert {"model.pt2", "encoders/photo.pt2", "encoders/call.pt2", "encoders/text-2.pt2"} <= files
    encoder = Pretrained("text", str(folder / "bert"), device="cpu")
    texts = ["good", "a number of longer words"]
    content = (tmp_path / "program" / "encoders" / "text-2.pt2").read_bytes()
    assert np.allclose(run_torch(content, encoder.inputs(texts))[0], encoder.encode(texts), atol=1e-5)
    model.export(tmp_path / "program", "torch")  # an earlier export is replaced
    (tmp_path / "program" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(mine.txt\)"):
        model.export(tmp_path / "program", "torch")


def test_an_encoder_that_is_gone_or_cannot_be_traced_is_said_and_the_model_is_exported(folder, tmp_path, monkeypatch):
    model = load(folder / "model")
    (folder / "vit").rename(folder / "moved")
    try:
        why = exported_encoders(model, "onnx")["photo"][0].plain["why"]
        assert "If it was moved since the model was fitted: --encoder image=FOLDER" in why
        there = exported_encoders(model, "onnx", {"photo": str(folder / "moved")})["photo"][0]
        assert there.plain["graph"] == "encoders/photo.onnx"
    finally:
        (folder / "moved").rename(folder / "vit")

    def broken(*_):
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr("synib.own.export.encoders.traced", broken)
    said = exported_encoders(model, "onnx")["call"][0].plain
    assert said == {"why": "Wav2Vec2Model cannot be exported (RuntimeError: no such operator)"}
    assert catalogue.is_network("audio", "x")
