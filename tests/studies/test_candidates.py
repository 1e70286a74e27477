"""What a search tries on real data: equally many candidates for every method, the settings in use among them."""

import json

import pytest

from synib.studies import (
    AffectMOSI,
    AffectMUStARD,
    AffectURFunny,
    DigitsPlenty,
    DigitsScarce,
    HatefulMemes,
    IronyRates,
)
from synib.studies.candidates import own_values

EXPERIMENTS = {
    "mosi": (AffectMOSI(), 24),
    "mustard": (AffectMUStARD(), 24),
    "mosi sequences": (AffectMOSI(form="sequences"), 24),
    "mustard sequences": (AffectMUStARD(form="sequences"), 24),
    "ur-funny": (AffectURFunny(), 24),
    "digits scarce": (DigitsScarce(), 24),
    "digits plenty": (DigitsPlenty(), 24),
    "ravdess": (IronyRates(), 27),
    "crema-d": (IronyRates(source="crema-d"), 27),
    "hateful memes": (HatefulMemes(), 18),
}
SEARCHED = ("mosi", "mustard", "digits scarce", "digits plenty", "ravdess")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_method_has_equally_many_different_candidates_made_of_its_settings(name):
    experiment, count = EXPERIMENTS[name]
    candidates, settings = experiment.candidates(), experiment.defaults()
    assert tuple(candidates) == tuple(settings) == experiment.methods
    for method, tried in candidates.items():
        assert len({json.dumps(candidate, sort_keys=True) for candidate in tried}) == len(tried) == count, method
        assert all(candidate.keys() <= settings[method].keys() for candidate in tried), method


@pytest.mark.parametrize("name", SEARCHED)
def test_the_settings_in_use_are_one_of_the_candidates_where_a_search_chose_them(name):
    experiment, _ = EXPERIMENTS[name]
    for method, tried in experiment.candidates().items():
        assert any(candidate.items() <= experiment.defaults()[method].items() for candidate in tried), method


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_last_epoch_of_reconboost_is_a_rectification(name):
    experiment, _ = EXPERIMENTS[name]
    settings = experiment.defaults()["reconboost"]
    modalities = sum(method.startswith("unimodal-") for method in experiment.methods)
    assert settings["epochs"] % (modalities * settings["stage"] + settings["rectify"]) == 0


def test_methods_without_a_setting_of_their_own_try_the_weight_decay():
    values = own_values(("a", "b"), weight=(1.0, 2.0, 3.0), weight_decay=(0.1, 0.2, 0.3))
    assert values["unimodal-b"] == values["vanilla"] == {"weight_decay": (0.1, 0.2, 0.3)}
    assert values["synib-random"] == values["confidence"] == {"weight": (1.0, 2.0, 3.0)}
