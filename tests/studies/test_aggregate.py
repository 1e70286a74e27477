"""Means over what is not independent, and leads in words."""

import pytest

from synib.measure import interval
from synib.studies.aggregate import grouped, lead_sentences, leads, means, synib_leads


def row(method, fold, seed, score):
    return {"method": method, "fold": fold, "seed": seed, "score": score}


def test_a_fold_is_the_mean_of_its_seeds_and_pairs_methods():
    rows = [row("vanilla", fold, seed, fold + 0.1 * seed) for fold in (0, 1) for seed in (0, 1)]
    rows += [row("experts", fold, 0, fold + 0.25) for fold in (0, 1)]
    averaged = means(rows, ["score"], "fold")
    assert [r["score"] for r in averaged if r["method"] == "vanilla"] == pytest.approx([0.05, 1.05])
    assert leads(averaged, "score", "vanilla") == {"experts": pytest.approx([0.2, 0.2])}


def test_missing_values_are_left_out_of_a_mean():
    rows = [row("vanilla", 0, 0, None), row("vanilla", 0, 1, 0.5), row("vanilla", 1, 0, None)]
    assert [r["score"] for r in means(rows, ["score"], "fold")] == [0.5, None]


def test_groups_keep_the_order_of_the_rows():
    rows = [row("b", 0, 0, 1), row("a", 0, 0, 2), row("b", 1, 0, 3)]
    assert {key: [r["score"] for r in members] for key, members in grouped(rows, "method").items()} == {
        ("b",): [1, 3],
        ("a",): [2],
    }


def test_leads_are_those_of_synibs_forms_with_their_intervals():
    lead = {"mean": 0.04, "se": 0.01, "n": 3}
    rows = {(m, "gain"): lead for m in ("experts", "synib-random", "mcr")}
    low, high = interval(0.04, 0.01, 3)
    text = synib_leads(rows, ("mcr", "experts", "synib-random", "synib-learned"), "gain")
    assert text == f"experts +0.040 [{low:+.3f}, {high:+.3f}], synib-random +0.040 [{low:+.3f}, {high:+.3f}]"
    low, high = interval(0.04, 0.01, 3, test_share=0.2)  # folds of one data set share rows
    assert synib_leads(rows, ("experts",), "gain", 0.2) == f"experts +0.040 [{low:+.3f}, {high:+.3f}]"
    assert low == pytest.approx(0.04 - 4.302653 * 0.01 * (1 + 3 / 4) ** 0.5)
    assert synib_leads(rows, ("mcr",), "gain") == synib_leads(rows, ("experts",), "other") == ""
    assert synib_leads({("experts", "gain"): lead | {"se": None, "n": 1}}, ("experts",), "gain") == ""  # a single seed
    (sentence,) = lead_sentences(rows, ("experts",), {"gain": "accuracy above vanilla", "other": "another"}, "fold")
    assert sentence.startswith("SynIB's accuracy above vanilla, paired by fold, with 95 % confidence intervals")
