"""The search of the fair comparison: equal grids, and edges that are extended until none is left."""

import dataclasses
import math

import pytest
import torch

from synib.files import read_csv, read_json, write_json
from synib.methods.hooks import TrainsInStages
from synib.report import build
from synib.studies import FairSearch, run
from synib.studies.digits import experiment as digits
from synib.studies.fair.catalogue import CHEAP_RECIPE, FEW, LADDERS, NO_CUES, RECIPE, START, ends, neighbours
from synib.studies.fair.search import parsed
from synib.studies.fair.tasks import FAIRNESS
from synib.studies.search import describe
from synib.training.cells import learner
from synib.training.step import backward

CELLS = FairSearch(seeds=1).cells()
TINY = {"width": 8, "epochs": 1}


def by_form(cells):
    found = {}
    for cell in cells:
        found.setdefault((cell.factors["task"], cell.factors["form"]), []).append(cell)
    return found


def test_every_form_begins_with_equally_many_candidates_that_its_own_settings_leave_alone():
    for (task, form), cells in by_form(CELLS).items():
        assert len({str(cell.settings) for cell in cells}) == len(cells) == 18, (task, form)
        for cell in cells:
            assert parsed(cell.factors["candidate"]).items() <= cell.settings.items()
            assert describe(parsed(cell.factors["candidate"])) == cell.factors["candidate"]


def test_every_penalty_is_there_constant_and_annealed_with_either_fill_and_the_recipe_is_the_same_everywhere():
    forms = FairSearch()._all("digits")
    for name in ("masked inputs", "modality dropout", "SynIB whole", "SynIB marginal", "SynIB learned", "SynIB random"):
        for fill, noise in (("Gaussian", "standard"), ("swapped", "shuffled")):
            constant, annealed = forms[f"{name}, {fill}"], forms[f"{name}, {fill}, annealed"]
            assert constant.settings["noise"] == annealed.settings["noise"] == noise
            assert annealed.settings["weight_schedule"] == "anneal"
            assert "weight_schedule" not in constant.settings
    steps = ("weight_steps",)
    for recipe in (RECIPE, CHEAP_RECIPE):
        recipes = [FairSearch()._all(task)[recipe].settings for task in FAIRNESS]
        assert len({str({k: v for k, v in s.items() if k not in steps}) for s in recipes}) == 1
        fixed = {"noise": "shuffled", "draws": 16, "weight": 30.0, "weight_schedule": "anneal"}
        assert fixed.items() <= recipes[0].items()
        assert "weight" not in FairSearch().axes("digits", recipe)


def test_what_a_search_begins_with_are_neighbours_on_their_ladder():
    for name, values in START.items():
        at = LADDERS[name].index(values[0])
        assert LADDERS[name][at : at + len(values)] == values
    for ladder in LADDERS.values():
        assert list(ladder) == sorted(ladder)


def test_neighbours_differ_in_one_setting_by_one_step_and_ladders_end():
    chosen = {"lr": 1e-2, "dropout": 0.0, "weight": 1000.0}
    changed = [{"lr": 3e-3}, {"lr": 3e-2}, {"dropout": 0.5}, {"weight": 300.0}]
    assert neighbours(chosen) == [chosen | change for change in changed]
    assert ends(chosen) == ["weight"]  # less than no dropout there is not
    assert ends({"lr": 1e-1, "dropout": 0.9}) == ["lr", "dropout"]


@pytest.fixture
def sought(monkeypatch):
    """Scores that are best at a learning rate of .01, beyond the grid, without dropout, at a weight decay of 1e-4."""
    examined = []

    def examine(self, cell, learner, data):
        assert data.test is None
        examined.append(cell.id)
        s = cell.settings
        far = abs(math.log(s["lr"] / 1e-2)) + s["dropout"] + abs(math.log(s["weight_decay"] / 1e-4))
        return {"total": 1 / (1 + far), "synergy": 0.5, "ece": 0.0, "ece_calibrated": 0.0, "log_loss": far}

    monkeypatch.setattr(FairSearch, "examine", examine)
    return examined


def small(**options):
    return FairSearch(task=("pid-xor",), form=("vanilla",), seeds=1, overrides={"vanilla": TINY}, **options)


def test_a_search_goes_on_until_no_choice_is_at_an_edge_trains_new_cells_only_and_resumes(tmp_path, sought):
    said = []
    folder = run(small(), tmp_path / "out", device="cpu", say=said.append)
    # 18 candidates; then the next learning rate, .01, which is better; then all of its neighbours that are new.
    extended = [
        "lr=0.01, dropout=0, weight_decay=0.0001",
        "lr=0.03, dropout=0, weight_decay=0.0001",
        "lr=0.01, dropout=0.5, weight_decay=0.0001",
        "lr=0.01, dropout=0, weight_decay=1e-05",
        "lr=0.01, dropout=0, weight_decay=0.001",
    ]
    assert len(sought) == len(set(sought)) == 23
    assert read_json(folder / "config.json")["extend"] == [f"pid-xor | vanilla | {name}" for name in extended]
    assert [s for s in said if "at an edge" in s] == [
        f"Forms with a chosen value at an edge of the grid: 1. Candidates added: {'; '.join(entries)}."
        for entries in ([f"pid-xor | vanilla | {n}" for n in part] for part in (extended[:1], extended[1:]))
    ]
    assert len(read_csv(folder / "results.csv")) == 23
    build(folder)
    chosen = {"lr": 0.01, "dropout": 0.0, "weight_decay": 1e-4}
    assert read_json(folder / "settings.json") == {"pid-xor": {"vanilla": {"accuracy": chosen, "gain": chosen}}}
    assert read_json(folder / "at_the_end_of_a_ladder.json") == []
    # The same command again has nothing to do.
    results = (folder / "results.csv").read_bytes()
    run(small(), folder, device="cpu")
    assert len(sought) == 23
    assert (folder / "results.csv").read_bytes() == results
    # One that was killed between noting a larger grid and noting its shards goes on.
    shards = read_json(folder / "shards.json")
    write_json(folder / "shards.json", [s for s in shards if s != shards[-1]])
    run(small(), folder, device="cpu")
    assert (folder / "results.csv").read_bytes() == results


