"""Known regions, and how masks are measured against them."""

import math

import pytest
import torch

from synib.data import Split
from synib.masks import LearnedMask
from synib.models import FusionModel
from synib.objective import Bernoulli, SynIB
from synib.studies.digits.data import BAR, SIDE
from synib.studies.mask_recovery.regions import Picture, Region, agreement, kept_by, members, pictures, regions
from synib.studies.spurious_xor.data import spurious_xor

TASKS = ("spurious-xor", "pid-xor", "digits")
COORDINATES = torch.tensor([True, True, False, False])
SPLIT = Split({"x": torch.zeros(3, 4)}, torch.zeros(3), {"U1": torch.tensor([1, 1, 0]), "S": torch.tensor([0, 0, 1])})


def region(kept=True, sources=()):
    return Region("x", "cue", kept, COORDINATES, sources)


def test_a_perfect_mask_keeps_the_cue_and_nothing_else():
    kept = COORDINATES.expand(3, 4)
    assert agreement(region(), kept, SPLIT) == {"precision": 1.0, "recall": 1.0, "auroc": 1.0, "chance": 0.5}
    assert agreement(region(kept=False), kept, SPLIT) == {"precision": 0.0, "recall": 0.0, "auroc": 0.0, "chance": 0.5}


def test_precision_and_recall_count_coordinates_and_only_of_examples_that_hold_the_region():
    kept = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]).bool()
    scores = agreement(region(sources=("U1",)), kept, SPLIT)
    assert scores["precision"] == pytest.approx(3 / 4)
    assert scores["recall"] == pytest.approx(3 / 4)
    assert scores["auroc"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)  # kept 1, .5, .5 and 0 of the time
    assert agreement(region(sources=("S",)), kept, SPLIT)["recall"] == 0.0


def test_a_mask_that_keeps_nothing_finds_nothing_and_tells_nothing():
    scores = agreement(region(), torch.zeros(3, 4, dtype=torch.bool), SPLIT)
    assert (scores["precision"], scores["recall"], scores["auroc"]) == (0.0, 0.0, 0.5)


def test_examples_are_those_with_one_of_the_sources():
    assert members(SPLIT, ()).tolist() == [True, True, True]
    assert members(SPLIT, ("S",)).tolist() == [False, False, True]
    assert members(SPLIT, ("S", "U1")).tolist() == [True, True, True]


def test_regions_of_synthetic_tasks_are_the_blocks_of_their_data():
    blocks = spurious_xor(test=2).blocks
    found = {(r.modality, r.name): r.coordinates.nonzero().flatten().tolist() for r in regions("spurious-xor")}
    assert found == {
        key: list(blocks[key[0]][key[1]]) for key in (("x1", "shortcut"), ("x1", "signal"), ("x2", "signal"))
    }
    for r in regions("pid-xor"):
        assert int(r.coordinates.sum()) == 6
        assert r.sources == {"unique": ("U1",), "redundant": ("R",), "synergy": ("S",)}[r.name]
        assert r.kept == (r.name != "synergy")


def test_the_bars_are_the_two_edges_and_the_rest_holds_the_digit():
    by_name = {(r.modality, r.name): r.coordinates for r in regions("digits")}
    bar = by_name["image", "bar"].view(SIDE, SIDE)
    assert bar[:, :BAR].all()
    assert bar[:, -BAR:].all()
    assert not bar[:, BAR:-BAR].any()
    for modality, cue in (("image", "bar"), ("audio", "tone")):
        assert torch.equal(by_name[modality, "digit"], ~by_name[modality, cue])


@pytest.mark.parametrize("task", TASKS)
def test_pictures_show_every_coordinate_of_their_modality(task):
    widths = {r.modality: len(r.coordinates) for r in regions(task)}
    for picture in pictures(task):
        assert picture.height * picture.width == widths[picture.modality] == len(picture.marked)
        rows, columns = picture.shape
        names = {picture.column(i, j) for i in range(rows) for j in range(columns)}
        assert len(names) == rows * columns == math.prod(picture.shape)


def test_tiles_are_means_of_neighbours():
    picture = Picture("x", "all", "x", 2, 4, torch.zeros(8), (), (2, 2))
    assert picture.tiles(torch.arange(8)).tolist() == [[2.5, 4.5]]


def test_masks_are_searched_by_the_unimodal_heads_and_keep_what_these_rely_on():
    data = spurious_xor(test=2, validation=40)
    model = FusionModel.mlp(data.widths, hidden=[8], classes=1, head_hidden=[])
    method = SynIB(LearnedMask(steps=20, lr=1.0, sparsity=1e-2), weight=1.0, family=Bernoulli())
    encoder = next(layer for layer in model.encoders["x1"].modules() if isinstance(layer, torch.nn.Linear))
    with torch.no_grad():
        encoder.weight[:, :4] = 0.0
        encoder.weight[:, 10:] = 0.0  # the head sees the shortcut alone
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kept = kept_by(method, model, data, "x1", seed=0)
    assert kept.shape == (40, 64)
    assert kept[:, 4:10].any()
    assert not kept[:, :4].any()
    assert not kept[:, 10:].any()
    assert torch.equal(kept, kept_by(method, model, data, "x1", seed=0))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
