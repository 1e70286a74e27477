"""What every encoder must satisfy, and a few exact values."""

import io
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from synib.data.media import BrokenFile
from synib.own.raw import catalogue, images, sounds
from synib.own.raw.encoders import tfidf
from synib.own.raw.encoders.base import Encoder
from synib.own.raw.encoders.logmel import BANDS, log_mel
from synib.own.raw.encoders.onehot import OneHot, OneHotFitter
from synib.own.raw.encoders.pixels import Pixels
from synib.own.raw.encoders.tfidf import TfIdfFitter
from synib.own.raw.encoders.wordllama import WordLlama
from synib.own.raw.spec import RawModality

TEXTS = ["the cat sat", "a dog ran away", "the dog sat down", "cats and dogs", "ein Übermaß an Größe", "一 二 三", "?!"]
ROWS = [(30, "red"), (None, "blue"), (50, None), (40, "red")]


def encoder_and_items(name, make):
    kinds = {"wordllama": "text", "tfidf": "text", "onehot": "table", "pixels": "image", "logmel": "audio"}
    items = {
        "text": TEXTS,
        "table": ROWS,
        "image": [images.decode(make.png(red, seed)) for red in (True, False) for seed in (0, 1)],
        "audio": [sounds.decode(make.wav(low, seed)) for low in (True, False) for seed in (0, 1)],
    }[kinds[name]]
    modality = RawModality(kinds[name], ("age", "colour") if name == "onehot" else ("a",))
    made = catalogue.make(modality, name, False, "cpu")
    if not isinstance(made, Encoder):
        made.add(items)
        made = made.done()
    return modality, made, items


@pytest.mark.parametrize("name", ["wordllama", "tfidf", "onehot", "pixels", "logmel"])
def test_every_encoder_gives_a_row_for_each_item_whatever_is_beside_it_and_can_be_restored(name, make):
    modality, encoder, items = encoder_and_items(name, make)
    prepared = [encoder.prepare(item) for item in items]
    values = encoder.encode(prepared)
    assert values.shape == (len(items), encoder.width)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    alone = np.concatenate([encoder.encode([item]) for item in prepared])
    assert np.allclose(values, alone, atol=1e-6)
    assert len(np.unique(values, axis=0)) > 1
    again = catalogue.restore(modality, encoder.state(), False, "cpu")
    assert np.array_equal(again.encode(prepared), values)
    with pytest.raises(ValueError, match=f"The encoder {name} has changed since the model was fitted: revision"):
        catalogue.restore(modality, replace(encoder.state(), revision="other"), False, "cpu")


def test_wordllama_is_the_mean_of_the_embeddings_of_tokens():
    encoder = WordLlama()
    ids = encoder._loaded().encode("the cat sat", add_special_tokens=False).ids
    assert np.allclose(encoder.encode(["the cat sat"])[0], encoder._table[ids].mean(0), atol=1e-6)
    near, far = encoder.encode(["a kitten", "the stock market"]) @ encoder.encode(["a cat"])[0]
    assert near > far


def test_tfidf_gives_texts_without_known_words_zeros_and_the_same_numbers_every_time():
    fits = [TfIdfFitter() for _ in range(2)]
    for fit in fits:
        fit.add(TEXTS)
    first, second = (fit.done() for fit in fits)
    assert first.revision == second.revision
    assert not first.encode(["unheard words"]).any()
    empty = TfIdfFitter()
    empty.add(["?!", "..."])
    with pytest.raises(ValueError, match="no text has a word"):
        empty.done()


def test_a_table_is_standardised_with_indicators_for_categories_and_missing_values():
    fit = OneHotFitter(["age", "colour"])
    fit.add(ROWS[:2])
    fit.add(ROWS[2:])
    encoder = fit.done()
    deviation = np.std([30, 50, 40])
    #         age, missing, blue, red, missing
    expected = [[-10 / deviation, 0, 0, 1, 0], [0, 1, 1, 0, 0], [10 / deviation, 0, 0, 0, 1], [0, 0, 0, 1, 0]]
    assert np.allclose(encoder.encode(ROWS), expected, atol=1e-6)
    assert np.allclose(encoder.encode([("40", "green")]), [[0, 0, 0, 0, 0]], atol=1e-6)
    with pytest.raises(
        ValueError, match=r"age held numbers in training; got 'old'\. Write a number, or leave the cell empty"
    ):
        encoder.encode([("old", "red")])


