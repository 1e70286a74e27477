"""Mistakes in calling the measures: each is one sentence, before anything is computed that would be wrong or in vain."""

import numpy as np
import pytest
import torch

import synib
from synib import Categorical, FusionModel, RandomMask, ShuffledNoise, StandardNoise, Tokens
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


def refuses(call, said):
    with pytest.raises(ValueError, match=said) as wrong:
        call()
    assert "\n" not in str(wrong.value)


# Of a model and examples

OF_MODELS = [usage, emap, interaction, scores_under_corruption]


@pytest.mark.parametrize("measure", OF_MODELS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"predict": torch.zeros(N, 2)},
            "The model is a FusionModel or a function .*; got Tensor: give the model itself",
        ),
        ({"predict": TABLE}, "The model is a FusionModel or a function of the modalities; got ndarray"),
        ({"predict": FusionModel}, "The model is a FusionModel or a function .*; got the class FusionModel"),
        ({"predict": synib.SynIB()}, "of a model; got the objective SynIB: give what it trains"),
        (
            {"modalities": {**PAIR, "b": ["x"] * N}},
            r"Modality 'b' is a tensor, an array of numbers or synib\.Tokens; got list",
        ),
        ({"modalities": {**PAIR, "b": RAGGED}}, "Modality 'b' is a tensor, .*; got list"),
        ({"modalities": {**PAIR, "b": None}}, "Modality 'b' is a tensor, .*; got NoneType"),
        ({"modalities": {**PAIR, "b": NAMES}}, "Modality 'b' is a tensor, .*; got ndarray"),
        ({"modalities": {**PAIR, "b": Tokens(torch.zeros(N, 2, 1), None)}}, "Modality 'b' is a tensor, .*; got Tokens"),
        ({"target": NAMES}, r"The target is one .*class number .*for each example; got shape \(60,\) of <U3"),
        ({"target": NAMES.astype(object)}, r"The target is one .*class number .*; got shape \(60,\) of object"),
        ({"target": RAGGED}, "The target is one .*for each example; got a list with rows of several lengths"),
        ({"family": "bernoulli"}, r"family is .*\(\); got 'bernoulli'"),
        ({"family": synib.Bernoulli}, r"family is .*\(\); got the class Bernoulli"),
        ({"family": RandomMask(0.5)}, r"family is .*\(\); got RandomMask"),
        ({"seed": None}, "seed is a whole number of at least 0; got None"),
        ({"seed": -1}, "seed is a whole number of at least 0; got -1"),
        ({"chunk": None}, "chunk is a whole number of at least 1; got None"),
    ],
)
def test_a_mistake_is_one_sentence_in_every_measure_of_a_model(measure, wrong, said):
    refuses(lambda: measure(**{"predict": both, "modalities": PAIR, "target": LABELS, **wrong}), said)


