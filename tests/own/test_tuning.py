"""Tuning encoders together with a model: tiny networks of transformers with random weights."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from synib.own.fit import fit
from synib.own.new_rows import new_rows
from synib.own.saved import load
from synib.own.table import read
from synib.own.tuning import check_tunable, tune

transformers = pytest.importorskip("transformers")
pytest.importorskip("lightning")
SIZE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat", "dog", "ran", "on", "mat", "grass"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("bert")
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, **SIZE)
    network = transformers.BertModel(config)
    _hide_the_animals(network)
    network.save_pretrained(folder)
    return folder


@torch.no_grad()
def _hide_the_animals(network):
    """A cat and a dog differ in the last 8 coordinates, which the output has not: only attention could bring them there."""
    layer = network.encoder.layer[0]
    words = network.embeddings.word_embeddings.weight
    words[5] = words[3]
    sign = torch.tensor([1.0, -1.0] * 4)  # of mean 0, so that normalisation does not show it either
    words[3, 8:], words[5, 8:] = sign, -sign
    layer.attention.self.value.weight.zero_()
    layer.attention.output.dense.weight.copy_(torch.eye(16))
    layer.output.dense.weight.zero_()
    for norm in (network.embeddings.LayerNorm, layer.attention.output.LayerNorm):
        norm.weight.fill_(1.0)
    layer.output.LayerNorm.weight[8:] = 0.0


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A cat or a dog among other words, which the frozen network does not show, and a number that tells nothing."""
    rng = np.random.default_rng(0)
    dog = rng.integers(2, size=100)
    lines = ["text,age,label"]
    for k, is_dog in enumerate(dog):
        text = " ".join([*rng.choice(WORDS[6:], 2), "dog" if is_dog else "cat", *rng.choice(WORDS[6:], 2)])
        lines.append(f"{'' if k == 7 else text},{20 + rng.integers(40)},{is_dog}")
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def read_rows(path, bert):
    modalities = {"text": "text:text", "person": "age:table"}
    return read(path, modalities=modalities, encoders={"text": str(bert)}, device="cpu")


@pytest.fixture(scope="module")
def tuned(rows, bert, tmp_path_factory):
    table = read_rows(rows, bert)
    frozen = fit(table, "synib", budget=1, epochs=3, device="cpu", columns=table.columns, baselines=False)
    return frozen, *tune(frozen, table, epochs=60, device="cpu")


def test_tuning_finds_what_frozen_vectors_do_not_show(tuned):
    frozen, model, _ = tuned
    told = model.about["tuned"]
    assert told["kept"]
    assert told["tuned"]["log_loss"]["value"] < told["frozen"]["log_loss"]["value"] - 0.1
    assert model.about["scores"] == told["tuned"]
    assert "The tuned model is kept." in model.about["choice"]
    assert frozen.raw["text"].encoders[0].revision == model.raw["text"].encoders[0].revision.split("+")[0]


def test_a_saved_tuned_model_predicts_raw_rows_as_it_did(tuned, rows, tmp_path):
    _, model, table = tuned
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    x, present, *_ = new_rows(again, rows)
    assert np.allclose(x["text"][present["text"]], table.modalities["text"][table.present["text"]], atol=1e-5)
    assert np.allclose(again.predict(x, present), model.predict(table.modalities, table.present), atol=1e-5)
    plain = json.loads((tmp_path / "model" / "model.json").read_text())
    assert plain["raw"]["text"]["encoders"][0]["settings"] == {"rank": 8}
    assert (tmp_path / "model" / "encoders.safetensors").stat().st_size > 0
    card = (tmp_path / "model" / "README.md").read_text()
    assert "tuned to these data (LoRA, rank 8)" in card
    assert "Encoders are frozen" not in card


def test_what_cannot_be_tuned_is_a_sentence(rows, bert, tuned):
    modalities = {"text": "text:text", "person": "age:table"}
    words = read(rows, modalities=modalities, encoders={"text": "tfidf"})
    with pytest.raises(ValueError, match=r"text is encoded by tfidf. Name an encoder .*: --encoder text=minilm"):
        check_tunable(words)
    with pytest.raises(ValueError, match="this file has none of these"):
        check_tunable(dataclasses.replace(words, raw=None))
    table = read_rows(rows, bert)
    with pytest.raises(ValueError, match="and unimodal- of text; got dnr: leave out --tune"):
        check_tunable(table, "dnr")
    few = dataclasses.replace(table, split=np.array(["train"] * 30 + ["test"] * 70))
    with pytest.raises(ValueError, match="at least 40 rows for training, calibration and evaluation; there are 30"):
        check_tunable(few)
    assert list(check_tunable(table)) == ["text"]


def test_damaged_updates_are_refused(tuned):
    from synib.own.raw.catalogue import restore

    _, model, _ = tuned
    raw = model.raw["text"]
    state = raw.encoders[0]
    name = min(state.arrays)
    arrays = {**state.arrays, name: state.arrays[name] + 1}
    with pytest.raises(ValueError, match="has changed since the model was fitted"):
        restore(raw, dataclasses.replace(state, arrays=arrays), False, "cpu")
    with pytest.raises(ValueError, match="do not fit its network"):
        restore(raw, dataclasses.replace(state, arrays={name: arrays[name]}), False, "cpu")
    with pytest.raises(ValueError, match="must be from 1 to 256; got 'many'"):
        restore(raw, dataclasses.replace(state, settings={"rank": "many"}), False, "cpu")


def test_where_tuning_does_not_help_the_model_stays_as_it_was(rows, bert):
    table = read_rows(rows, bert)
    shuffled = dataclasses.replace(table, target=np.random.default_rng(1).permutation(table.target))
    frozen = fit(shuffled, "frequencies", device="cpu", baselines=False)
    frozen = dataclasses.replace(frozen, about={**frozen.about, "asked": "auto"})
    model, same = tune(frozen, shuffled, epochs=3, device="cpu")
    told = model.about["tuned"]
    assert told["method"] == "experts"
    assert told["difference"]["value"] >= 0
    assert not told["kept"]
    assert "The model with frozen encoders is kept." in told["words"]
    assert model.answers is frozen.answers
    assert same is shuffled
