"""What all experiments share: summary, statistics, config."""

import pytest

from synib.data import Dataset
from synib.objective import Objective
from synib.studies import EXPERIMENTS, AffectMOSI, AffectMUStARD, IronyRates, SpuriousXOR, run
from synib.studies.affect import baselines as affect_baselines
from synib.studies.affect import data as affect_data
from synib.studies.candidates import own_values
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import Cell


def test_the_summary_is_over_seeds_for_each_method_factor_and_metric():
    def row(method, beta, seed, test, synergy):
        return {
            "experiment": "spurious-xor", "method": method, "beta": beta, "seed": seed, "test_accuracy": test,
            "synergy_accuracy": synergy, "cell": "c", "versions": "v",
        }  # fmt: skip

    results = [
        row("vanilla", 1.0, 0, 0.5, None),
        row("vanilla", 1.0, 1, 0.7, 0.25),
        row("vanilla", 0.0, 0, 1.0, None),
        row("synib-oracle", 1.0, 0, 0.9, 1.0),
    ]
    summary = SpuriousXOR().summary(results)
    assert [(s["method"], s["beta"], s["metric"], s["n"], s["paper"]) for s in summary] == [
        ("vanilla", 1.0, "test_accuracy", 2, 0.50),
        ("vanilla", 1.0, "synergy_accuracy", 1, None),
        ("vanilla", 0.0, "test_accuracy", 1, None),
        ("vanilla", 0.0, "synergy_accuracy", 0, None),
        ("synib-oracle", 1.0, "test_accuracy", 1, 1.00),
        ("synib-oracle", 1.0, "synergy_accuracy", 1, None),
    ]
    assert summary[0]["mean"] == pytest.approx(0.6)
    assert summary[0]["se"] == pytest.approx(0.1)
    assert summary[1]["mean"] == 0.25
    assert summary[3]["mean"] is None


def test_a_fold_counts_as_the_mean_of_its_seeds_leads_are_paired_by_fold_and_rules_have_rows_of_their_own():
    def row(method, fold, seed, number):
        point = {"alpha": 0.5, "donors": "paper", "fold": fold, "assignment": 0}
        return {"method": method, **point, "seed": seed, "irony_auc": number, "voice_irony_auc": 0.7 + fold / 10}

    levels = {0: 0.2, 1: 0.5, 2: 0.8}  # folds differ much; a method's lead does not
    results = [row("vanilla", f, s, level + 0.01 * s) for f, level in levels.items() for s in (0, 1)]
    results += [row("synib-marginal", f, s, level + 0.1 + 0.02 * f) for f, level in levels.items() for s in (0, 1)]
    summary = {(r["method"], r["metric"]): r for r in IronyRates(seeds=2).summary(results)}
    assert summary.keys() == {
        ("vanilla", "irony_auc"), ("synib-marginal", "irony_auc"), ("emotion of the voice", "irony_auc"),
        ("synib-marginal", "irony_auc_over_vanilla"),
    }  # fmt: skip
    mean = summary["vanilla", "irony_auc"]
    assert (mean["n"], mean["alpha"], mean["donors"]) == (3, 0.5, "paper")
    assert "fold" not in mean
    assert mean["mean"] == pytest.approx(0.505)
    lead = summary["synib-marginal", "irony_auc_over_vanilla"]
    assert (lead["n"], lead["mean"], lead["se"]) == (3, pytest.approx(0.115), pytest.approx(0.02 / 3**0.5))
    rule = summary["emotion of the voice", "irony_auc"]
    assert (rule["n"], rule["mean"]) == (3, pytest.approx(0.8))


