"""Clusters and directions that interact, with their typical rows."""

import numpy as np
import pytest
import torch

import synib
from synib.explanation import kinds
from synib.explanation.kinds import kinds_of_rows


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2, 200))
    a, b = 0.3 * rng.normal(size=(200, 3)), 0.3 * rng.normal(size=(200, 2))
    a[:, 0] += 2 * signs[0]
    b[:, 1] += 2 * signs[1]
    return signs, {"a": a, "b": b}


def test_clusters_of_an_xor_interact_and_their_rows_are_of_them(rows):
    signs, modalities = rows
    found = kinds(signs[0] * signs[1] + 3 * signs[0], modalities, clusters=2)
    assert len(found.cells) == 4
    for cell in found.cells:
        signs_there = signs[:, list(cell.rows)]
        assert (signs_there == signs_there[:, :1]).all()  # one cluster of each
        assert np.sign(cell.effect.value) == signs_there[0, 0] * signs_there[1, 0]
        assert abs(cell.effect.value) == pytest.approx(1, abs=0.4)  # without what a cluster has alone
        assert cell.effect.low <= cell.effect.value <= cell.effect.high
    (direction,) = kinds(signs[0] * signs[1], modalities, clusters=2).directions
    assert direction.correlation > 0.9
    assert direction.corners["high", "high"][0] * direction.corners["high", "low"][0] < 0
    assert "correlation" in str(found)


def test_a_row_without_a_modality_does_not_hide_the_kinds_of_the_others(rows):
    signs, modalities = rows
    interaction = signs[0] * signs[1]
    some = {**modalities, "a": modalities["a"].copy()}
    some["a"][7] = np.nan
    found = kinds(interaction, some, clusters=2)
    others = np.delete(np.arange(200), 7)
    expected = kinds(interaction[others], {name: x[others] for name, x in modalities.items()}, clusters=2)
    assert found.cells == expected.renumbered(others).cells
    assert found.directions[0].correlation > 0.9
    assert found.labels["a"][7] == found.labels["b"][7] == -1


def test_an_explanation_has_them(rows):
    _, modalities = rows
    found = synib.explain(lambda x: x["a"][:, :1] * x["b"][:, 1:], modalities, family=synib.Bernoulli())
    top = found.kinds(clusters=2).cells[0]
    assert abs(top.effect.value) > 2
    assert top.effect.low * top.effect.high > 0
    with pytest.raises(ValueError, match="number of an output, from 0 to 0; got 1"):
        found.kinds(of=1)


def test_of_a_predicted_number_its_mean_is_described_and_not_its_variance(rows):
    _, modalities = rows

    def model(x):
        return torch.cat([x["a"][:, :1] * x["b"][:, 1:], torch.ones(len(x["a"]), 1)], 1)

    found = synib.explain(model, modalities, family=synib.Gaussian(1))
    assert abs(found.kinds(clusters=2).cells[0].effect.value) > 2
    assert found.output() == "predicted number 0"


@pytest.mark.parametrize(
    ("family", "outputs", "classes", "name"),
    [
        (synib.Bernoulli(), 1, ("no", "yes"), "yes"),
        (synib.Categorical(), 3, ("a", "b", "c"), "c"),
        (synib.MultiLabel(), 1, ("rain",), "rain"),
        (synib.Categorical(), 3, (), "2"),
    ],
)
def test_the_described_output_has_a_name(rows, family, outputs, classes, name):
    found = synib.explain(lambda x: x["a"][:, :1].repeat(1, outputs), rows[1], family=family, classes=classes)
    assert found.output() == name


def test_a_notebook_shows_pairs_of_clusters_and_directions(rows):
    signs, modalities = rows
    text = kinds(signs[0] * signs[1], {"<a>": modalities["a"], "b": modalities["b"]}, clusters=2)._repr_html_()
    assert text.count("<table>") == 2
    assert "&lt;a&gt;, cluster 1 × b, cluster 2" in text
    assert "&lt;a&gt;, high × b, low" in text
    assert "<a>" not in text


def test_kinds_of_some_rows_of_a_table_get_its_row_numbers(rows):
    signs, modalities = rows
    found = kinds(signs[0] * signs[1], modalities, clusters=2)
    moved = found.renumbered(1000 + 2 * np.arange(200))
    assert moved.cells[0].rows == tuple(1000 + 2 * row for row in found.cells[0].rows)
    (before,), (after,) = found.directions, moved.directions
    for sides, (effect, typical) in before.corners.items():
        assert after.corners[sides] == (effect, tuple(1000 + 2 * row for row in typical))


def test_without_an_interaction_no_interval_excludes_0(rows):
    noise = np.random.default_rng(1).normal(size=200)
    assert all(cell.effect.low < 0 < cell.effect.high for cell in kinds(noise, rows[1], clusters=2).cells)


def test_a_mistake_is_one_sentence(rows):
    with pytest.raises(ValueError, match="one number for each row"):
        kinds(np.zeros((200, 2)), rows[1])
    with pytest.raises(ValueError, match="4 clusters need as many rows with every modality; got 3"):
        kinds(np.zeros(3), {name: x[:3] for name, x in rows[1].items()})


class Reads:
    """Rows of a modality that are read on demand; remembers the most rows that were read at once."""

    def __init__(self, x):
        self.x, self.shape, self.most = torch.from_numpy(x), x.shape, 0

    def __getitem__(self, rows):
        self.most = max(self.most, len(rows))
        return self.x[rows]


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_that_are_read_in_blocks_have_the_same_kinds(rows, precision):
    signs, modalities = rows
    many = {name: np.tile(x, (20, 1)).astype(precision) for name, x in modalities.items()}
    interaction = np.tile(signs[0] * signs[1], 20)
    read = {name: Reads(x) for name, x in many.items()}
    found, expected = kinds_of_rows(interaction, read), kinds(interaction, many)
    assert found.cells == expected.cells
    assert found.directions == expected.directions
    assert all(np.array_equal(found.labels[name], label) for name, label in expected.labels.items())
    assert max(x.most for x in read.values()) <= len(interaction) / 3


def test_a_row_without_a_modality_is_left_out_where_rows_are_read_in_blocks(rows):
    signs, modalities = rows
    modalities["a"][7] = np.nan
    read = {name: Reads(x) for name, x in modalities.items()}
    found = kinds_of_rows(signs[0] * signs[1], read, clusters=2)
    assert found.cells == kinds(signs[0] * signs[1], modalities, clusters=2).cells
