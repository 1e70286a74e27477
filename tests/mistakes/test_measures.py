"""Mistakes in calling the measures: each is one sentence, before anything is computed that would be wrong or in vain."""

import numpy as np
import pytest
import torch

import synib
from synib import Categorical, FusionModel, RandomMask, ShuffledNoise, Tokens
from synib.measure import (
    accuracies,
    agreement_table,
    bootstrap,
    calibration,
    correct,
    detectability,
    emap,
    group_losses,
    interaction,
    interaction_gain,
    interval,
    ntk,
    pid_neural,
    pid_quantised,
    scores,
    scores_under_corruption,
    shuffle_within_class,
    statistics,
    synergy_subset,
    usage,
)

N = 60
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 2
NAMES = np.array(["cat", "dog"])[LABELS]
TABLE = RNG.normal(size=(N, 2))
PAIR = {name: torch.from_numpy(RNG.normal(size=(N, 1))) for name in "ab"}
OWN = {"image": LABELS, "text": 1 - LABELS}
LOGITS = {"image": TABLE[:, 0], "text": TABLE[:, 1]}
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
        (usage, {"level": "95%"}, "got '95%'"),
        (emap, {"pairs": 2.5}, "got 2.5"),
        (interaction, {"draws": "all"}, "got 'all'"),
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
        ({"groups": {"all": NAMES}}, "got shape (60,) of <U3"),
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


# Of predictions


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda: synergy_subset({"a": [LABELS.tolist(), [0]], "b": LABELS}, LABELS), "got a list"),
        (lambda: synergy_subset(OWN, RAGGED), "got a list"),
        (lambda: shuffle_within_class(torch.zeros(N, 2), LABELS), "got Tensor"),
        (lambda: shuffle_within_class({"a": None}, LABELS), "got NoneType"),
        (lambda: shuffle_within_class(PAIR, LABELS, seed=0.5), "got 0.5"),
        (lambda: interaction_gain({"a": NAMES}, NAMES, LABELS), "unimodal['a'] is an array of numbers; got"),
        (lambda: interaction_gain({"a": RAGGED}, LABELS, LABELS), "got a list"),
        (lambda: interaction_gain({"a": [1, 2, 3]}, [1, 2, 3], [0, 1, 0]), "got 3"),
        (lambda: interaction_gain(LOGITS, LABELS, LABELS, folds=2.5), "got 2.5"),
        (lambda: scores(TABLE, NAMES), "got shape (60,) of <U3"),
        (lambda: scores(TABLE, None), "got NoneType"),
        (lambda: scores(NAMES, LABELS), "got shape (60,) of <U3"),
        (lambda: scores(RAGGED, [0, 1]), "got a list with rows of several lengths"),
        (lambda: calibration(TABLE, LABELS, Categorical()), "got Categorical()"),
        (lambda: correct(Categorical(), torch.zeros(4, 2), torch.zeros(4, 1)), "got (4, 1)"),
        (lambda: correct(Categorical(), torch.zeros(4, 2), torch.zeros(3)), "got (3,)"),
        (lambda: correct(torch.zeros(4, 2), torch.zeros(4), Categorical()), "got tensor"),
        (lambda: accuracies(torch.ones(4), [torch.ones(4)], "x"), "got [tensor"),
        (lambda: accuracies(torch.ones(4), {"g": torch.ones(4, 1)}, "x"), "got (4, 1)"),
        (lambda: group_losses(Categorical(), torch.ones(4), torch.zeros(4, 3), {}, "x"), "got (4,)"),
    ],
)
def test_a_mistake_in_a_measure_of_predictions_is_one_sentence(call, quoted):
    refuses(call, quoted)


# Of numbers


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda: bootstrap(TABLE[:, 0], np.mean), "got ndarray"),
        (lambda: bootstrap(lambda x: x.mean(), TABLE[:, 0]), "; give vectorized=False"),
        (lambda: bootstrap(np.mean), "got none"),
        (lambda: bootstrap(np.mean, 3.0), "got a single number"),
        (lambda: bootstrap(np.mean, NAMES), "got <U3"),
        (lambda: bootstrap(np.mean, TABLE), "got shape (2,)"),
        (lambda: bootstrap(np.mean, RAGGED), "got a list"),
        (lambda: bootstrap(np.mean, TABLE[:, 0], draws=1.5), "got 1.5"),
        (lambda: statistics([None, 1.0]), "got [None, 1.0]"),
        (lambda: interval(0.5, statistics([0.5])["se"], 1), "got None"),
    ],
)
def test_a_mistake_in_a_statistic_is_one_sentence(call, quoted):
    refuses(call, quoted)


def test_a_statistic_may_count_texts_and_hide_what_it_takes():
    share = bootstrap(lambda x, axis: (x == "cat").mean(axis), NAMES, draws=20)
    assert share.value == 0.5
    assert bootstrap(lambda x, **settings: np.mean(x, **settings), LABELS, draws=20).value == 0.5


def test_an_error_of_the_statistic_itself_is_its_own():
    def broken(x, axis):
        raise TypeError("my own mistake")

    with pytest.raises(TypeError, match="my own mistake"):
        bootstrap(broken, TABLE[:, 0])


# Of information


@pytest.mark.parametrize("measure", [pid_quantised, pid_neural])
@pytest.mark.parametrize(
    ("y", "settings", "quoted"),
    [
        (np.where(LABELS == 1, np.nan, 0.0), {}, "Labels hold 30 NaN; drop those examples"),
        ([None, *NAMES[1:]], {}, "Labels hold 1 None or NaN; drop those examples"),
        (np.array([0, *NAMES[1:]], dtype=object), {}, "got both"),
        (RAGGED, {}, "got a list"),
        (LABELS, {"nulls": None}, "got None"),
        (LABELS, {"seed": -1}, "got -1"),
        (LABELS, {"level": 95}, "got 95"),
    ],
)
def test_a_mistake_in_a_decomposition_is_one_sentence(measure, y, settings, quoted):
    refuses(lambda: measure(TABLE, TABLE, y, **settings), quoted)


@pytest.mark.parametrize(
    ("measure", "settings", "quoted"),
    [
        (pid_quantised, {"clusters": 2.5}, "got 2.5"),
        (pid_neural, {"hidden": [64]}, "got [64]"),
        (pid_neural, {"lr": "1e-3"}, "got '1e-3'"),
    ],
)
def test_a_setting_of_a_decomposition_is_refused(measure, settings, quoted):
    refuses(lambda: measure(TABLE, TABLE, LABELS, **settings), quoted)


def test_the_missing_value_of_pandas_is_no_label():
    missing = pytest.importorskip("pandas").NA
    refuses(
        lambda: pid_quantised(TABLE, TABLE, np.array([missing, *NAMES[1:]], dtype=object)), "Labels hold 1 None or NaN"
    )


# What was found


def test_one_name_finds_its_row_of_the_agreement_table_and_is_not_read_letter_by_letter():
    table = agreement_table({"a": LABELS, "b": LABELS, "ab": 1 - LABELS}, LABELS, LABELS)
    assert table["ab"].right == ("ab",)
    assert table["a", "b"].right == ("a", "b")


@pytest.mark.parametrize(
    ("look", "quoted"),
    [
        (lambda: agreement_table(OWN, LABELS, LABELS)["img"], "no row of 'img'; "),
        (lambda: usage(both, PAIR, LABELS, draws=1)["c"], "no modality 'c'; there are 'a', 'b'"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_those_that_are(look, quoted):
    with pytest.raises(KeyError, match=quoted):
        look()