# Small versions of experiments, other than the default in every option; one that is not here has two seeds.
SMALL = {
    "spurious-xor": {"seeds": 2, "beta": (0.0, 1.0), "methods": ("vanilla", "confidence"), "epochs": 7},
    "parity": {"seeds": 2, "beta": (0.0, 1.0), "methods": ("vanilla", "confidence"), "epochs": 7},
    "pid-simplex": {"seeds": 2, "step": 0.5, "methods": ("vanilla", "confidence"), "width": 8, "projections": "fixed"},
    "pid-dynamics": {"seeds": 2, "mixture": (0.1, 0.2, 0.3, 0.4), "methods": ("vanilla", "confidence"), "epochs": 7},
    "compare-spurious-xor": {"seeds": 2, "methods": ("vanilla", "dnr")},
    "compare-pid-xor": {"seeds": 2, "methods": ("vanilla", "mmpareto"), "width": 8},
    "calibration": {"seeds": 2, "beta": (0.5,), "methods": ("vanilla", "confidence"), "epochs": 7},
    "ntk": {"seeds": 2, "methods": ("vanilla", "confidence"), "width": 8, "regime": "tuned"},
    "irony": {
        "seeds": 2,
        "methods": ("vanilla", "confidence"),
        "alpha": (0.5, 2.0),
        "donor": ("balanced",),
        "fold": (0, 4),
        "assignments": 2,
        "epochs": 7,
    },
    "digits-scarce": {"seeds": 2, "methods": ("vanilla", "confidence"), "overrides": {"vanilla": {"epochs": 7}}},
    "digits-plenty": {"seeds": 2, "methods": ("vanilla", "experts"), "overrides": {"vanilla": {"epochs": 7}}},
    "forms": {"seeds": 2, "task": ("pid-xor",), "form": ("vanilla", "shuffled")},
    "fair-search": {"seeds": 2, "task": ("pid-xor",), "form": ("vanilla", "recipe")},
    "fair": {"seeds": 2, "task": ("pid-xor",), "form": ("vanilla", "recipe")},
    "fair-recipes": {
        "seeds": 2,
        "task": ("pid-xor",),
        "form": ("learned, 1 draw, 10 to 0", "learned, 16 draws, 30 to 1"),
    },
    "crema-votes-search": {"seeds": 2, "task": ("emotion",), "form": ("vanilla", "synib-marginal")},
    "ablations": {"seeds": 2, "task": ("pid-xor",), "leave_out": ("weight=3", "share=0.02")},
    "mask-recovery": {"seeds": 2, "task": ("spurious-xor", "pid-xor"), "width": 8},
    "affect-mosi": {"seeds": 2, "fold": (0, 1), "methods": ("vanilla", "confidence")},
    "affect-mustard": {"seeds": 2, "fold": (0, 1), "methods": ("vanilla", "confidence")},
    "learned-masks": {"seeds": 2, "variants": ("2 steps", "network"), "width": 8, "epochs": 7},
}


def small(name):
    return SMALL.get(name, {"seeds": 2})


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "search"])
class TestEveryExperiment:
    """What every experiment must satisfy."""

    @pytest.fixture(autouse=True)
    def files(
        self, name, ravdess_root, takes_root, voices_root, digits_root, affect_root, crema_votes_root, monkeypatch
    ):
        if name.startswith("irony"):
            roots = {"matched": takes_root, "forms": takes_root, "voices": voices_root}
            monkeypatch.setenv("SYNIB_DATA", str(next((r for word, r in roots.items() if word in name), ravdess_root)))
        if name.startswith(("digits", "attention")):
            monkeypatch.setenv("SYNIB_DATA", str(digits_root))
        if name.startswith("crema-votes"):
            monkeypatch.setenv("SYNIB_DATA", str(crema_votes_root))
        if name.startswith("affect"):
            monkeypatch.setenv("SYNIB_DATA", str(affect_root))
        yield
        for cached in (affect_data.load, affect_data.read, affect_baselines.baselines):
            cached.cache_clear()

    def test_it_comes_back_from_its_config(self, name):
        kind = EXPERIMENTS[name]
        experiment = kind(**small(name))
        assert kind.name == name
        assert experiment.config()["experiment"] == name
        assert kind.from_config(experiment.config()) == experiment
        assert [c.id for c in kind.from_config(experiment.config()).cells()] == [c.id for c in experiment.cells()]

    def test_every_cell_has_an_id_of_its_own(self, name):
        cells = EXPERIMENTS[name]().cells()
        assert len({c.id for c in cells}) == len(cells)

    def test_every_cell_has_its_method_model_and_settings(self, name):
        if name == "hateful-memes":
            pytest.skip("its model is made of encoders in files, which its own tests have")
        experiment = EXPERIMENTS[name](**{k: v for k, v in small(name).items() if k != "methods"})
        assert {c.method for c in experiment.cells()} == set(experiment.methods)
        for cell in {c.program: c for c in experiment.cells()}.values():
            data = experiment.data(cell)
            assert isinstance(experiment.method(cell, data), Objective)
            assert experiment.method(cell, data).family is experiment.family
            assert experiment.model(cell, data).names == tuple(data.train.modalities)
            assert {"lr", "weight_decay", "epochs", "batch_size"} <= cell.settings.keys()

    def test_an_unknown_option_is_named_with_those_there_are(self, name):
        with pytest.raises(ValueError, match=f"{name} has no option 'bets'; its options are seeds, .*methods"):
            EXPERIMENTS[name].from_config({"experiment": name, "bets": [1.0]})


