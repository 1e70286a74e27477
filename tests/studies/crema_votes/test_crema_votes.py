"""CREMA-D from its crowd votes: the table, the splits, the groups, and both experiments."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.files import read_json
from synib.report import build
from synib.studies import CremaVotesEmotion, CremaVotesLevel, run
from synib.studies.crema_votes import experiment as module
from synib.studies.crema_votes.data import FOLDS, crema_votes, read_votes, split_rows


@pytest.fixture
def root(crema_votes_root):
    yield crema_votes_root
    module._data.cache_clear()
    read_votes.cache_clear()


def test_every_actor_is_tested_once_and_splits_have_one_size_in_all_folds(root):
    table = read_votes(root / "crema-d" / "tabulatedVotes.csv")
    tested = []
    for fold in range(FOLDS):
        data = crema_votes(root, "level", fold)
        assert [len(data.train), len(data.validation), len(data.test)] == [216, 72, 72]
        assert all(x.mean(0).abs().max() < 1e-4 for x in data.train.modalities.values())  # by training statistics
        rows = split_rows(table.actors, np.ones(360, bool), fold)
        people = {name: {table.actors[i] for i in at} for name, at in rows.items()}
        assert {name: len(who) for name, who in people.items()} == {"train": 9, "validation": 3, "test": 3}
        assert len(set.union(*people.values())) == 15
        tested.append(people["test"])
        spread = table.levels["both"][rows["train"]]
        expected = (table.levels["both"][rows["test"]] - spread.mean()) / spread.std()
        assert data.test.target[:, 0].numpy() == pytest.approx(expected, abs=1e-4)
    assert set.union(*tested) == set(table.actors)


def test_the_target_is_the_joint_judgement_and_groups_say_where_the_modalities_alone_do_not_tell_it(root):
    table = read_votes(root / "crema-d" / "tabulatedVotes.csv")
    data = crema_votes(root, "emotion", 0)
    split = data.test
    assert set(data.widths.values()) == {7}
    assert split.target.dtype == torch.long
    winner = {name: split.modalities[name][:, :6] for name in ("voice", "face")}
    assert len(split) < 73
    assert split.groups["disagree"].float().mean() > 0.2
    assert not split.groups["neither"].all()
    unique = table.winners("both").sum(1) == 1
    share = (table.winners("face") & table.winners("both")).any(1)[unique].mean()
    assert share > 0.7
    assert winner["face"].argmax(1).eq(split.target).float().mean() > 0.6  # standardised shares
    level = crema_votes(root, "level", 0)
    assert level.train.target.shape == (216, 1)
    assert level.train.target.mean().abs() < 1e-5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda head, rows: [row[:-1] for row in (head, *rows)], "has no column 'meanSadResp'"),
        (lambda head, rows: [head, *rows[1:]], "1 of 360 clips without votes in all 3 conditions"),
        (lambda head, rows: [head, *rows, rows[0]], "twice, or without votes"),
        (lambda head, rows: [head, ["9", *rows[0][1:]], *rows[1:]], "for voice, face and both; got '9'"),
        (lambda head, rows: [head, [rows[0][0], "many", *rows[0][2:]], *rows[1:]], "that are not numbers"),
    ],
)
def test_a_table_that_is_another_is_refused_in_a_sentence(crema_votes_root, tmp_path, change, sentence):
    with (crema_votes_root / "crema-d" / "tabulatedVotes.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    with (tmp_path / "tabulatedVotes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(change(head, rows))
    with pytest.raises(ValueError, match=sentence):
        crema_votes(tmp_path)


def test_missing_votes_are_named_with_where_to_get_them(tmp_path):
    with pytest.raises(ValueError, match=r"contains no .*tabulatedVotes.csv .*download it from https://"):
        crema_votes(tmp_path)


@pytest.mark.parametrize("kind", [CremaVotesEmotion, CremaVotesLevel])
def test_every_method_is_trained_and_stands_in_the_table(kind, root, tmp_path):
    experiment = kind(root=str(root), fold=(0, 1), epochs=1, seeds=2)
    folder = run(experiment, tmp_path / "out", device="cpu")
    summary = build(folder)
    scores, leads = experiment.tables(summary)
    assert list(scores.rows) == [*experiment.methods, *experiment.ceilings.values()]
    assert list(leads.rows) == list(experiment.methods)
    assert scores.columns == list(experiment.columns)
    assert all(row[0]["n"] == 2 for row in scores.rows.values())
    claims = read_json(folder / "claims.json")
    assert [(c["method"], c["rival"]) for c in claims if c["primary"]] == module.PRIMARY
    assert all(c["low"] <= c["lead"] <= c["high"] and c["p"] <= c["p_holm"] for c in claims)
    assert "not the audio and frames" in (folder / "README.md").read_text()


def test_the_real_table_is_read_where_it_is():
    root = Path(os.environ.get("SYNIB_DATA") or Path(__file__).parents[4] / "shared" / "data")
    if not (root / "crema-d" / "tabulatedVotes.csv").is_file():
        pytest.skip("CREMA-D's votes are needed: set SYNIB_DATA to the folder that holds them")
    data = crema_votes(root, "emotion", 4)
    assert data.test.groups["disagree"].float().mean().item() == pytest.approx(0.42, abs=0.05)
    assert 0.05 < data.test.groups["neither"].float().mean() < 0.15
