"""The search on CREMA-D's crowd votes: equal candidates, validation actors only, settings that the experiments read."""

import json
from collections import Counter

import pytest
import torch

from synib.files import read_csv
from synib.report import build
from synib.studies import CremaVotesEmotion, CremaVotesLevel, CremaVotesSearch, run
from synib.studies.base import SHARED
from synib.studies.crema_votes import experiment as module
from synib.studies.crema_votes.data import read_votes
from synib.studies.crema_votes.search import FORMS, START, TARGETS
from synib.studies.fair.search import parsed


@pytest.fixture
def root(crema_votes_root):
    yield str(crema_votes_root)
    module._data.cache_clear()
    module.ceilings.cache_clear()
    read_votes.cache_clear()


def test_every_method_begins_with_nine_candidates_inside_the_ladders():
    search = CremaVotesSearch(seeds=1)
    counts = Counter((c.factors["task"], c.factors["form"]) for c in search.cells())
    assert set(counts.values()) == {9}
    assert set(FORMS) - {form for task, form in counts if task == "level"} == {"stacked"}
    assert all(parsed(c.factors["candidate"]).items() <= c.settings.items() for c in search.cells())
    assert all(value in search.ladders[name] for name, values in START.items() for value in values)


def test_every_penalty_is_annealed_and_every_fill_swapped():
    for name, settings in FORMS.items():
        if name.startswith(("synib", "masked", "modality", "confidence")):
            assert settings["weight_schedule"] == "anneal"
        if "noise" in settings:
            assert settings["noise"] == "shuffled"


def test_a_seed_is_a_fold_and_there_are_only_five(root):
    search = CremaVotesSearch(root=root, form=("vanilla",), seeds=2)
    first, second = (next(c for c in search.cells() if c.seed == seed) for seed in (0, 1))
    kind = TARGETS["emotion"](root=root)
    for cell, fold in ((first, 0), (second, 1)):
        data = search.data(cell)
        assert data.test is None
        same = kind.data(next(c for c in kind.cells() if c.factors["fold"] == fold))
        assert torch.equal(data.validation.target, same.validation.target)
    with pytest.raises(ValueError, match="Each seed is one of 5 folds; got first=4 and seeds=2"):
        CremaVotesSearch(first=4, seeds=2)


@pytest.mark.parametrize("target", TARGETS)
def test_a_search_grows_until_no_choice_is_at_an_edge_and_writes_settings_for_the_experiment(target, root, tmp_path):
    forms = ("vanilla", "synib-random", "stacked") if target == "emotion" else ("vanilla", "synib-marginal")
    overrides = {form: {"hidden": 4, "latent": 4} for form in forms}
    search = CremaVotesSearch(root=root, task=(target,), form=forms, seeds=1, overrides=overrides)
    folder = run(search, tmp_path / "out", device="cpu")
    wider = search.resumed(json.loads((folder / "config.json").read_text()))
    rows = read_csv(folder / "results.csv")
    assert wider.widened(rows) is None
    assert len(rows) > 9 * len(forms)
    build(folder)
    settings = json.loads((folder / "settings.json").read_text())
    assert list(settings) == [f"crema-votes-{target}"]
    chosen = settings[f"crema-votes-{target}"]
    assert list(chosen) == [SHARED, *forms]
    kind = CremaVotesEmotion if target == "emotion" else CremaVotesLevel
    assert chosen[SHARED]["epochs"] == kind().epochs
    for form in forms:
        assert FORMS[form].items() <= chosen[form].items()
        assert {"lr", "dropout"} <= chosen[form].keys()
