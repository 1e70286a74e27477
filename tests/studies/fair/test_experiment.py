"""The fair comparison at test: what is trained, shares of the attainable, and claims."""

import json

import pytest

from synib.measure import interval
from synib.report import build
from synib.studies import Fair, run
from synib.studies.fair.catalogue import NO_CUES
from synib.studies.fair.experiment import PRIMARY

SCORES = {  # of 12 seeds: speakers differ, and seeds of one speaker
    "vanilla": 0.55,
    "confidence, annealed": 0.75,
    "recipe": 0.85,
    "SynIB marginal, swapped, annealed": 0.84,
    NO_CUES: 0.9,
}


def rows(experiment, scores):
    found = []
    for cell in experiment.cells():
        seed, form = cell.seed, cell.factors["form"]
        wobble = 0.01 * (seed % 6) * (1 if form == "recipe" else 0.5) + 0.004 * (seed // 6)
        score = scores[form] + wobble
        found.append(
            {"method": cell.method, **cell.factors, "seed": seed, "total": score, "synergy": score, "ece": 0.1}
        )
    return found


def fair(**options):
    return Fair(task=("digits",), form=tuple(SCORES), **options)


def test_shares_are_of_the_lead_that_the_ceiling_has_over_chance():
    experiment = fair()
    summary = experiment.summary(rows(experiment, SCORES))
    means = {(r["form"], r["metric"]): r["mean"] for r in summary if r["selection"] == "gain"}
    ceiling = means[NO_CUES, "synergy"]
    for form in SCORES:
        expected = (means[form, "synergy"] - 0.5) / (ceiling - 0.5)
        assert means[form, "share"] == pytest.approx(expected)
    assert means[NO_CUES, "share"] == pytest.approx(1.0)


def test_claims_are_paired_by_speaker_corrected_for_shared_training_data_and_adjusted_by_family():
    experiment = fair()
    summary = experiment.summary(rows(experiment, SCORES))
    claims = {(c["form"], c["rival"]): c for c in experiment.conclusions(summary)["claims"]}
    lead = claims["recipe", "confidence, annealed"]
    assert (lead["n"], lead["unit"], lead["primary"]) == (6, "speaker", True)
    assert lead["lead"] == pytest.approx(0.1 + 0.005 * 2.5)
    differences = [0.1 + 0.005 * k for k in range(6)]  # the two seeds of a speaker are one observation
    spread = sum((d - lead["lead"]) ** 2 for d in differences) / 5
    low, high = interval(lead["lead"], (spread / 6) ** 0.5, 6, test_share=1 / 6)
    assert (lead["low"], lead["high"]) == (pytest.approx(low), pytest.approx(high))
    primary = [c for c in claims.values() if c["primary"]]
    assert {("digits", c["form"], c["rival"]) for c in primary} <= set(PRIMARY)
    assert len(primary) == 2
    smallest = min(primary, key=lambda c: c["p"])
    assert smallest["p_holm"] == pytest.approx(min(1, 2 * smallest["p"]))
    assert all(c["p_holm"] >= c["p"] for c in claims.values())
    note = experiment.tables(summary)[0].note
    assert "recipe over confidence, annealed +0.112" in note


def test_settings_are_those_of_the_search_and_rules_that_agree_are_trained_once(monkeypatch):
    same, other = {"lr": 0.01, "dropout": 0.0, "weight_decay": 1e-4}, {"lr": 0.03, "dropout": 0.5, "weight_decay": 1e-4}
    chosen = {"digits": {"vanilla": {"accuracy": same, "gain": same}, "recipe": {"accuracy": same, "gain": other}}}
    monkeypatch.setattr(Fair, "_chosen", chosen)
    experiment = Fair(task=("digits",), form=("vanilla", "recipe"), seeds=2)
    trained = {(c.factors["form"], c.factors["selection"]): c.settings for c in experiment.cells()}
    assert set(trained) == {("vanilla", "accuracy"), ("recipe", "accuracy"), ("recipe", "gain")}
    assert other.items() <= trained["recipe", "gain"].items()
    assert experiment.caution == ""
    summary = experiment.summary(rows(experiment, SCORES))
    of_vanilla = {r["selection"]: r["mean"] for r in summary if (r["form"], r["metric"]) == ("vanilla", "synergy")}
    assert of_vanilla["accuracy"] == of_vanilla["gain"]


def test_without_a_search_it_says_so():
    unsearched = Fair(task=("digits-pairs",), form=("vanilla", "confidence, annealed", "SynIB whole, Gaussian"))
    said = "Not searched, and trained with the middle of the grid: 1 forms (digits-pairs: SynIB whole, Gaussian)."
    assert unsearched.caution == said
    assert fair().caution == ""


def test_it_trains_and_leaves_a_page_with_claims(tmp_path, monkeypatch):
    searched = {form: own for form, own in Fair()._chosen["pid-xor"].items() if "Gaussian" not in form}
    monkeypatch.setattr(Fair, "_chosen", {"pid-xor": searched})
    methods = Fair(task=("pid-xor",)).methods
    experiment = Fair(
        task=("pid-xor",),
        form=("vanilla", "confidence, annealed", "recipe", "masked inputs, Gaussian", NO_CUES),
        seeds=2,
        overrides={method: {"width": 8, "epochs": 1} for method in methods},
    )
    folder = run(experiment, tmp_path / "out", device="cpu")
    summary = build(folder)
    assert {r["metric"] for r in summary} >= {"total", "synergy", "ece", "synergy_over_confidence, annealed"}
    assert all(r["mean"] is not None for r in summary)
    claims = json.loads((folder / "claims.json").read_text())
    assert {c["unit"] for c in claims} == {"seed"}
    assert "Not searched" in (folder / "README.md").read_text()