def test_rare_categories_share_a_place():
    fit = OneHotFitter(["shop"])
    fit.add([(f"s{i}",) for i in range(100)] + [(f"s{i}",) for i in range(64)])
    encoder = fit.done()
    assert encoder.width == 65
    assert encoder.encode([("s99",), ("never seen",)])[:, 64].tolist() == [1, 1]


def test_a_table_with_mixed_kinds_or_without_values_is_refused():
    fit = OneHotFitter(["age"])
    fit.add([("30",), ("40",), ("unknown",)])
    with pytest.raises(ValueError, match="age has mixed kinds: numbers in most rows, but 'unknown' in another"):
        fit.done()
    empty = OneHotFitter(["age"])
    empty.add([(None,)])
    with pytest.raises(ValueError, match="no column of the table has a value"):
        empty.done()
    with pytest.raises(ValueError, match="a column of a table must have a mean or categories"):
        OneHot([{"name": "age"}])


def test_pixels_see_colours_and_the_direction_of_edges():
    from PIL import Image

    stripes = np.tile(np.repeat([0, 255], 8), 4).astype(np.uint8)
    upright = np.repeat(np.broadcast_to(stripes, (64, 64))[..., None], 3, 2)
    encoder = Pixels()
    one, other, red = (
        encoder.prepare(Image.fromarray(np.ascontiguousarray(x)))
        for x in (upright, upright.transpose(1, 0, 2), np.full((64, 64, 3), (255, 0, 0), np.uint8))
    )
    gradients = slice(192 + 64, None)
    assert one[gradients].reshape(16, 8)[:, 0].sum() > 0.9 * one[gradients].sum()  # across
    assert other[gradients].reshape(16, 8)[:, 4].sum() > 0.9 * other[gradients].sum()  # up and down
    assert red[192 + 48] == 1  # all pixels are of one colour
    assert not red[gradients].any()


def test_log_mel_finds_the_band_of_a_tone():
    wave = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000).astype(np.float32)
    bands = log_mel(wave)
    assert bands.shape == (98, BANDS)
    mel = 2595 * np.log10(1 + 1000 / 700)
    low, high = (2595 * np.log10(1 + f / 700) for f in (20, 8000))
    assert abs(bands.mean(0).argmax() - ((mel - low) / (high - low) * (BANDS + 1) - 1)) < 1
    assert log_mel(np.zeros(10, np.float32)).shape == (1, BANDS)


def test_images_are_decoded_upright_in_colour_and_with_all_their_bits(make):
    from PIL import Image

    file = io.BytesIO()
    image = Image.new("RGB", (8, 4))
    exif = image.getexif()
    exif[274] = 6  # lies on its side
    image.save(file, "JPEG", exif=exif)
    assert images.decode(file.getvalue()).size == (4, 8)
    file = io.BytesIO()
    Image.fromarray(np.array([[0, 60000], [30000, 60000]], np.uint16)).save(file, "PNG")
    assert np.asarray(images.decode(file.getvalue()))[..., 0].tolist() == [[0, 255], [127, 255]]
    for content in (b"", b"no image", make.png()[:60], make.wav()):
        with pytest.raises(BrokenFile):
            images.decode(content)


def test_sounds_become_one_channel_of_one_rate(make):
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.stack([np.ones(4410), -np.ones(4410)], 1) * 0.5, 44100, format="FLAC")
    wave = sounds.decode(file.getvalue())
    assert wave.rate == 16000
    assert len(wave.samples) == 1600
    assert not wave.samples.any()
    for content in (b"", b"no sound", make.png(), make.wav(seconds=0)):
        with pytest.raises(BrokenFile):
            sounds.decode(content)


