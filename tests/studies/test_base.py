"""What all experiments share: summary, statistics, config."""

import pytest

from synib.data import Dataset
from synib.objective import Objective
from synib.studies import EXPERIMENTS, Experiment, SpuriousXOR
from synib.studies.affect import baselines as affect_baselines
from synib.studies.affect import data as affect_data
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
    def files(self, name, ravdess_root, digits_root, affect_root, monkeypatch):
        if name == "irony":
            monkeypatch.setenv("SYNIB_DATA", str(ravdess_root))
        if name.startswith("digits"):
            monkeypatch.setenv("SYNIB_DATA", str(digits_root))
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
        with pytest.raises(ValueError, match=f"{name} has no option 'bets'; it has seeds, .*methods"):
            EXPERIMENTS[name].from_config({"experiment": name, "bets": [1.0]})

    def test_a_search_tries_equally_many_different_candidates_for_every_method_and_the_settings_in_use_are_among_them(
        self, name
    ):
        experiment = EXPERIMENTS[name]()
        candidates = experiment.candidates()
        assert len({len(tried) for tried in candidates.values()}) <= 1
        for method, tried in candidates.items():
            assert len({str(candidate) for candidate in tried}) == len(tried), method
            in_use = experiment.defaults()[method].items()
            if name != "affect-ur-funny":  # which has the paper's settings
                assert any(candidate.items() <= in_use for candidate in tried), method


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": "three"},
        {"seeds": 2.5},
        {"methods": "vanilla"},
        {"methods": [3]},
        {"beta": 1.0},
        {"beta": ["one"]},
        {"test_shortcut": 0},
        {"epochs": None},
    ],
)
def test_an_option_of_another_type_is_quoted_with_what_was_expected(wrong):
    ((option, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"takes {option} in the form .*; got .*{str(value).strip('[]')}"):
        SpuriousXOR.from_config(wrong)


def test_oracle_masks_get_the_coordinates_of_the_blocks_they_name():
    class Blocks(SpuriousXOR):
        def data(self, cell: Cell) -> Dataset:
            return spurious_xor(test=1)

    experiment = Blocks()
    cell = Cell("e", "synib-oracle", {"beta": 1.0}, {"weight": 1.0, "blocks": ["signal", "shortcut"]})
    mask = experiment.method(cell, experiment.data(cell)).mask
    assert mask.indices == {"x1": list(range(10)), "x2": list(range(4))}


def test_an_experiment_without_its_parts_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Experiment()
