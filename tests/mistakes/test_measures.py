"""Mistakes in calling measures of a model: each is one sentence, before anything is computed that would be wrong or in vain."""

import math

import numpy as np
import pytest
import torch

import synib
from synib import (
    FusionModel,
    Gaussian,
    LearnedMask,
    MatchedNoise,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    Tokens,
    Unimodal,
)
from synib.measure import (
    agreement_table,
    calibration,
    detectability,
    emap,
    interaction,
    ntk,
    scores_under_corruption,
    usage,
)

N = 60
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 2
NAMES = np.array(["cat", "dog"])[LABELS]
TABLE = RNG.normal(size=(N, 2))
PAIR = {name: torch.from_numpy(RNG.normal(size=(N, 1))) for name in "ab"}
OWN = {"image": LABELS, "text": 1 - LABELS}
RAGGED = [[1.0], [1.0, 2.0]]
MODEL = FusionModel.mlp({"a": 1, "b": 1}, [4], classes=2)
ALL = {"all": torch.ones(N)}


def both(x):
    return torch.cat([x["a"], x["b"]], 1)


def refuses(call, quoted):
    """One sentence that quotes what came."""
    with pytest.raises(ValueError) as mistake:
        call()
    assert quoted in str(mistake.value)
    assert "\n" not in str(mistake.value)


# Of a model and examples

OF_MODELS = [usage, emap, interaction, scores_under_corruption]


@pytest.mark.parametrize("measure", OF_MODELS)
@pytest.mark.parametrize(
    ("wrong", "quoted"),
    [
        ({"predict": torch.zeros(N, 2)}, "got Tensor"),
        ({"predict": FusionModel}, "got the class FusionModel"),
        ({"predict": synib.SynIB()}, "got the objective SynIB"),
        ({"modalities": {**PAIR, "b": ["x"] * N}}, "got list"),
        ({"modalities": {**PAIR, "b": NAMES}}, "got ndarray"),
        ({"modalities": {**PAIR, "b": Tokens(torch.zeros(N, 2, 1), None)}}, "got Tokens"),
        ({"target": NAMES}, "got shape (60,) of <U3"),
        ({"target": RAGGED}, "got a list with rows of several lengths"),
        ({"family": "bernoulli"}, "got 'bernoulli'"),
        ({"family": synib.Bernoulli}, "got the class Bernoulli"),
        ({"seed": -1}, "got -1"),
        ({"chunk": None}, "got None"),
    ],
)
def test_a_mistake_is_one_sentence_in_every_measure_of_a_model(measure, wrong, quoted):
    refuses(lambda: measure(**{"predict": both, "modalities": PAIR, "target": LABELS, **wrong}), quoted)


@pytest.mark.parametrize(
    ("measure", "wrong", "quoted"),
    [
        (usage, {"mask": "random"}, "got 'random'"),
        (usage, {"noise": ShuffledNoise}, "got the class ShuffledNoise"),
        (usage, {"reference": "uniform"}, "got 'uniform'"),
        (usage, {"draws": 1.5}, "got 1.5"),
        (usage, {"draws": 0}, "got 0"),
        (usage, {"mask": LearnedMask(), "noise": StandardNoise()}, "a unimodal predictor of 'a'"),
        (usage, {"reference": Unimodal()}, "a unimodal predictor for a modality other than 'a'"),
        (usage, {"noise": MatchedNoise()}, "has not seen a training batch of 'a'"),
        (usage, {"level": "95%"}, "got '95%'"),
        (emap, {"pairs": 2.5}, "got 2.5"),
        (emap, {"pairs": 1}, "got 1"),
        (emap, {"of": "odds"}, "got 'odds'"),
        (interaction, {"draws": "all"}, "got 'all'"),
        (interaction, {"draws": 1}, "got 1"),
        (interaction, {"of": "odds"}, "got 'odds'"),
        (interaction, {"family": Gaussian()}, "has no classes: leave out target"),
        (scores_under_corruption, {"noise": "shuffled"}, "got 'shuffled'"),
        (scores_under_corruption, {"draws": True}, "got True"),
        (scores_under_corruption, {"resamples": 1e3}, "got 1000.0"),
    ],
)
def test_a_setting_of_a_measure_of_a_model_is_refused(measure, wrong, quoted):
    refuses(lambda: measure(both, PAIR, LABELS, **wrong), quoted)