def test_recordings_of_telephones_are_read_with_av(monkeypatch):
    av = pytest.importorskip("av")
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=44100)
        wave = (0.3 * np.sin(2 * np.pi * 440 * np.arange(44100) / 44100)).astype(np.float32)
        for start in range(0, 44100, 1024):
            frame = av.AudioFrame.from_ndarray(wave[None, start : start + 1024], format="fltp", layout="mono")
            frame.rate, frame.pts = 44100, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    samples = sounds.decode(file.getvalue()).samples
    assert 0.9 < len(samples) / 16000 < 1.2
    middle = samples[4000:12000]
    assert abs(np.abs(np.fft.rfft(middle)).argmax() * 16000 / 8000 - 440) < 5
    with pytest.raises(BrokenFile, match="is truncated: it has 300 bytes"):
        sounds.decode(file.getvalue()[:300])
    monkeypatch.setattr(sounds, "SECONDS", 0.5)
    with pytest.raises(BrokenFile, match=r"is longer than 0.5 seconds"):
        sounds.decode(file.getvalue())


def test_an_encoder_of_another_kind_or_of_no_kind_is_refused():
    text, table = RawModality("text", ("review",)), RawModality("table", ("age",))
    with pytest.raises(
        ValueError, match="The encoder pixels is for image; review:text needs one for text: wordllama, minilm"
    ):
        catalogue.make(text, "pixels", False, "cpu")
    with pytest.raises(ValueError, match="The encoder of a table is onehot; got 'bert'"):
        catalogue.make(table, "bert", False, "cpu")


def test_the_components_of_tfidf_are_the_leading_singular_vectors():
    from scipy.sparse.linalg import svds

    from synib.own.raw.encoders.tfidf import _leading, _matrix, _terms

    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(60)])
    share = 1 / np.arange(1, 61) / (1 / np.arange(1, 61)).sum()
    texts = [" ".join(rng.choice(words, 12, p=share)) for _ in range(200)]
    terms = sorted({term for text in texts for term in _terms(text)})
    matrix = _matrix(texts, {term: k for k, term in enumerate(terms)}, np.ones(len(terms), np.float32))
    ours = _leading(matrix, 8)
    _, values, theirs = svds(matrix, k=8)
    assert np.allclose(ours @ ours.T, np.eye(8), atol=1e-4)
    found = np.linalg.norm(matrix @ ours.T, axis=0)
    assert np.allclose(found, np.sort(values)[::-1], rtol=0.02)
    assert abs(ours[0] @ theirs[-1]) > 0.999


@pytest.mark.parametrize(("buckets", "most"), [(2**22, 20), (2**9, 20), (2**9, 100_000), (2**6, 3)])
def test_the_frequent_terms_of_tfidf_are_those_of_a_full_count(monkeypatch, buckets, most):
    draw = np.random.default_rng(0)
    chance = 1 / np.arange(1, 301)
    texts = [" ".join(f"w{k}" for k in draw.choice(300, 12, p=chance / chance.sum())) for _ in range(100)]
    monkeypatch.setattr(tfidf, "BUCKETS", buckets)
    monkeypatch.setattr(tfidf, "TERMS", most := min(most, buckets // 2))
    full = Counter(term for text in texts for term in set(tfidf._terms(text)))
    expected = sorted((t for t, n in full.items() if n > 1), key=lambda t: (-full[t], t))[:most]
    found = tfidf._frequent(texts)
    assert sorted(found, key=lambda t: (-found[t], t))[:most] == expected
    assert all(found[term] == full[term] for term in expected)
    once = tfidf._frequent([f"a{i} b{i}" for i in range(9)])
    assert sorted(once)[:2] == ["a0", "a0 b0"]
    assert set(once.values()) == {1}


def test_tfidf_has_more_numbers_where_there_are_more_texts():
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(300)]
    for texts, width in ((40, 32), (800, 50)):
        fitter = TfIdfFitter()
        fitter.add([" ".join(rng.choice(words, 30)) for _ in range(texts)])
        assert fitter.done().width == width


def test_without_the_package_texts_are_encoded_by_tfidf(monkeypatch):
    monkeypatch.setattr("synib.own.raw.encoders.wordllama.is_installed", lambda: False)
    assert catalogue.defaults("text") == ("tfidf",)
    with pytest.raises(ValueError, match=r"wordllama is not installed: pip install \"synib\[raw\]\""):
        WordLlama()