SEARCHED = {
    **{(name, ""): kind() for name, kind in EXPERIMENTS.items() if name != "search" and kind().candidates()},
    **{(kind.name, "sequences"): kind(form="sequences") for kind in (AffectMOSI, AffectMUStARD)},
    ("irony", "crema-d"): IronyRates(source="crema-d"),
}
NOT_CHOSEN = {("affect-ur-funny", ""), ("affect-mosi", "sequences"), ("affect-mustard", "sequences"), ("irony", "crema-d"),
              ("hateful-memes", "")}  # fmt: skip


@pytest.mark.parametrize(("name", "form"), SEARCHED)
def test_a_search_tries_equally_many_candidates_made_of_a_methods_settings_and_those_in_use_are_among_them(name, form):
    experiment = SEARCHED[name, form]
    settings = experiment.defaults()
    candidates = experiment.candidates()
    assert len({len(tried) for tried in candidates.values()}) == 1
    for method, tried in candidates.items():
        assert len({str(candidate) for candidate in tried}) == len(tried), method
        assert all(candidate.keys() <= settings[method].keys() for candidate in tried), method
        if (name, form) not in NOT_CHOSEN:  # these have the paper's settings
            assert any(candidate.items() <= settings[method].items() for candidate in tried), method


@pytest.mark.parametrize(("name", "form"), [key for key in SEARCHED if "reconboost" in SEARCHED[key].methods])
def test_the_last_epoch_of_reconboost_is_a_rectification(name, form):
    experiment = SEARCHED[name, form]
    settings = experiment.defaults()["reconboost"]
    modalities = sum(method.startswith("unimodal-") for method in experiment.methods)
    assert settings["epochs"] % (modalities * settings["stage"] + settings["rectify"]) == 0


def test_methods_without_a_setting_of_their_own_try_the_weight_decay():
    values = own_values(("a", "b"), weight=(1.0, 2.0, 3.0), weight_decay=(0.1, 0.2, 0.3))
    assert values["unimodal-b"] == values["vanilla"] == {"weight_decay": (0.1, 0.2, 0.3)}
    assert values["synib-random"] == values["confidence"] == {"weight": (1.0, 2.0, 3.0)}
    oracles = own_values(("a", "b"), oracle=True).keys() - values.keys()
    assert oracles == {"masked-oracle", "synib-oracle"}


@pytest.mark.parametrize("name", ["digits-scarce", "irony", "affect-mosi", "affect-ur-funny", "hateful-memes"])
def test_missing_data_are_reported_before_training_with_where_to_get_them(name, monkeypatch, untrained, tmp_path):
    monkeypatch.delenv("SYNIB_DATA", raising=False)
    with pytest.raises(ValueError, match="give a folder as root"):
        run(EXPERIMENTS[name](), tmp_path / "out")
    with pytest.raises(
        ValueError, match=r"contains no .*: download it from https://|no recordings .* Free Spoken Digit Dataset"
    ):
        run(EXPERIMENTS[name](root=str(tmp_path)), tmp_path / "out")


def test_oracle_masks_get_the_coordinates_of_the_blocks_they_name():
    class Blocks(SpuriousXOR):
        def data(self, cell: Cell) -> Dataset:
            return spurious_xor(test=1)

    experiment = Blocks()
    cell = Cell("e", "synib-oracle", {"beta": 1.0}, {"weight": 1.0, "blocks": ["signal", "shortcut"]})
    mask = experiment.method(cell, experiment.data(cell)).mask
    assert mask.indices == {"x1": list(range(10)), "x2": list(range(4))}