@pytest.mark.parametrize(
    ("measure", "wrong", "said"),
    [
        (usage, {"mask": "random"}, r"mask is a Mask such as RandomMask\(1\.0\); got 'random'"),
        (
            usage,
            {"noise": ShuffledNoise},
            r"noise is a Noise such as .*; got the class ShuffledNoise: write ShuffledNoise\(",
        ),
        (usage, {"reference": "uniform"}, r"reference is a Reference such as Uniform\(\); got 'uniform'"),
        (usage, {"draws": 1.5}, r"draws is a whole number of at least 1; got 1\.5"),
        (usage, {"level": "95%"}, "level, .*, lies between 0 and 1; got '95%'"),
        (emap, {"pairs": 2.5}, r"pairs is a whole number of at least 2; got 2\.5"),
        (emap, {"pairs": "all"}, "pairs is a whole number of at least 2; got 'all'"),
        (interaction, {"draws": "all"}, "draws is a whole number of at least 2; got 'all'"),
        (scores_under_corruption, {"noise": "shuffled"}, r"noise is a Noise such as ShuffledNoise\(\); got 'shuffled'"),
        (scores_under_corruption, {"noise": StandardNoise}, r"got the class StandardNoise: write StandardNoise\("),
        (scores_under_corruption, {"noise": Categorical()}, r"noise is a Noise .*; got Categorical\(\)"),
        (scores_under_corruption, {"draws": True}, "draws is a whole number of at least 1; got True"),
        (scores_under_corruption, {"resamples": 1e3}, r"resamples is a whole number of at least 1; got 1000\.0"),
    ],
)
def test_a_setting_of_a_measure_of_a_model_is_said_to_be_wrong(measure, wrong, said):
    refuses(lambda: measure(both, PAIR, LABELS, **wrong), said)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"modalities": {"img": PAIR["a"], "b": PAIR["b"]}}, "modalities are 'a', 'b'; unknown: 'img'; missing: 'a'"),
        ({"target": NAMES}, r"The target is one class number or value for each example; got shape \(60,\) of <U3"),
        ({"target": None}, "The target is one class number or value for each example; got NoneType"),
        ({"groups": {"all": NAMES}}, r"Group 'all' says for each of the 60 examples .*; got shape \(60,\) of <U3"),
        ({"family": "categorical"}, r"family is a Family such as Categorical\(\); got 'categorical'"),
        ({"most": 1.5}, r"most is a whole number of at least 1; got 1\.5"),
    ],
)
def test_a_mistake_in_ntk_is_one_sentence(wrong, said):
    refuses(lambda: ntk(**{"model": MODEL, "modalities": PAIR, "target": LABELS, "groups": ALL, **wrong}), said)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"objective": "synib"}, r"objective is a SynIB such as SynIB\(\); got 'synib'"),
        ({"objective": synib.Vanilla()}, r"objective is a SynIB such as SynIB\(\); got Vanilla\("),
        ({"objective": synib.SynIB(sample=1)}, "sees every counterfactual of an example: leave sample at None; got 1"),
        ({"model": TABLE}, "The model is a FusionModel or a function of the modalities; got ndarray"),
        ({"modalities": {**PAIR, "b": ["x"] * N}}, r"Modality 'b' is a tensor, an array of numbers or .*; got list"),
        ({"modalities": {"img": PAIR["a"], "b": PAIR["b"]}}, "modalities are 'a', 'b'; unknown: 'img'; missing: 'a'"),
        ({"target": NAMES}, r"The target is one class number or value for each example; got shape \(60,\) of <U3"),
        ({"target": LABELS[:5]}, r"The target needs a row for each of 60 examples; got shape \(5,\)"),
        ({"seed": -1}, "seed is a whole number of at least 0; got -1"),
        (
            {"modalities": {name: v[:3] for name, v in PAIR.items()}, "target": LABELS[:3]},
            "A probe needs at least 4 examples, .*; got 3",
        ),
    ],
)
def test_a_mistake_in_detectability_is_one_sentence(wrong, said):
    swap = synib.SynIB(RandomMask(1.0), ShuffledNoise())
    given = {"objective": swap, "model": MODEL, "modalities": PAIR, "target": LABELS}
    refuses(lambda: detectability(**given | wrong), said)


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
    refuses(lambda: measure(both, texts, labels), "Modality 'b' is a tensor, .*; got DataFrame")


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
    ("call", "said"),
    [
        (
            lambda: synergy_subset({"a": [LABELS.tolist(), [0]], "b": LABELS}, LABELS),
            "a has rows of one length; got a list",
        ),
        (lambda: synergy_subset(OWN, RAGGED), "The target has rows of one length; got a list"),
        (
            lambda: synergy_subset(OWN, LABELS).score(LABELS, seed=None),
            "seed is a whole number of at least 0; got None",
        ),
        (lambda: synergy_subset(OWN, LABELS).score(LABELS, resamples=0.5), r"resamples is a whole number .*; got 0\.5"),
        (lambda: agreement_table(OWN, LABELS, LABELS, resamples="many"), "resamples is a whole number .*; got 'many'"),
        (lambda: shuffle_within_class(torch.zeros(N, 2), LABELS), "Modalities are a dict of name → tensor; got Tensor"),
        (lambda: shuffle_within_class({"a": None}, LABELS), "Modality 'a' is a tensor, .*; got NoneType"),
        (lambda: shuffle_within_class(PAIR, LABELS, seed=0.5), r"seed is a whole number; got 0\.5"),
        (lambda: interaction_gain({"a": NAMES}, NAMES, LABELS), r"unimodal\['a'\] is an array of numbers; got"),
        (
            lambda: interaction_gain({"a": RAGGED}, LABELS, LABELS),
            r"unimodal\['a'\] has rows of one length; got a list",
        ),
        (lambda: interaction_gain({"a": [1, 2, 3]}, [1, 2, 3], [0, 1, 0]), "Two folds need at least 4 examples; got 3"),
        (
            lambda: interaction_gain(LOGITS, LABELS, LABELS, folds=2.5),
            r"folds is a whole number between 2 and .*; got 2\.5",
        ),
        (
            lambda: scores(TABLE, NAMES),
            r"The target is one whole class number for each example; got shape \(60,\) of <U3",
        ),
        (lambda: scores(TABLE, None), "The target is one whole class number for each example; got NoneType"),
        (lambda: scores(NAMES, LABELS), r"A prediction is numbers, .*; got shape \(60,\) of <U3"),
        (lambda: scores(RAGGED, [0, 1]), "A prediction is numbers, .*; got a list with rows of several lengths"),
        (
            lambda: calibration(TABLE, LABELS, Categorical()),
            r"bins is a whole number of at least 1; got Categorical\(\)",
        ),
        (lambda: calibration(TABLE, LABELS, 7.5), r"bins is a whole number of at least 1; got 7\.5"),
        (
            lambda: correct(Categorical(), torch.zeros(4, 2), torch.zeros(4, 1)),
            r"what is predicted, \(4,\); got \(4, 1\)",
        ),
        (lambda: correct(Categorical(), torch.zeros(4, 2), torch.zeros(3)), r"what is predicted, \(4,\); got \(3,\)"),
        (
            lambda: correct(torch.zeros(4, 2), torch.zeros(4), Categorical()),
            "family is a Family such as .*; got tensor",
        ),
        (lambda: accuracies(torch.ones(4), [torch.ones(4)], "x"), "Groups are a dict of name → .*; got \\[tensor"),
        (
            lambda: accuracies(torch.ones(4), {"g": torch.ones(4, 1)}, "x"),
            r"Group 'g' is shaped like .*\(4,\); got \(4, 1\)",
        ),
        (
            lambda: group_losses(Categorical(), torch.ones(4), torch.zeros(4, 3), {}, "x"),
            r"expects logits .*; got \(4,\)",
        ),
    ],
)
def test_a_mistake_in_a_measure_of_predictions_is_one_sentence(call, said):
    refuses(call, said)


