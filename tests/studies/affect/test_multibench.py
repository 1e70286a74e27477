"""MOSI, MUStARD and UR-FUNNY from pickles in MultiBench's form that the tests write."""

import pickle

import numpy as np
import pytest
import torch

from synib import Tokens
from synib.data.files import check
from synib.studies.affect import multibench

STEPS, WIDTHS = 50, {"vision": 6, "audio": 5, "text": 7}
LOADERS = {"mosi_raw.pkl": multibench.mosi, "sarcasm.pkl": multibench.mustard, "humor.pkl": multibench.ur_funny}


def part(n, seed, name):
    draw = np.random.default_rng(seed)
    start = draw.integers(0, STEPS - 3, n)
    there = np.arange(STEPS) >= start[:, None]
    x = {m: draw.normal(1.0, 2.0, (n, STEPS, w)) * there[:, :, None] for m, w in WIDTHS.items()}
    labels = draw.choice([-2.2, 0.0, 1.4], (n, 1, 1))
    return {**x, "labels": labels, "id": np.array([f"{name}_{i // 2}[{i}]" for i in range(n)], object)}


@pytest.fixture
def content():
    return {name: part(n, i, name) for i, (name, n) in enumerate((("train", 9), ("valid", 5), ("test", 4)))}


@pytest.fixture
def write(tmp_path):
    def write(content, name="mosi_raw.pkl", protocol=4):
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=protocol))
        return tmp_path

    return write


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_every_data_set_is_read_as_sequences_of_vision_and_text(content, write, name, protocol):
    data = LOADERS[name](write(content, name, protocol))
    assert [len(data.train), len(data.validation), len(data.test)] == [9, 5, 4]
    assert data.widths == {"vision": 6, "text": 7}
    for split in (data.train, data.validation, data.test):
        assert set(split.target.tolist()) <= {0, 1}
        for x in split.modalities.values():
            assert isinstance(x, Tokens)
            assert x.values.shape[:2] == x.padding.shape == (len(split), STEPS)
            assert x.values.dtype == torch.float32
            assert not x.values[x.padding].any()


def test_every_modality_starts_at_the_first_word_and_the_rest_is_padding(content, write):
    data = multibench.mosi(write(content), modalities=("vision", "audio", "text"))
    for i, text in enumerate(content["train"]["text"]):
        start = next(t for t in range(STEPS) if text[t].any())
        for name, x in data.train.modalities.items():
            raw = torch.tensor(content["train"][name][i, start:], dtype=torch.float32)
            assert torch.equal(x.values[i, : STEPS - start], raw)
            assert x.padding[i].tolist() == [t >= STEPS - start for t in range(STEPS)]


def test_the_first_word_decides_also_where_vision_began_earlier_or_words_are_empty_in_between(content, write):
    one = content["train"]
    one["text"][0] = 0
    one["text"][0, 10], one["text"][0, 20] = 1, 2
    one["vision"][0] = np.arange(STEPS)[:, None]
    x = multibench.mosi(write(content)).train.modalities
    assert x["vision"].values[0, :3, 0].tolist() == [10, 11, 12]
    assert x["text"].values[0, [0, 5, 10], 0].tolist() == [1, 0, 2]
    assert int((~x["text"].padding[0]).sum()) == 40


def test_examples_without_text_are_dropped_with_their_labels_and_ids(content, write):
    content["train"]["text"][[0, 4]] = 0
    content["train"]["labels"][:] = -1
    content["train"]["labels"][1] = 1
    train = multibench.mosi(write(content)).train
    assert len(train) == 7
    assert train.target.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert train.columns["id"] == [f"train_{i // 2}[{i}]" for i in (1, 2, 3, 5, 6, 7, 8)]


def test_numbers_that_are_not_finite_are_zero(content, write):
    content["train"]["vision"][0, -1, :4] = [np.nan, np.inf, -np.inf, -1e300]
    content["train"]["text"][1, -1, 0] = np.nan
    root = write(content)
    for loader, name in ((multibench.mosi, "mosi_raw.pkl"), (multibench.mustard, "sarcasm.pkl")):
        write(content, name)
        assert all(x.values.isfinite().all() for x in loader(root).train.modalities.values())
    x = multibench.mosi(root).train.modalities["vision"]
    last = int((~x.padding[0]).sum()) - 1
    assert x.values[0, last, :4].tolist() == [0, 0, 0, 0]


def test_labels_are_one_above_zero(content, write):
    for labels in ([-1, 1, -1, 1], [0, 1, 0, 1], [-3.0, 0.2, 0.0, 3.0]):
        content["test"]["labels"] = np.array(labels)
        assert multibench.ur_funny(write(content, "humor.pkl")).test.target.tolist() == [0, 1, 0, 1]


