"""Parts of rows of an audit: planted words and cells are found by models that were not trained on the rows."""

import csv
import re

import numpy as np
import pytest
import torch

from synib.data.media import BrokenFile
from synib.explanation.raw import audited
from synib.explanation.raw.audited import audit_parts
from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.raw.files import MediaFiles
from synib.own.table import Table, read

WORD = 4  # the place of the word in a text that decides together with the department
ONE_WORD, NO_TEXT = 60, 61  # rows of the table


def trained(path, modalities, **options):
    table = read(path, modalities=modalities, target="label", **options)
    return train(table, folds(table, 3), ["vanilla"], budget=1, epochs=40, device="cpu")


@pytest.fixture(scope="module")
def outcome(reviews, tmp_path_factory):
    """Models of the reviews, whose first row has no target; one text is a single word and one is missing."""
    folder = tmp_path_factory.mktemp("audited")
    with (reviews / "reviews.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    rows[ONE_WORD][0], rows[NO_TEXT][0] = "lovely", ""
    with (folder / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, [*rows[0][:-1], ""], *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNIB_CACHE", str(folder / "cache"))
        modalities = {"text": "review:text", "person": "age,department:table"}
        yield trained(folder / "reviews.csv", modalities, encoders={"text": "tfidf"})


@pytest.fixture(scope="module")
def of_media(media):
    return trained(media, {"photo": "photo:image", "sound": "sound:audio"})


def test_the_planted_word_and_column_have_the_highest_scores(outcome):
    rows = list(range(20, 40))
    parts = audit_parts(outcome, "vanilla", rows)
    assert list(parts.scores) == rows
    word = [parts.scores[row]["text"].together[0].argmax() == WORD for row in rows]
    column = [parts.scores[row]["person"].together[0].argmax() == 1 for row in rows]
    assert np.mean(word) > 0.8
    assert np.mean(column) > 0.8


def test_highlights_show_the_row_of_the_file_and_colour_the_planted_word_most(outcome):
    parts = audit_parts(outcome, "vanilla", [20])
    scores = parts.scores[20]["text"]
    assert scores.rows == (21,)
    highlighted = parts.views["text"].highlighted(21, scores.together[0])
    weights = re.findall(r'--w:([\d.]+)" title="[^"]*">([^<]*)<', highlighted)
    assert "".join(word for _, word in weights).endswith("number20")
    assert max(weights, key=lambda pair: float(pair[0]))[1] in ("lovely", "awful")


def test_a_mixture_that_takes_every_part_from_the_row_is_the_row_as_the_model_reads_it(outcome):
    views = audit_parts(outcome, "vanilla", [20]).views
    for name, view in views.items():
        parts = audited._Scaled(view, outcome.recipe.scaling(0), 21, np.arange(3))
        own = parts.swapped(0, 0, np.ones((1, parts.count(0)), bool))
        expected = outcome.recipe.inputs(0, np.array([20]))[name]
        expected = expected.values[:, 0] if name == "text" else expected  # texts may be missing
        assert torch.allclose(torch.from_numpy(own), expected, atol=1e-4)


def test_background_rows_are_complete_test_rows_of_the_same_fold(outcome):
    fold = next(i for i, part in enumerate(outcome.parts) if NO_TEXT in part.test)
    rows = outcome.parts[fold].test[:2]
    background = audited._background(outcome, fold, rows, 0)
    assert set(background) == set(outcome.parts[fold].test) - {*rows, NO_TEXT}


def test_a_text_of_one_word_has_no_scores_and_the_rest_of_its_row_does(outcome):
    scores = audit_parts(outcome, "vanilla", [ONE_WORD]).scores[ONE_WORD]
    assert [*scores] == ["person"]


def test_images_and_sounds_are_explained_and_broken_files_are_left_out(of_media, monkeypatch):
    found = audit_parts(of_media, "vanilla", [20])
    assert {name: s.draws for name, s in found.scores[20].items()} == {"photo": audited.FEW, "sound": audited.FEW}
    assert {name: s.together.shape for name, s in found.scores[20].items()} == {"photo": (1, 35), "sound": (1, 32)}
    assert all(np.isfinite(s.together).all() for s in found.scores[20].values())
    content = MediaFiles.content

    def broken(files, cell):
        if cell == "20.png":
            raise BrokenFile("is missing")
        return content(files, cell)

    monkeypatch.setattr(MediaFiles, "content", broken)
    assert [*audit_parts(of_media, "vanilla", [20]).scores[20]] == ["sound"]


def test_after_the_time_limit_no_further_row_is_explained(outcome, monkeypatch):
    monkeypatch.setattr(audited, "SECONDS", 1e-9)
    steps = []
    found = audit_parts(outcome, "vanilla", [22, 20], on_progress=lambda done, total, what: steps.append((done, total)))
    assert [*found.scores[22]] == ["text", "person"]
    assert found.scores[20] == {}
    assert steps == [(0, 2), (1, 2), (2, 2)]


def test_vectors_have_no_parts():
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    table = Table.from_arrays({"a": x[:, :2], "b": x[:, 2:]}, y)
    vectors = train(table, folds(table, 3), ["vanilla"], budget=1, epochs=1, device="cpu")
    assert audit_parts(vectors, "vanilla", [3]) == ({3: {}}, {})