# Of numbers


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: bootstrap(TABLE[:, 0], np.mean),
            r"statistic is a function such as np\.mean, before the data; got ndarray",
        ),
        (lambda: bootstrap(lambda x: x.mean(), TABLE[:, 0]), "statistic takes axis, .*; give vectorized=False"),
        (lambda: bootstrap(np.mean), "at least one array with a row for each example; got none"),
        (lambda: bootstrap(np.mean, 3.0), "a row for each example; got a single number"),
        (lambda: bootstrap(np.mean, NAMES), "The statistic takes numbers; got <U3"),
        (lambda: bootstrap(np.mean, TABLE), r"is one number; got shape \(2,\)"),
        (lambda: bootstrap(np.mean, RAGGED), "An array has rows of one length; got a list"),
        (lambda: bootstrap(np.mean, TABLE[:, 0], draws=1.5), r"draws is a whole number of at least 1; got 1\.5"),
        (lambda: statistics([None, 1.0]), r"a list of numbers; got \[None, 1\.0\]"),
        (lambda: statistics(0.5), r"a list of numbers; got 0\.5"),
        (
            lambda: interval(0.5, statistics([0.5])["se"], 1),
            "standard error, which only 2 numbers or more have; got None",
        ),
    ],
)
def test_a_mistake_in_a_statistic_is_one_sentence(call, said):
    refuses(call, said)


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
    ("y", "settings", "said"),
    [
        (np.where(LABELS == 1, np.nan, 0.0), {}, "Labels hold 30 NaN; drop those examples"),
        ([None, *NAMES[1:]], {}, "Labels hold 1 None or NaN; drop those examples"),
        (np.array([0, *NAMES[1:]], dtype=object), {}, "Labels are all numbers or all texts; got both"),
        (RAGGED, {}, "y has rows of one length; got a list"),
        (LABELS, {"nulls": None}, "nulls is a whole number of at least 0; got None"),
        (LABELS, {"seed": -1}, "seed is a whole number of at least 0; got -1"),
        (LABELS, {"level": 95}, "level, .*, lies between 0 and 1; got 95"),
    ],
)
def test_a_mistake_in_a_decomposition_is_one_sentence(measure, y, settings, said):
    refuses(lambda: measure(TABLE, TABLE, y, **settings), said)


@pytest.mark.parametrize(
    ("measure", "settings", "said"),
    [
        (pid_quantised, {"clusters": 2.5}, r"clusters is a whole number of at least 2; got 2\.5"),
        (pid_quantised, {"clusters": "auto"}, "clusters is a whole number of at least 2; got 'auto'"),
        (pid_neural, {"hidden": [64]}, r"hidden is a whole number of at least 1; got \[64\]"),
        (pid_neural, {"epochs": 1.5}, r"epochs is a whole number of at least 1; got 1\.5"),
        (pid_neural, {"lr": "1e-3"}, "lr is a number above 0; got '1e-3'"),
    ],
)
def test_a_setting_of_a_decomposition_is_said_to_be_wrong(measure, settings, said):
    refuses(lambda: measure(TABLE, TABLE, LABELS, **settings), said)


def test_the_missing_value_of_pandas_is_no_label():
    missing = pytest.importorskip("pandas").NA
    refuses(
        lambda: pid_quantised(TABLE, TABLE, np.array([missing, *NAMES[1:]], dtype=object)), "Labels hold 1 None or NaN"
    )


# What was found


def test_one_name_finds_its_row_of_the_agreement_table_and_is_not_read_letter_by_letter():
    table = agreement_table({"a": LABELS, "b": LABELS, "ab": 1 - LABELS}, LABELS, LABELS, resamples=5)
    assert table["ab"].right == ("ab",)
    assert table["a", "b"].right == ("a", "b")


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (lambda: agreement_table(OWN, LABELS, LABELS, resamples=5)["img"], "no row of 'img'; .* 'image', 'text'"),
        (lambda: usage(both, PAIR, LABELS, draws=1)["c"], "no modality 'c'; there are 'a', 'b'"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_those_that_are(look, said):
    with pytest.raises(KeyError, match=said):
        look()