def test_mustard_alone_is_z_scored_over_the_steps_of_each_example(content, write):
    content["train"]["vision"][:, :, 2] = 1e3  # does not change
    x = multibench.mustard(write(content, "sarcasm.pkl")).train.modalities["vision"]
    for v, padding in zip(x.values, x.padding, strict=True):
        there = v[~padding].double()
        change = torch.tensor([i != 2 for i in range(6)])
        assert there.mean(0).abs().max() < 1e-5
        assert torch.allclose(there.std(0, correction=0)[change], torch.ones(5, dtype=torch.float64), atol=1e-4)
        assert not there[:, 2].any()
    plain = multibench.mosi(write(content)).train.modalities["vision"]
    assert plain.values[:, :, 2].max() == 1e3


def test_small_numbers_are_z_scored_like_large_ones(content, write):
    large = multibench.mustard(write(content, "sarcasm.pkl")).train.modalities["text"].values
    for one in content.values():
        one["text"] = one["text"] * 1e-9
    small = multibench.mustard(write(content, "sarcasm.pkl")).train.modalities["text"].values
    assert torch.allclose(small, large, atol=1e-3)


def test_a_video_or_an_example_in_two_splits_is_refused(content, write):
    content["test"]["id"][0] = "train_0[77]"
    with pytest.raises(ValueError, match="Every video must be in one split only; train_0 is in both train and test"):
        multibench.mosi(write(content))
    assert len(multibench.ur_funny(write(content, "humor.pkl")).test) == 4
    content["test"]["id"][0] = "train_0[0]"
    with pytest.raises(ValueError, match=r"Every example .*; train_0\[0\] is in both train and test"):
        multibench.ur_funny(write(content, "humor.pkl"))


@pytest.mark.parametrize("ids", [np.arange(9), [[0], [1], [2], [3], [4], [5], [6], [7], [8]], None])
def test_ids_that_are_numbers_or_none_are_no_names(content, write, ids):
    content["train"]["id"] = ids
    assert multibench.mosi(write(content)).train.columns == {}


def test_ids_may_be_a_video_with_its_times(content, write):
    content["train"]["id"] = np.array([["video", f"{i}.5", f"{i + 1}.5"] for i in range(9)])
    assert multibench.mosi(write(content)).train.columns["id"][0] == "video/0.5/1.5"
    content["test"]["id"] = [("video", "90.5", "91.0")] * 4
    with pytest.raises(ValueError, match="video is in both train and test"):
        multibench.mosi(write(content))


def doubling(levels=25):
    """A list that would be 2**25 texts long, if somebody wrote it out."""
    return ["x"] if levels == 0 else [doubling(levels - 1)] * 2


def wrong(change):
    def apply(content):
        change(content)
        return content

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: [], "must contain a dict of train, valid, test, each a dict of arrays; got list"),
        (lambda c: {"train": {}}, "got train"),
        (wrong(lambda c: c["valid"].pop("text")), r"valid: text must be an array of numbers \(.*\); got none"),
        (wrong(lambda c: c["test"].update(text=np.zeros((4, 7)))), r"text must be .*; got float64 \(4, 7\)"),
        (wrong(lambda c: c["test"].update(text=np.array([["a"]]))), "text must be"),
        (
            wrong(lambda c: c["test"].update(text=np.zeros((4, STEPS, 7)))),
            "test: every example has a text of zeros only",
        ),
        (wrong(lambda c: c["test"].update(labels=np.zeros(3))), r"labels must be 4 finite numbers.*; got float64"),
        (wrong(lambda c: c["test"].update(labels=np.full(4, np.nan))), "labels must be 4 finite"),
        (wrong(lambda c: c["test"].update(labels=[1, 0, 1, 0])), "got list"),
        (
            wrong(lambda c: c["test"].update(id=["a", ["b", "c"], "d"])),
            "there must be one id for each of 4 texts; got 3",
        ),
        (
            wrong(lambda c: c["test"].update(id=[["a", doubling()]] * 4)),
            "An id must be a string or a number.*; got list",
        ),
        (
            wrong(lambda c: c["test"].update(vision=np.ones((4, 3, 6)))),
            r"vision has shape \(4, 3, 6\) but text has \(4, 50, 7\)",
        ),
    ],
)
def test_a_file_in_another_form_is_refused(content, write, change, message):
    with pytest.raises(ValueError, match=message):
        multibench.mosi(write(change(content)))


@pytest.mark.parametrize("modalities", ["text", ("text", "text"), ("text", "video")])
def test_modalities_are_at_least_two_of_those_in_the_file(tmp_path, modalities):
    with pytest.raises(ValueError, match="modalities must be at least two of vision, audio, text; got"):
        multibench.mosi(tmp_path, modalities=modalities)


def test_a_payload_in_place_of_the_data_is_refused(write):
    root = write(print)
    with pytest.raises(ValueError, match=r"mosi_raw\.pkl cannot be read: it requests builtins\.print"):
        multibench.mosi(root)
    assert check(multibench.MOSI, root).findings[0].state == "broken"


def test_a_check_says_how_many_examples_there_are_and_how_wide(content, write):
    content["train"]["text"][0] = 0
    result = check(multibench.MOSI, write(content, "mosi_data.pkl"))
    assert result.complete
    widths = "(vision 6, audio 5, text 7)"
    assert result.findings[0].details == f"train 8 of 9 {widths}; valid 5 of 5 {widths}; test 4 of 4 {widths}"
