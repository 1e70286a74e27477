"""Mistakes in calling measures of predictions, numbers and information: each is one sentence, before anything is computed."""

import math

import numpy as np
import pytest
import torch

from synib import Bernoulli, Categorical, Gaussian
from synib.measure import (
    accuracies,
    agreement_table,
    auc,
    best_shift,
    bootstrap,
    calibration,
    correct,
    f1_by_class,
    group_losses,
    interaction_gain,
    interval,
    pid_neural,
    pid_quantised,
    scores,
    shuffle_within_class,
    statistics,
    synergy_subset,
)
from synib.measure.stats import (
    corrected_resampled_t,
    difference,
    mean,
    proportion,
    simultaneous,
    temperature,
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


def refuses(call, quoted):
    """One sentence that quotes what came."""
    with pytest.raises(ValueError) as mistake:
        call()
    assert quoted in str(mistake.value)
    assert "\n" not in str(mistake.value)


# Of predictions


@pytest.mark.parametrize(
    ("call", "quoted"),
    [
        (lambda: synergy_subset({"a": [LABELS.tolist(), [0]], "b": LABELS}, LABELS), "got a list"),
        (lambda: synergy_subset(OWN, RAGGED), "got a list"),
        (lambda: shuffle_within_class(torch.zeros(N, 2), LABELS), "got Tensor"),
        (lambda: shuffle_within_class({"a": None}, LABELS), "got NoneType"),
        (lambda: shuffle_within_class(PAIR, LABELS, seed=0.5), "got 0.5"),
        (lambda: interaction_gain({"a": NAMES}, NAMES, LABELS), "unimodal['a'] must be an array of numbers; got"),
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
        (lambda: shuffle_within_class({"a": torch.zeros(5)}, LABELS), "'a' has 5 examples, but the target has 60"),
        (
            lambda: synergy_subset({"a": [LABELS] * 3}, LABELS).score([LABELS] * 2),
            "fusion has 2 seeds, but the subset has 3",
        ),
        (lambda: synergy_subset(OWN, LABELS).score(LABELS, control=LABELS[:5]), "control must be predicted labels"),
        (lambda: agreement_table({"fusion": LABELS}, LABELS, LABELS), "got ['fusion']"),
        (lambda: scores(TABLE, 2 * LABELS), "got 2"),
        (lambda: scores(TABLE[:0], LABELS[:0]), "got none"),
        (lambda: scores(math.inf * TABLE, LABELS), "120 values are not"),
        (lambda: scores(TABLE, LABELS, Gaussian()), "got Gaussian"),
        (lambda: f1_by_class([0, 3], [0, 1], 3), "got 0 to 3"),
        (lambda: f1_by_class([0], [0, 1], 2), "got 1 and 2"),
        (lambda: best_shift([0.0, 1.0], [0, 1], 0), "got (2,)"),
        (lambda: best_shift([[0.0, math.inf]], [0], 0), "1 values are not"),
        (lambda: best_shift([[0.0, 1.0]], [0], 2), "got 2"),
        (lambda: auc([1.0, 2.0], [0, 1]), "got int64"),
        (lambda: auc([1.0], [True, False]), "got (1,)"),
        (lambda: auc([1.0, math.nan], [True, False]), "1 of 2 are NaN"),
        (lambda: temperature(torch.zeros(4), torch.zeros(3), Bernoulli()), "one target for each of 4 examples"),
        (lambda: temperature(torch.zeros(4, 5), torch.zeros(4, 2), Gaussian(2)), "got Gaussian"),
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
        (lambda: bootstrap(lambda x: x.mean(), TABLE[:, 0]), ": use vectorized=False"),
        (lambda: bootstrap(np.mean), "got none"),
        (lambda: bootstrap(np.mean, 3.0), "got a single number"),
        (lambda: bootstrap(np.mean, NAMES), "got <U3"),
        (lambda: bootstrap(np.mean, TABLE), "got shape (2,)"),
        (lambda: bootstrap(np.mean, RAGGED), "got a list"),
        (lambda: bootstrap(np.mean, TABLE[:, 0], draws=1.5), "got 1.5"),
        (lambda: bootstrap(np.mean, TABLE[:, 0], level=95), "got 95"),
        (lambda: bootstrap(lambda a, b, axis: a.mean(axis), [1, 2, 3], [1, 2]), "got [3, 2] rows"),
        (lambda: mean(TABLE), "got shape (60, 2)"),
        (lambda: mean(TABLE[:, 0], [0, 1]), "got shape (2,)"),
        (lambda: proportion([0.0, 1.5]), "got values from 0 to 1.5"),
        (lambda: proportion([0.0, math.nan]), "got values from nan to nan"),
        (lambda: difference([2.0], [0.0]), "got values from 2 to 2"),
        (lambda: corrected_resampled_t([0.1, 0.2], 5), "got 5"),
        (lambda: simultaneous(TABLE[:, 0]), "got shape (60,)"),
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
        (np.where(LABELS == 1, np.nan, 0.0), {}, "Labels contain 30 NaN: drop those examples"),
        ([None, *NAMES[1:]], {}, "Labels contain 1 None or NaN: drop those examples"),
        (np.array([0, *NAMES[1:]], dtype=object), {}, "got both"),
        (RAGGED, {}, "got a list"),
        (LABELS, {"nulls": None}, "got None"),
        (LABELS, {"seed": -1}, "got -1"),
        (LABELS, {"level": 95}, "got 95"),
    ],
)
def test_a_mistake_in_a_decomposition_is_one_sentence(measure, y, settings, quoted):
    refuses(lambda: measure(TABLE, TABLE, y, **settings), quoted)


@pytest.mark.parametrize("measure", [pid_quantised, pid_neural])
@pytest.mark.parametrize(
    ("given", "quoted"),
    [
        ((TABLE, TABLE[:50], LABELS), "got an array of shape (50, 2)"),
        ((TABLE * math.nan, TABLE, LABELS), "x1 contains NaN or infinite values"),
        (({"a": TABLE}, TABLE, LABELS), "got a dict"),
        ((TABLE, TABLE, LABELS * 0), "no information to decompose"),
        ((TABLE, TABLE, TABLE[:, 0]), "got 60 values in 60 examples"),
        ((TABLE, TABLE, TABLE), "got an array of shape (60, 2)"),
    ],
)
def test_sources_and_labels_that_cannot_be_decomposed_are_refused(measure, given, quoted):
    refuses(lambda: measure(*given), quoted)


@pytest.mark.parametrize(
    ("measure", "settings", "quoted"),
    [
        (pid_quantised, {"clusters": 2.5}, "got 2.5"),
        (pid_quantised, {"clusters": 30}, "at least 120 examples; got 60"),
        (pid_neural, {"epochs": 0}, "got 0"),
        (pid_neural, {"device": "gpu"}, "got 'gpu'"),
        (pid_neural, {"hidden": [64]}, "got [64]"),
        (pid_neural, {"lr": "1e-3"}, "got '1e-3'"),
    ],
)
def test_a_setting_of_a_decomposition_is_refused(measure, settings, quoted):
    refuses(lambda: measure(TABLE, TABLE, LABELS, **settings), quoted)


def test_the_missing_value_of_pandas_is_no_label():
    missing = pytest.importorskip("pandas").NA
    refuses(
        lambda: pid_quantised(TABLE, TABLE, np.array([missing, *NAMES[1:]], dtype=object)),
        "Labels contain 1 None or NaN",
    )