@pytest.mark.parametrize(
    ("wrong", "quoted"),
    [
        ({"modalities": {"img": PAIR["a"], "b": PAIR["b"]}}, "modalities are 'a', 'b'; unknown: 'img'; missing: 'a'"),
        ({"target": NAMES}, "got shape (60,) of <U3"),
        ({"target": LABELS[:5]}, "got shape (5,)"),
        ({"model": both}, "got function"),
        ({"modalities": {**PAIR, "b": PAIR["b"] * math.nan}}, "'b' holds 60 NaN"),
        ({"groups": {"all": NAMES}}, "got shape (60,) of <U3"),
        ({"groups": {}}, "got none"),
        ({"groups": [torch.ones(N)]}, "Groups must be a dict of name"),
        ({"groups": {"g": torch.ones(3, dtype=torch.bool)}}, "got (3,)"),
        ({"groups": {"g": torch.zeros(N, dtype=torch.bool)}}, "Group 'g' has no examples"),
        ({"of": "both"}, "got 'both'"),
        ({"family": Gaussian(), "of": "probabilities"}, "got Gaussian"),
        ({"family": "categorical"}, "got 'categorical'"),
        ({"most": 1.5}, "got 1.5"),
    ],
)
def test_a_mistake_in_ntk_is_one_sentence(wrong, quoted):
    refuses(lambda: ntk(**{"model": MODEL, "modalities": PAIR, "target": LABELS, "groups": ALL, **wrong}), quoted)


@pytest.mark.parametrize(
    ("wrong", "quoted"),
    [
        ({"objective": "synib"}, "got 'synib'"),
        ({"objective": synib.SynIB(sample=1)}, "got 1"),
        ({"model": TABLE}, "got ndarray"),
        ({"modalities": {**PAIR, "b": ["x"] * N}}, "got list"),
        ({"modalities": {"img": PAIR["a"], "b": PAIR["b"]}}, "modalities are 'a', 'b'; unknown: 'img'; missing: 'a'"),
        ({"target": NAMES}, "got shape (60,) of <U3"),
        ({"target": LABELS[:5]}, "got shape (5,)"),
        ({"seed": -1}, "got -1"),
        ({"modalities": {name: v[:3] for name, v in PAIR.items()}, "target": LABELS[:3]}, "got 3"),
    ],
)
def test_a_mistake_in_detectability_is_one_sentence(wrong, quoted):
    swap = synib.SynIB(RandomMask(1.0), ShuffledNoise())
    given = {"objective": swap, "model": MODEL, "modalities": PAIR, "target": LABELS}
    refuses(lambda: detectability(**given | wrong), quoted)


@pytest.mark.parametrize("measure", OF_MODELS)
def test_frames_and_series_of_pandas_are_arrays_whatever_their_index(measure):
    pd = pytest.importorskip("pandas")
    settings = {}
    if measure is scores_under_corruption:
        pytest.importorskip("torchmetrics")
        settings = {"resamples": 5}
    frames = {name: pd.DataFrame(v.numpy()) for name, v in PAIR.items()}
    labels = pd.Series(LABELS, index=range(100, 100 + N))
    assert str(measure(both, frames, labels, **settings)) == str(measure(both, PAIR, LABELS, **settings))
    texts = {**frames, "b": pd.DataFrame(NAMES)}
    refuses(lambda: measure(both, texts, labels), "got DataFrame")


def test_arrays_that_are_read_backwards_or_read_only_are_arrays():
    backwards = {name: v.numpy()[::-1] for name, v in PAIR.items()}
    fixed = LABELS[::-1].copy()
    fixed.flags.writeable = False
    assert usage(both, backwards, fixed, draws=2) == usage(
        both, {k: v.flip(0) for k, v in PAIR.items()}, LABELS[::-1], draws=2
    )
    assert str(calibration(TABLE[::-1], fixed)) == str(calibration(TABLE[::-1].copy(), fixed.tolist()))


def test_tokens_may_hold_arrays():
    tokens = Tokens(np.ones((N, 2, 1)), np.zeros((N, 2), dtype=bool))
    found = usage(lambda x: torch.cat([x["a"], x["b"].values[:, 0]], 1), {"a": PAIR["a"], "b": tokens}, LABELS, draws=1)
    assert found["b"].accuracy_drop.value == 0.0


# What was found


def test_one_name_finds_its_row_of_the_agreement_table_and_is_not_read_letter_by_letter():
    table = agreement_table({"a": LABELS, "b": LABELS, "ab": 1 - LABELS}, LABELS, LABELS)
    assert table["ab"].right == ("ab",)
    assert table["a", "b"].right == ("a", "b")


@pytest.mark.parametrize(
    ("look", "quoted"),
    [
        (lambda: agreement_table(OWN, LABELS, LABELS)["img"], "no row for 'img'; "),
        (lambda: usage(both, PAIR, LABELS, draws=1)["c"], "no modality 'c'; the modalities are 'a', 'b'"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_those_that_are(look, quoted):
    with pytest.raises(KeyError, match=quoted):
        look()
