"""Hateful Memes: jsonl files, pictures, and paths that stay in their folder."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.data.media import BrokenFile
from synib.studies.hateful_memes.files import (
    HATEFUL_MEMES,
    dataset,
    load,
    picture_bytes,
    read_memes,
    read_picture,
)

Image = pytest.importorskip("PIL.Image")


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "hateful-memes"
    (folder / "img").mkdir(parents=True)
    start = 0
    for name, n in (("train", 5), ("dev_unseen", 3), ("test_seen", 4)):
        records = []
        for i in range(start, start + n):
            Image.new("RGB", (8 + i, 6), (10 * i, 0, 0)).save(folder / "img" / f"{i:05}.png")
            records.append({"id": i, "img": f"img/{i:05}.png", "label": i % 2, "text": f"text\u2028 {i}"})
        write(folder / f"{name}.jsonl", records)
        start += n
    return folder


def test_records_hold_pictures_texts_and_labels(root):
    for given in (root, root.parent):
        data = load(given)
        assert [len(part) for part in (data.train, data.validation, data.test)] == [5, 3, 4]
        assert data.validation.ids == ("5", "6", "7")
        assert data.validation.labels.tolist() == [1, 0, 1]
        assert data.validation.texts[1] == "text\u2028 6"  # a line's end to Python, not to jsonl
        assert data.test.images[0] == root / "img" / "00008.png"


@pytest.mark.parametrize("mode", ["P", "RGBA", "L", "CMYK"])
def test_pictures_of_every_kind_become_red_green_and_blue(tmp_path, mode):
    ending = "jpg" if mode == "CMYK" else "png"
    Image.new("RGBA", (5, 4), (200, 200, 200, 255)).convert(mode if mode != "CMYK" else "RGB").convert(mode).save(
        tmp_path / f"a.{ending}"
    )
    image = read_picture(tmp_path / f"a.{ending}")
    assert (image.mode, image.size) == ("RGB", (5, 4))


def test_a_table_of_colours_with_a_transparent_one_is_read_without_a_warning(tmp_path):
    image = Image.new("P", (4, 4))
    image.putpalette([255, 0, 0] + [0] * 765)
    image.save(tmp_path / "a.png", transparency=bytes([0, 255]))
    assert read_picture(tmp_path / "a.png").getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("img", ["../secret.png", "/etc/hostname", "img/../../secret.png", "img/link.png"])
def test_a_path_that_leaves_the_folder_is_refused(root, img):
    Image.new("RGB", (2, 2)).save(root.parent / "secret.png")
    (root / "img" / "link.png").symlink_to(root.parent / "secret.png")
    write(root / "train.jsonl", [{"id": 1, "img": img, "label": 0, "text": ""}])
    with pytest.raises(ValueError, match="points outside of"):
        load(root)
    with pytest.raises(ValueError, match="points outside of"):
        load(root, skip_broken=True)


@pytest.mark.parametrize(
    "harm", [lambda b: b[: len(b) // 2], lambda b: b"GIF89a" + b, lambda _: b"", lambda b: b[:50] + b"xx" + b[52:]]
)
def test_a_broken_picture_is_named_and_left_out_only_on_request(root, harm):
    path = root / "img" / "00003.png"
    path.write_bytes(harm(path.read_bytes()))
    train = load(root).train
    with pytest.raises(BrokenFile, match=r"00003\.png (is damaged or truncated|is not a png or jpeg)"):
        [read_picture(image) for image in train.images]
    kept = load(root, skip_broken=True).train
    assert kept.ids == ("0", "1", "2", "4")
    assert list(kept.skipped) == ["3"]
    assert kept.labels.tolist() == [0, 1, 0, 0]
    assert len([read_picture(image) for image in kept.images]) == 4


def test_a_picture_that_unpacks_to_too_much_is_refused(root, monkeypatch):
    monkeypatch.setattr("synib.studies.hateful_memes.files.MAX_PIXELS", 40)
    with pytest.raises(BrokenFile, match="has 8 × 6 pixels, more than the 40 allowed"):
        read_picture(root / "img" / "00000.png")


VALID = {"id": 1, "img": "img/00000.png", "label": 0, "text": "a"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"train\.jsonl, line 2: expected a JSON object; got '\{'"),
        ("[1]", "line 2: expected a JSON object"),
        (json.dumps(VALID | {"label": 2}), "line 2: a label must be 0 or 1; got 2"),
        (json.dumps(VALID | {"label": True}), "label must be 0 or 1; got True"),
        (json.dumps({k: v for k, v in VALID.items() if k != "label"}), "label must be 0 or 1; got none"),
        (json.dumps(VALID | {"text": None}), "line 2: a meme must have an id, a path img and a text"),
        (json.dumps(VALID | {"id": 0}), "line 2: meme 0 is listed twice"),
    ],
)
def test_an_invalid_line_is_named(root, line, message):
    write(root / "train.jsonl", [VALID | {"id": 0}])
    with (root / "train.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=message):
        load(root)


def test_a_file_without_memes_or_that_is_no_text_or_missing_is_refused(root):
    (root / "train.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"train\.jsonl has no meme\."):
        load(root)
    (root / "train.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        load(root)
    (root / "train.jsonl").unlink()
    with pytest.raises(ValueError, match=r"contains no train\.jsonl .*: download it from https://hatefulmemes"):
        load(root)
    with pytest.raises(ValueError, match=r"none\.jsonl is missing"):
        read_memes(root / "none.jsonl")


class Tokenizer:
    """Called as transformers' tokenizers are: a number for each word's length, with 1 before and 2 behind."""

    pad_token_id = 9

    def __call__(self, texts, truncation=False, max_length=None):
        whole = [[len(word) for word in text.split()] for text in texts]
        kept = [ids[: max_length - 2] if truncation else ids for ids in whole]
        return {"input_ids": [[1, *ids, 2] for ids in kept]}


def test_a_data_set_has_bytes_token_ids_and_what_is_known_of_each_meme(root, tmp_path):
    data = dataset(load(root), Tokenizer(), tmp_path / "cache", size=4)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [5, 3, 4]
    assert data.train.modalities["image"].shape == (5, 3, 4, 4)
    assert data.train.modalities["image"].dtype == torch.uint8
    assert data.train.modalities["image"][:, :, 0, 0].tolist() == [[10 * i, 0, 0] for i in range(5)]
    assert data.train.modalities["text"].tolist() == [[1, 4, 1, 2]] * 5
    assert data.test.modalities["text"].tolist() == [[1, 4, 1, 2]] * 2 + [[1, 4, 2, 2]] * 2  # "text 10"
    assert data.validation.target.tolist() == [1, 0, 1]
    assert data.validation.columns == {"id": ("5", "6", "7"), "tokens": [4, 4, 4]}


def test_texts_are_padded_to_the_longest_of_all_splits_and_cut_where_they_are_longer_than_allowed(root, tmp_path):
    record = {"id": 5, "img": "img/00005.png", "label": 0, "text": "a b c d e"}
    write(root / "dev_unseen.jsonl", [record])
    data = dataset(load(root), Tokenizer(), tmp_path, size=4)
    assert data.validation.modalities["text"].tolist() == [[1, 1, 1, 1, 1, 1, 2]]
    assert data.train.modalities["text"][0].tolist() == [1, 4, 1, 2, 9, 9, 9]
    cut = dataset(load(root), Tokenizer(), tmp_path, size=4, longest=5)
    assert cut.validation.modalities["text"].tolist() == [[1, 1, 1, 1, 2]]
    assert cut.train.modalities["text"][0].tolist() == [1, 4, 1, 2, 9]
    assert cut.validation.columns["tokens"] == [7]


def test_pictures_are_decoded_once_until_they_change(root, tmp_path, monkeypatch):
    before = dataset(load(root), Tokenizer(), tmp_path, size=4)
    read = []
    monkeypatch.setattr(
        "synib.studies.hateful_memes.files.picture_bytes",
        lambda path, size: read.append(path) or picture_bytes(path, size),
    )
    again = dataset(load(root), Tokenizer(), tmp_path, size=4)
    assert not read
    assert torch.equal(again.train.modalities["image"], before.train.modalities["image"])
    Image.new("RGB", (30, 30), (255, 255, 255)).save(root / "img" / "00002.png")
    changed = dataset(load(root), Tokenizer(), tmp_path, size=4)
    assert [path.name for path in read] == ["00002.png"]
    assert changed.train.modalities["image"][2].min() == 255
    dataset(load(root), Tokenizer(), tmp_path, size=6)
    assert len(read) == 13  # another size is another array


@pytest.mark.parametrize("shape", [(60, 40), (37, 53), (16, 16)])
def test_bytes_are_those_of_clips_own_processor(tmp_path, shape):
    transformers = pytest.importorskip("transformers")
    x = np.linspace(0, 6, shape[0])[None, :] + np.linspace(0, 4, shape[1])[:, None]
    pixels = np.stack([127 + 120 * np.sin(x + k) for k in range(3)], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, do_rescale=False, do_normalize=False
    )
    theirs = processor(images=[read_picture(tmp_path / "a.png")], return_tensors="pt")["pixel_values"][0].float()
    ours = torch.from_numpy(picture_bytes(tmp_path / "a.png", 16)).float()
    assert (ours - theirs).abs().mean() < 4
    assert (ours - theirs).abs().max() < 20


def test_a_picture_that_cannot_be_decoded_is_named_with_how_many_more(root, tmp_path):
    for name in ("00001", "00003"):
        (root / "img" / f"{name}.png").write_bytes(b"no picture")
    said = r"00001\.png is not a png or jpeg, and 1 more: download the images again, or .* skip_broken=True"
    with pytest.raises(ValueError, match=said):
        dataset(load(root), Tokenizer(), tmp_path)


def test_a_meme_in_two_splits_and_a_tokenizer_that_does_not_pad_are_refused(root, tmp_path):
    tokenizer = Tokenizer()
    tokenizer.pad_token_id = None
    with pytest.raises(ValueError, match="pad_token_id is None"):
        dataset(load(root), tokenizer, tmp_path)
    shutil.copy(root / "train.jsonl", root / "dev_unseen.jsonl")
    with pytest.raises(ValueError, match="Every meme must be in one split only"):
        dataset(load(root), Tokenizer(), tmp_path)


def test_the_source_finds_what_is_there(root):
    found = check(HATEFUL_MEMES, root)
    assert found.complete
    assert len(found.findings[3].paths) == 12


def test_without_pillow_it_is_said_what_to_install(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "synib\[vision\]"'):
        read_picture(root / "img" / "00000.png")
