"""Hateful Memes: from jsonl files, pictures and saved models to a table, without any download."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from synib import OnLatents
from synib.files import read_csv
from synib.models.pretrained import transformers
from synib.report import build
from synib.studies import HatefulMemes, run
from synib.studies.control import CONTROL, REAL, SHUFFLED
from synib.studies.hateful_memes import data as module
from synib.studies.hateful_memes.files import load
from synib.tokens import Tokens, values
from synib.training import Cell

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(20))]
SIZES = {"train": 16, "dev_unseen": 8, "test_seen": 8}
METHODS = HatefulMemes().methods
TINY = {"epochs": 1, "batch_size": 8, "warmup": 0, "width": 8, "layers": 1, "heads": 2, "rank": 2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with hateful-memes/ (32 pictures, three jsonl files), clip/ and deberta/ with a tokenizer."""
    home = tmp_path_factory.mktemp("memes")
    (home / "hateful-memes" / "img").mkdir(parents=True)
    number = 0
    for name, n in SIZES.items():
        lines = []
        for _ in range(n):
            Image.new("RGB", (14, 12 + number % 3), (7 * number, 0, 90)).save(
                home / "hateful-memes" / "img" / f"{number:05}.png"
            )
            text = " ".join(f"w{(number + k) % 20}" for k in range(2 + number % 5))
            lines.append({"id": number, "img": f"img/{number:05}.png", "label": number // 2 % 2, "text": text})
            number += 1
        (home / "hateful-memes" / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    torch.manual_seed(0)
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    clip = transformers("CLIPVisionConfig")(hidden_size=8, patch_size=4, image_size=12, **layers)
    transformers("CLIPVisionModel")(clip).save_pretrained(home / "clip")
    deberta = transformers("DebertaV2Config")(hidden_size=8, vocab_size=len(WORDS), pad_token_id=0, **layers)
    transformers("DebertaV2Model")(deberta).save_pretrained(home / "deberta")
    save_tokenizer(home / "deberta", WORDS)
    return home


def save_tokenizer(folder, words):
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [(w, words.index(w)) for w in ("[CLS]", "[SEP]")]
    made.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers("PreTrainedTokenizerFast")(tokenizer_object=made, **names).save_pretrained(folder)


def small(home, **options):
    methods = options.pop("methods", METHODS)
    given = {"root": str(home), "vision": str(home / "clip"), "text": str(home / "deberta"), "seeds": 1}
    return HatefulMemes(**given | {"methods": methods, "overrides": dict.fromkeys(methods, TINY)} | options)


@pytest.fixture(autouse=True)
def _cache_cleared():
    yield
    module.prepared.cache_clear()


@pytest.fixture(scope="module")
def finished(home, tmp_path_factory):
    """Every method: one epoch, or as many as it needs for all that it does."""
    turns = {"dnr": {"epochs": 3, "every": 1}, "reconboost": {"epochs": 3, "stage": 1, "rectify": 1}}
    experiment = small(home, overrides={method: TINY | turns.get(method, {}) for method in METHODS})
    path = run(experiment, tmp_path_factory.mktemp("run"), device="cpu", engine="solo")
    return experiment, build(path), read_csv(path / "results.csv"), path


def test_a_cell_is_another_with_other_encoders_and_the_same_in_another_place():
    first = HatefulMemes(root="here", vision="here/clip").cells()[0].id
    assert HatefulMemes(root="there", vision="there/clip").cells()[0].id == first
    others = [{"tune": "lora"}, {"longest": 64}, {"vision": "here/another"}, {"text": "here/another"}]
    assert len({first, *(HatefulMemes(**{"vision": "here/clip"} | o).cells()[0].id for o in others)}) == 5


def test_every_method_is_trained_and_vanilla_again_as_a_control(finished):
    experiment, _, rows, _ = finished
    assert [row["cell"] for row in rows] == [cell.id for cell in experiment.cells()]
    assert {(r["method"], r["training"]) for r in rows} == {*((m, REAL) for m in METHODS), ("vanilla", SHUFFLED)}
    for row in rows:
        assert 0 <= row["test_accuracy"] <= 1
        assert 0 <= row["auroc"] <= 1
        assert row["memes_tested"] == 8
        assert (row["memes_skipped"], row["texts_cut"]) == (0, 0)


def test_the_page_has_both_panels_the_papers_numbers_and_the_size_of_the_subset(finished):
    experiment, summary, rows, path = finished
    (figure,) = experiment.charts(summary, [])
    assert [panel.title for panel in figure.panels] == ["synergy subset", "all test memes"]
    assert list(figure.methods) == [*METHODS, CONTROL]
    assert figure.panels[1].rows["synib-random"]["paper"] == 0.698
    assert figure.panels[0].rows["synib-random"]["paper"] == 0.489
    assert figure.panels[1].rows[CONTROL]["paper"] is None
    assert (path / "figure.svg").exists()
    (table,) = experiment.tables(summary)
    assert list(table.rows) == [*METHODS, CONTROL]
    page = (path / "README.md").read_text()
    assert f"The synergy subset has {rows[0]['subset_size']:g} of 8 memes." in page
    assert "[0.698]" in page


def test_what_is_above_the_control_is_seed_by_seed(home):
    experiment = small(home, methods=("vanilla", "mcr"), seeds=2)
    known = {"memes_tested": 8.0, "subset_size": 4.0, "memes_skipped": 2.0, "texts_cut": 0.0, "auroc": 0.5}

    def row(method, training, seed, subset, total):
        scores = {"test_accuracy": total, "test_accuracy_subset": subset}
        return {"experiment": "hateful-memes", "method": method, "training": training, "seed": seed, **scores, **known}

    results = [
        *(row("vanilla", REAL, seed, 0.5, 0.6) for seed in (0, 1)),
        *(row("vanilla", SHUFFLED, seed, 0.25 * seed, 0.5) for seed in (0, 1)),
        *(row("mcr", REAL, seed, 0.75, 0.6 + 0.1 * seed) for seed in (0, 1)),
    ]
    summary = experiment.summary(results)
    found = {(r["method"], r["metric"]): r for r in summary}
    assert found["mcr", "subset_accuracy_over_control"]["mean"] == pytest.approx((0.75 + 0.5) / 2)
    assert found["vanilla", "subset_accuracy_over_control"]["mean"] == pytest.approx((0.5 + 0.25) / 2)
    assert found["mcr", "test_accuracy_over_vanilla"]["mean"] == pytest.approx(0.05)
    assert found[CONTROL, "subset_accuracy"]["mean"] == pytest.approx(0.125)
    assert found["vanilla", "subset_accuracy"]["mean"] == pytest.approx(0.5)
    assert (CONTROL, "test_accuracy_over_vanilla") not in found
    note = experiment.tables(summary)[0].note
    assert "2 memes without a readable image were excluded" in note
    assert "were truncated" not in note


def test_frozen_encoders_are_computed_once_and_their_tokens_are_the_data(home, monkeypatch):
    experiment = small(home)
    data = experiment.data(experiment.cells()[0])
    assert {name: type(x) for name, x in data.train.modalities.items()} == {"image": Tokens, "text": Tokens}
    assert values(data.train.modalities["image"]).shape == (16, 10, 8)  # nine patches and the picture's own
    assert values(data.train.modalities["text"]).shape[:2] == (16, 8)  # six words at most and two ends
    assert [len(part) for part in (data.train, data.validation, data.test)] == [16, 8, 8]
    assert data.test.groups["subset"].dtype == torch.bool
    module.prepared.cache_clear()
    monkeypatch.setattr("synib.models.cached._store", None)  # nothing is computed again
    again = experiment.data(experiment.cells()[0])
    assert torch.equal(again.train.modalities["text"].values, data.train.modalities["text"].values)


def test_the_subset_is_what_both_regressions_get_wrong(home, monkeypatch):
    labels = {"image": [1, 1, 0, 0, 1, 1, 0, 0], "text": [0, 0, 1, 1, 1, 1, 0, 0]}
    monkeypatch.setattr(module, "unimodal_labels", lambda data: {m: torch.tensor(y) for m, y in labels.items()})
    prepared = small(home)._memes()
    assert prepared.data.test.target.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert prepared.data.test.groups["subset"].tolist() == [False] * 4 + [True] * 4
    assert prepared.sizes["subset_size"] == 4


def test_the_auroc_is_of_the_hateful_ones_probability(home):
    experiment = small(home, methods=("vanilla",))
    cell = experiment.cells()[0]
    data = experiment.data(cell)

    class Knowing:
        def __init__(self, sign):
            self.sign, self.at = sign, 0

        def predict(self, model, modalities):
            right = data.test.target[self.at : self.at + len(values(modalities["image"]))]
            self.at += len(right)
            return torch.stack([torch.zeros(len(right)), self.sign * right], 1)

    for sign, auroc in ((1, 1.0), (-1, 0.0)):
        assert experiment.examine(cell, SimpleNamespace(model=None, method=Knowing(sign)), data)["auroc"] == auroc


def test_the_control_is_trained_and_selected_on_shuffled_pairs_and_tested_on_real_ones(home):
    experiment = small(home, methods=("vanilla",))
    real, control = (experiment.data(cell) for cell in experiment.cells())
    for part in ("train", "validation"):
        pairs, shuffled = getattr(real, part), getattr(control, part)
        assert torch.equal(pairs.target, shuffled.target)
        assert any(not torch.equal(values(shuffled.modalities[m]), values(x)) for m, x in pairs.modalities.items())
    assert control.test is real.test


@pytest.mark.parametrize("tune", ["lora", "full"])
def test_encoders_that_train_take_bytes_and_ids(home, tmp_path, tune):
    experiment = small(home, tune=tune, methods=("mmpareto", "synib-learned"))
    data = experiment.data(experiment.cells()[0])
    assert data.train.modalities["image"].dtype == torch.uint8
    assert data.train.modalities["text"].dtype == torch.int64
    assert "not frozen" in experiment.caution
    path = run(experiment, tmp_path, device="cpu", engine="solo")
    assert len(build(path)) > 0
    for cell in experiment.cells():
        assert {encoder.tune for encoder in experiment.model(cell, data).encoders.values()} == {tune}
        if cell.method.startswith("synib"):
            assert isinstance(experiment.method(cell, data), OnLatents)  # noise cannot be mixed into bytes and ids


def test_nothing_is_examined_without_test_memes(home):
    experiment = small(home)
    data = replace(experiment.data(Cell("search", "vanilla", experiment.searched_at(), {}, 0)), test=None)
    assert experiment.examine(experiment.cells()[0], None, data) == {}


@pytest.fixture
def copy(home, tmp_path):
    """The same folder, to spoil."""
    shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("synib-cache"))
    return tmp_path / "copy"


def refused(experiment, match):
    with pytest.raises(ValueError, match=match) as e:
        experiment.check()
    assert "\n" not in str(e.value)


def test_memes_without_pictures_are_named_and_left_out_only_on_request(copy):
    (copy / "hateful-memes" / "img" / "00003.png").unlink()
    (copy / "hateful-memes" / "img" / "00020.png").write_bytes(b"no picture")
    refused(small(copy), r"00003\.png is missing: download the images again, or .*skip_broken")
    experiment = small(copy, skip_broken=True)
    prepared = experiment._memes()
    assert len(prepared.data.train) == 15
    assert len(prepared.data.validation) == 7
    assert prepared.sizes["memes_skipped"] == 2
    assert "3" not in prepared.data.train.columns["id"]


def test_a_missing_jsonl_is_reported_with_where_to_get_it(copy):
    (copy / "hateful-memes" / "dev_unseen.jsonl").unlink()
    refused(small(copy), r"contains no dev_unseen\.jsonl .*download it from https://hatefulmemes")


def test_weights_that_cannot_be_loaded_are_reported(copy):
    refused(small(copy, vision=str(copy / "hateful-memes")), r"hateful-memes has no config\.json")
    refused(small(copy, vision=str(copy / "deberta")), "a model of type 'deberta-v2'; expected 'clip'")
    refused(small(copy, vision="nobody/no-such-clip"), r"'nobody/no-such-clip' is neither a folder nor a model")
    refused(small(copy, text="nobody/no-such-deberta"), "tokenizer of nobody/no-such-deberta .* not in the cache")
    refused(small(copy, text=str(copy / "none" / "at all")), "tokenizer of .*at all")


def test_a_tokenizer_of_another_model_is_refused(copy):
    save_tokenizer(copy / "deberta", ["[UNK]", "[PAD]", *WORDS[2:]])
    refused(small(copy), "pads with 1 .* they belong to different models")
    save_tokenizer(copy / "deberta", [*WORDS[:4], *(f"x{i}" for i in range(50)), *WORDS[4:]])
    refused(small(copy), "they belong to different models")
    for file in (copy / "deberta").glob("tokenizer*"):
        file.unlink()
    refused(small(copy), "tokenizer of .*deberta does not know most words")  # transformers makes one without words


def test_long_texts_are_cut_and_counted(home, tmp_path):
    experiment = small(home, longest=5, cache=str(tmp_path / "elsewhere"))
    prepared = experiment._memes()
    texts = [t for part in vars(load(home)).values() for t in part.texts]
    assert prepared.sizes["texts_cut"] == sum(len(t.split()) + 2 > 5 for t in texts) > 0
    assert values(prepared.data.train.modalities["text"]).shape[1] == 5
    assert (tmp_path / "elsewhere" / "tokens" / "latents.json").exists()
