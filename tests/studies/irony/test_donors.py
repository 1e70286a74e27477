"""Which examples become ironic, and whose voice each gets."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib.studies.irony.crema_d import CONTRADICTIONS as CREMA_D
from synib.studies.irony.donors import make_ironic
from synib.studies.irony.ravdess import CONTRADICTIONS as RAVDESS

MAPS = pytest.mark.parametrize("contradictions", [CREMA_D, RAVDESS], ids=["crema-d", "ravdess"])
DONORS = pytest.mark.parametrize("donors", ["paper", "balanced"])


def labels(contradictions, each=60):
    return np.tile(np.arange(len(contradictions)), each)


def with_irony(y, alpha, contradictions, **options):
    rows = np.arange(len(y))
    return make_ironic(rows, rows, y, alpha, contradictions, **options)


def spread(y, classes):
    return np.bincount(y, minlength=classes)


@MAPS
@DONORS
@pytest.mark.parametrize("alpha", [0.0, 0.55, 2.0])
def test_a_share_of_a_mean_class_becomes_ironic_in_place(contradictions, donors, alpha):
    y = labels(contradictions)
    out = with_irony(y, alpha, contradictions, donors=donors)
    ironic = out.label == len(contradictions)
    assert ironic.sum() == int(alpha * 60 + 1e-9)
    assert np.array_equal(out.video, np.arange(len(y)))
    assert np.array_equal(out.label[~ironic], y[~ironic])
    assert np.array_equal(out.audio[~ironic], out.video[~ironic])
    assert (y[out.audio[ironic]] != y[ironic]).all()


def test_the_mean_class_counts_classes_of_all_sizes():
    y = np.array([0] * 40 + [1] * 10 + [2] * 7)
    three = {"a": ("b", "c"), "b": ("a",), "c": ("a",)}
    assert (with_irony(y, 0.5, three).label == 3).sum() == 9  # floor(0.5 * 57 / 3)


@MAPS
def test_donors_of_the_paper_contradict_what_is_seen(contradictions):
    y = labels(contradictions, 300)
    names = list(contradictions)
    out = with_irony(y, 2.0, contradictions)
    pairs = {(names[y[v]], names[y[a]]) for v, a in zip(out.video, out.audio, strict=True) if v != a}
    assert pairs == {(seen, heard) for seen, others in contradictions.items() for heard in others}


def test_a_donor_label_is_drawn_before_the_donor():
    y = np.array([0] * 3000 + [1] * 2900 + [2] * 100)  # few of the last, yet it contradicts as often as the other
    out = with_irony(y, 0.5, {"a": ("b", "c"), "b": ("a",), "c": ("a",)})
    heard = y[out.audio[(out.label == 3) & (y == 0)]]
    assert abs((heard == 2).mean() - 0.5) < 0.1


def test_a_larger_alpha_adds_to_the_ironic_examples_of_a_smaller_one():
    y = labels(CREMA_D)
    small, large = (with_irony(y, alpha, CREMA_D) for alpha in (0.3, 1.5))
    ironic = small.label == 6
    assert (large.label[ironic] == 6).all()
    assert np.array_equal(small.audio[ironic], large.audio[ironic])


@MAPS
@given(sizes=st.lists(st.integers(4, 40), min_size=8, max_size=8), alpha=st.floats(0.3, 3), seed=st.integers(0, 99))
def test_balanced_donors_leave_nothing_to_tell_from_one_modality(contradictions, sizes, alpha, seed):
    classes = len(contradictions)
    y = np.repeat(np.arange(classes), sizes[:classes])
    n = int(alpha * len(y) / classes + 1e-9)
    try:
        out = with_irony(y, alpha, contradictions, donors="balanced", seed=seed)
    except ValueError as e:
        assert "in at most half" in str(e)  # noqa: PT017
        assert n < 4 or 2 * max(sizes) * n / len(y) > n - 2
        return
    ironic = out.label == classes
    assert ironic.sum() == n
    seen, heard = (spread(y[x[ironic]], classes) for x in (out.video, out.audio))
    assert np.array_equal(seen, heard)
    assert (np.abs(seen - n * spread(y, classes) / len(y)) < 1).all()
    assert (y[out.audio[ironic]] != y[ironic]).all()
    assert np.array_equal(np.sort(out.audio), np.arange(len(y)))  # every voice is heard once


def test_balanced_donors_prefer_pairs_of_the_map():
    y = labels(CREMA_D, 200)
    names = list(CREMA_D)
    out = with_irony(y, 1.0, CREMA_D, donors="balanced")
    pairs = [(names[y[v]], names[y[a]]) for v, a in zip(out.video, out.audio, strict=True) if v != a]
    assert len(set(pairs)) > 20
    # 43 % if all differing pairs were alike; margins allow 50 %.
    assert np.mean([heard in CREMA_D[seen] for seen, heard in pairs]) > 0.45


@DONORS
def test_the_seed_alone_decides_and_torchs_generator_has_no_part(donors):
    y = labels(CREMA_D)
    torch.manual_seed(1)
    first = with_irony(y, 1.0, CREMA_D, donors=donors, seed=3)
    torch.manual_seed(2)
    again, other = (with_irony(y, 1.0, CREMA_D, donors=donors, seed=seed) for seed in (3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.label, other.label)
    assert not np.array_equal(first.label, with_irony(y, 1.0, CREMA_D, donors=donors, seed=3, split="test").label)


@DONORS
def test_other_clips_with_the_same_labels_are_not_mutated_alike(donors):
    y, rows = labels(CREMA_D), np.arange(360)
    one, other = (make_ironic(r, r, y, 1.0, CREMA_D, donors=donors) for r in (rows, rows + 360))
    assert not np.array_equal(one.label, other.label)


@DONORS
def test_donors_can_be_held_to_the_same_actor(donors):
    y, actors = labels(CREMA_D), np.repeat(np.arange(12), 30)
    out = with_irony(y, 1.0, CREMA_D, donors=donors, within=actors.tolist())
    ironic = out.label == 6
    assert ironic.sum() == 60
    assert np.array_equal(actors[out.audio], actors[out.video])
    assert (y[out.audio[ironic]] != y[ironic]).all()
    if donors == "balanced":
        assert np.array_equal(spread(y[out.audio[ironic]], 6), spread(y[ironic], 6))
    assert (actors[with_irony(y, 1.0, CREMA_D, donors=donors).audio] != actors).any()


def ravdess_clips(actors, neutral_strong=False):
    """Class and key (actor, statement, intensity) of each clip, as in RAVDESS: two takes, neutral with one intensity only."""
    clips = [
        (k, (actor, statement, intensity))
        for actor in range(actors)
        for statement in (1, 2)
        for intensity in (1, 2)
        for k in range(8)
        for _ in range(2)
        if neutral_strong or not (k == 0 and intensity == 2)
    ]
    return np.array([k for k, _ in clips]), [key for _, key in clips]


def shares(rows, keys, column):
    values = np.array([key[column] for key in keys])
    return np.bincount(values[rows]) / len(values[rows])


@given(
    actors=st.integers(1, 24),
    alpha=st.floats(0.1, 2.5),
    seed=st.integers(0, 99),
)
def test_matched_donors_differ_from_what_is_seen_in_emotion_only(actors, alpha, seed):
    y, within = ravdess_clips(actors)
    out = with_irony(y, alpha, RAVDESS, donors="matched", seed=seed, within=within)
    ironic = out.label == 8
    n = int(alpha * len(y) / 8 + 1e-9)
    assert abs(ironic.sum() - max(n, 4 * (n > 0))) <= 2  # an exchange makes four
    assert all(within[seen] == within[heard] for seen, heard in zip(out.video, out.audio, strict=True))
    assert (out.video != out.audio).all()  # ironic or not, face and voice are of two takes
    assert np.array_equal(ironic, y[out.video] != y[out.audio])
    assert np.array_equal(out.label[~ironic], y[~ironic])
    assert np.array_equal(np.sort(out.audio), np.arange(len(y)))  # every voice is heard once
    seen, heard = (spread(y[x[ironic]], 8) for x in (out.video, out.audio))
    assert np.array_equal(seen, heard)
    assert (np.abs(seen - ironic.sum() * spread(y, 8) / len(y)) <= 4).all()  # two classes of two takes
    if not n:
        return
    loud = ironic.sum() * (shares(ironic, within, 2) - shares(slice(None), within, 2))
    assert np.abs(loud).max() <= 4


def test_matched_emotions_are_ironic_equally_often_on_average_even_in_one_actors_clips():
    y, within = ravdess_clips(1)
    ironic = np.mean(
        [with_irony(y, 2.0, RAVDESS, donors="matched", seed=s, within=within).label == 8 for s in range(200)], 0
    )
    rates = [ironic[y == k].mean() for k in range(8)]
    assert max(rates) - min(rates) < 0.1
    assert np.mean(rates) == pytest.approx(16 / 60, abs=0.02)


def test_matched_donors_are_refused_where_there_are_none():
    y, within = ravdess_clips(1)
    with pytest.raises(ValueError, match="Matched donors need within, a key for each example"):
        with_irony(y, 1.0, RAVDESS, donors="matched")
    with pytest.raises(
        ValueError, match="two takes of each class for each key; split 'train' has one of 'surprised' with"
    ):
        with_irony(y[:-1], 1.0, RAVDESS, donors="matched", within=within[:-1])
    with pytest.raises(ValueError, match=r"no two classes left|leaves the class empty"):
        with_irony(y, 7.9, RAVDESS, donors="matched", within=within)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 7}, "alpha must be at most 6; alpha=7 needs 70 ironic examples, but split 'train' has 60"),
        ({"alpha": 5.99}, r"makes all examples of '\w+' in split 'train' ironic, which leaves the class empty"),
        ({"alpha": 6, "donors": "balanced"}, "leaves the class empty"),
        ({"alpha": -1}, "alpha must be a number of at least 0; got -1"),
        ({"alpha": 0.1, "donors": "balanced"}, "at most half of the ironic examples, but in split 'train' 1 of 1 are"),
        ({"donors": "mine"}, "donors must be 'paper', 'balanced' or 'matched'; got 'mine'"),
        ({"seed": 0.5}, "seed must be a whole number; got 0.5"),
        ({"label": np.full(60, 6)}, r"Labels must be class indices 0 to 5 \(NEU, .*\); got 6"),
        ({"label": np.zeros(60)}, "label must be a list of whole numbers; got an array of float64"),
        ({"label": np.zeros(3, int)}, "equal length; got 60, 60 and 3"),
        ({"label": np.full(60, 1)}, "no donor for 'HAP': no example of 'SAD' or 'FEA' or 'DIS' or 'ANG'"),
        ({"within": [0]}, "within must have a key for each of the 60 examples; got 1"),
        ({"within": list(range(60))}, "no donor for .* with "),
        ({"contradictions": {"a": ("b",), "b": ("c",)}}, r"each class to others among 'a', 'b'; got 'b' → \('c',\)"),
        ({"contradictions": {"a": ("a",), "b": ("a",)}}, "to others among 'a', 'b'; got 'a'"),
        ({"contradictions": {}}, "contradictions must map at least 2 classes"),
    ],
)
def test_an_invalid_argument_is_refused(arguments, message):
    rows = np.arange(60)
    valid = {"video": rows, "audio": rows, "label": labels(CREMA_D, 10), "alpha": 1.0, "contradictions": CREMA_D}
    with pytest.raises(ValueError, match=message):
        make_ironic(**(valid | arguments))