def test_a_ladder_that_ends_is_said_and_ends_the_search():
    rates = (0.01, 0.03, 0.1)
    changes = [{"dropout": 0.0}, {"dropout": 0.5}, {"weight_decay": 1e-5}, {"weight_decay": 1e-3}]
    tried = [{"lr": lr, "dropout": 0.0, "weight_decay": 1e-4, **change} for lr in rates for change in changes]
    search = small(extend=tuple(f"pid-xor | vanilla | {describe(c)}" for c in tried))
    rows = []
    for cell in search.cells():
        own = parsed(cell.factors["candidate"])
        far = abs(math.log(own["weight_decay"] / 1e-4)) + own["dropout"] - own["lr"]  # the larger the rate the better
        scores = {"total": -far, "synergy": 0.5, "log_loss": far}
        rows.append({**cell.factors, "method": cell.method, "seed": 0, **scores})
    assert search.widened(rows) is None
    assert search.conclusions(search.summary(rows))["at_the_end_of_a_ladder"] == ["pid-xor | vanilla | lr"]


@pytest.mark.parametrize(
    "entry",
    [
        "digits | vanilla",
        "digits | vanilla | lr=0.03",
        "digits | vanilla | lr=0.02, dropout=0, weight_decay=0.0001",
        "digits | plain | lr=0.03, dropout=0, weight_decay=0.0001",
        "x | vanilla | lr=0.03, dropout=0, weight_decay=0.0001",
        "digits | vanilla | lr=many",
    ],
)
def test_an_extension_that_is_none_is_refused(entry):
    with pytest.raises(ValueError, match=r"extend names values of the ladders, as in .*; got"):
        FairSearch(extend=(entry,))


@pytest.mark.parametrize("task", FAIRNESS)
def test_every_form_takes_a_step_and_is_measured_on_validation_data(task, digits_root, ravdess_root):
    narrow = {"width": 8} if task == "pid-xor" else {"hidden": 8, "latent": 4}
    root = str(ravdess_root if task == "irony" else digits_root)
    overrides = dict.fromkeys(FairSearch(task=(task,)).methods, narrow)
    search = FairSearch(task=(task,), root=root, seeds=1, overrides=overrides)
    firsts = {form: cells[0] for (_, form), cells in by_form(search.cells()).items()}
    if task != "pid-xor":  # every form on one task; on the others one of each method
        firsts = {cell.method: cell for cell in firsts.values()}
    for cell in firsts.values():
        data = search.data(cell)
        few, x = torch.arange(40), {name: v[:24] for name, v in data.train.modalities.items()}
        groups = {name: members[few] for name, members in data.validation.groups.items()}
        seen = {name: v[few] for name, v in data.validation.modalities.items()}
        small = dataclasses.replace(
            data,
            validation=dataclasses.replace(
                data.validation, modalities=seen, target=data.validation.target[few], groups=groups
            ),
        )
        trained = learner(search, cell, data)
        for epoch in (0, 20):  # some methods train something else first
            if isinstance(trained.method, TrainsInStages):
                trained.method.begin(epoch)
            loss, _ = backward(trained.method, trained.train().model, x, data.train.target[:24])
            assert loss.isfinite(), cell.factors
        scores = search.examine(cell, trained.eval(), small)
        assert scores.keys() == {"total", "synergy", "ece", "ece_calibrated", "log_loss"}
        assert math.isfinite(scores["log_loss"])
    digits.digits_data.cache_clear()


def test_ceilings_have_no_cues_as_many_examples_or_as_few_as_many_steps(digits_root):
    search = FairSearch(root=str(digits_root), form=("vanilla", NO_CUES, FEW), seeds=1)
    firsts = {key: cells[0] for key, cells in by_form(search.cells()).items()}
    for (task, form), cell in firsts.items():
        if task == "irony":
            continue
        data = search.data(cell)
        assert data.test is None
        share = 1.0 if form != "vanilla" else 0.1
        assert data.train.groups["S"].float().mean().item() == pytest.approx(share, abs=0.03)
        usual = len(search.data(firsts[task, "vanilla"]).train)
        assert len(data.train) == (usual // 10 if form == FEW else usual)
        batches = -(-len(data.train) // cell.settings["batch_size"])
        assert batches * cell.settings["epochs"] == search._tasks[task].steps
        classes = 3 if task == "digits-modulo-3" else 2
        assert torch.equal(data.train.target.unique(), torch.arange(classes))
        assert search.model(cell, data)(data.train.modalities).shape[1] == (3 if classes == 3 else 1)
    assert ("irony", NO_CUES) not in firsts
    digits.digits_data.cache_clear()
