import os
from dataclasses import replace

import pytest
import torch

pytest.importorskip("transformers")

from synib import RandomMask, StandardNoise, SynIB
from synib.data import Dataset, Split
from synib.models import cache_features
from synib.tokens import take, values


@pytest.fixture
def data(meme_batch):
    def split(rows):
        return Split(*meme_batch(rows), columns={"id": list(range(rows))})

    return Dataset(split(11), split(4), split(5), blocks={"image": {"all": range(3)}})


def count(model):
    """How many batches each encoder has seen."""
    seen = dict.fromkeys(model.names, 0)

    def note(name):
        seen[name] += 1

    for name, encoder in model.encoders.items():
        encoder.register_forward_hook(lambda *_, name=name: note(name))
    return seen


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 5e-3)])
def test_cached_is_uncached(memes, data, tmp_path, key, dtype, tolerance):
    model = memes("frozen")
    cached, behind = cache_features(model, data, tmp_path, batch_size=4, dtype=dtype)
    assert behind.fusion is model.fusion
    assert torch.equal(cached.train.target, data.train.target)
    assert cached.train.columns == data.train.columns
    assert cached.blocks == {}
    for split in ("train", "validation", "test"):
        before, after = getattr(data, split), getattr(cached, split)
        torch.testing.assert_close(behind(after.modalities), model(before.modalities), rtol=tolerance, atol=tolerance)
        assert values(after.modalities["image"]).dtype == getattr(torch, dtype)
    rows = torch.tensor([7, 2, 9])
    batches = [{name: take(x, rows) for name, x in d.train.modalities.items()} for d in (data, cached)]
    y = data.train.target[rows]
    objective = SynIB(RandomMask(0.5), StandardNoise())
    plain = objective(model.on_latents(), model.encode_all(batches[0]), y, key=key)[0]
    on_cached = objective(behind, batches[1], y, key=key)[0]
    torch.testing.assert_close(on_cached, plain, rtol=10 * tolerance, atol=tolerance)
    on_cached.backward()
    assert all(p.grad is not None for p in model.fusion.parameters())


def test_what_is_there_is_not_computed_again(memes, data, tmp_path):
    model = memes("frozen")
    seen = count(model)
    said = []
    first, _ = cache_features(model, data, tmp_path, batch_size=4, on_batch=lambda *n: said.append(n))
    assert seen == {"image": 6, "text": 6}
    assert said == [(i, 12) for i in range(1, 13)]
    again, _ = cache_features(model, data, tmp_path, batch_size=4)
    assert seen == {"image": 6, "text": 6}
    assert torch.equal(values(again.train.modalities["text"]), values(first.train.modalities["text"]))


def test_another_weight_or_other_data_are_computed_anew_and_nothing_else(memes, data, tmp_path):
    model = memes("frozen")
    seen = count(model)
    cache_features(model, data, tmp_path)
    files = set(tmp_path.iterdir())
    with torch.no_grad():
        next(model.encoders["text"].parameters())[3, 0] += 1.0
    cached, behind = cache_features(model, data, tmp_path)
    assert seen == {"image": 3, "text": 6}
    torch.testing.assert_close(behind(cached.test.modalities), model(data.test.modalities), rtol=5e-3, atol=5e-3)
    assert seen == {"image": 4, "text": 7}  # the last one was the comparison's
    assert len(set(tmp_path.iterdir())) == len(files)  # what nobody needs is gone
    data.validation.modalities["image"][1, 0, 2, 2] ^= 1
    cache_features(model, data, tmp_path)
    assert seen == {"image": 5, "text": 7}


def test_an_array_that_was_damaged_or_removed_is_computed_anew(memes, data, tmp_path):
    model = memes("frozen")
    seen = count(model)
    first, _ = cache_features(model, data, tmp_path)
    want = values(first.train.modalities["image"]).clone()
    (array,) = (path for path in tmp_path.glob("train-image-*.npy") if "padding" not in path.name)
    content = bytearray(array.read_bytes())
    content[-2] ^= 1
    array.write_bytes(content)
    os.utime(array, ns=(1, 1))
    next(tmp_path.glob("test-text-padding-*.npy")).unlink()
    with pytest.warns(UserWarning, match=rf"{array.name} is damaged and is computed again"):
        again, _ = cache_features(model, data, tmp_path)
    assert seen == {"image": 4, "text": 4}
    assert torch.equal(values(again.train.modalities["image"]), want)


def test_vectors_may_take_the_place_of_tokens(memes, data, tmp_path):
    model = memes("frozen")
    cache_features(model, data, tmp_path)
    model.encoders["image"] = torch.nn.Flatten()
    for _ in range(2):
        cached, _ = cache_features(model, replace(data, test=None), tmp_path, dtype="float32")
        assert torch.equal(cached.train.modalities["image"], data.train.modalities["image"].flatten(1).float())
        assert cached.test is None


def test_modes_are_put_back(memes, data, tmp_path):
    model = memes("full", text={"hidden_dropout_prob": 0.5}).train()
    model.encoders.requires_grad_(False)
    modes = {name: m.training for name, m in model.named_modules()}
    cached, behind = cache_features(model, data, tmp_path)
    assert {name: m.training for name, m in model.named_modules()} == modes
    model.eval()
    torch.testing.assert_close(behind(cached.test.modalities), model(data.test.modalities), rtol=5e-3, atol=5e-3)


def test_what_cannot_be_cached_is_one_sentence(memes, data, tmp_path):
    model = memes("frozen")
    for tune in ("full", "lora"):
        with pytest.raises(
            ValueError,
            match=r"The encoder of 'image' is trainable \(\d+ parameters require a gradient\), so its latents",
        ):
            cache_features(memes(tune), data, tmp_path)
    with pytest.raises(ValueError, match=r"dtype must be 'float16' or 'float32'; got 'int8'\."):
        cache_features(model, data, tmp_path, dtype="int8")
    with pytest.raises(ValueError, match=r"data must be a Dataset; got 3\."):
        cache_features(model, 3, tmp_path)
    only = Split({"image": data.train.modalities["image"]}, data.train.target)
    with pytest.raises(ValueError, match=r"The model has a modality 'text', but the train data do not\."):
        cache_features(model, Dataset(only, only, None), tmp_path)
    with torch.no_grad():
        for p in model.encoders["text"].parameters():
            p.mul_(1e6)
    with pytest.raises(ValueError, match=r"too large for float16 \(up to .*\): use dtype='float32'\."):
        cache_features(model, data, tmp_path)
