"""Matched irony at test: cells, leads by actor, claims and the answer."""

import json

import pytest

from synib.measure import interval
from synib.measure.stats import holm
from synib.report import build
from synib.studies import IronyMatched, run
from synib.studies.irony.matched_experiment import ELSEWHERE, VALIDATED

BEST = "SynIB whole, swapped, annealed"
OTHER = "SynIB marginal, swapped, annealed"
SCORES = {"vanilla": 0.6, "confidence, annealed": 0.65, "D&R": 0.66, "MMPareto": 0.7, BEST: 0.75, OTHER: 0.8}
VALIDATION = {**SCORES, "MMPareto": 0.6, OTHER: 0.7}


@pytest.fixture
def searched(monkeypatch):
    chosen = {
        form: {
            "settings": {"lr": 1e-3, "dropout": 0.5}
            | ({"weight": 3.0} if form.startswith(("confidence", "SynIB")) else {}),
            "validation_auc": auc,
        }
        for form, auc in VALIDATION.items()
    }
    monkeypatch.setattr(IronyMatched, "_chosen", chosen)


def rows(experiment, scores=SCORES):
    found = []
    for cell in experiment.cells():
        form, seed = cell.factors["form"], cell.seed
        score = scores[form] + 0.002 * (seed % 5) * (form == BEST) + 0.01 * (seed % 7)
        metrics = dict.fromkeys(experiment.metrics([]), score)
        rules = {"voice_irony_auc": 0.5, "face_irony_auc": 0.5}
        found.append({"method": cell.method, **cell.factors, "seed": seed, **metrics, **rules})
    return found


def test_claims_are_of_the_best_forms_on_validation_paired_by_actor_and_corrected(searched):
    experiment = IronyMatched(form=tuple(SCORES), alpha=(0.1, 0.5, 1.0))
    assert experiment.best == {"SynIB": BEST, "confidence": "confidence, annealed", "balancer": "D&R"}
    summary = experiment.summary(rows(experiment))
    claims = experiment.claims(summary)
    primary = [c for c in claims if c["primary"]]
    rivals = ("vanilla", "confidence, annealed", "D&R")
    assert {(c["alpha"], c["form"], c["rival"]) for c in primary} == {(a, BEST, r) for a in (0.1, 0.5) for r in rivals}
    differences = [0.15 + 0.002 * (seed % 5) for seed in range(24)]
    mean = sum(differences) / 24
    se = (sum((d - mean) ** 2 for d in differences) / 23 / 24) ** 0.5
    lead = next(c for c in primary if c["rival"] == "vanilla")
    assert (lead["n"], lead["unit"]) == (24, "actor")
    assert lead["lead"] == pytest.approx(mean)
    assert (lead["low"], lead["high"]) == pytest.approx(interval(mean, se, 24, test_share=1 / 24))
    elsewhere = [d for seed, d in enumerate(differences) if seed not in VALIDATED]
    assert (lead["n_elsewhere"], lead["lead_elsewhere"]) == (15, pytest.approx(sum(elsewhere) / 15))
    assert [c["p_holm"] for c in primary] == pytest.approx(list(holm([c["p"] for c in primary])))
    assert experiment.answer(claims) == {"0.1": True, "0.5": True}
    assert "α = 0.1: yes; α = 0.5: yes" in experiment.tables(summary)[0].note
    assert any(ELSEWHERE in row["metric"] for row in summary)


def test_the_answer_is_no_where_one_rival_is_level(searched):
    experiment = IronyMatched(form=tuple(SCORES), alpha=(0.1,))
    summary = experiment.summary(rows(experiment, {**SCORES, "D&R": SCORES[BEST] + 0.004}))
    assert experiment.answer(experiment.claims(summary)) == {"0.1": False}


def test_models_differ_in_the_tested_actor_and_only_training_data_in_the_rate(takes_root):
    experiment = IronyMatched(root=str(takes_root), form=("vanilla",), alpha=(0.5, 1.0), seeds=2)
    data = {(c.factors["alpha"], c.seed): experiment.data(c) for c in experiment.cells()}
    assert set(data) == {(a, s) for a in (0.5, 1.0) for s in (0, 1)}
    tested = [data[0.5, seed].test.columns["video_id"] for seed in (0, 1)]
    assert not set(tested[0]) & set(tested[1])
    assert data[0.5, 0].test.columns == data[1.0, 0].test.columns
    assert data[0.5, 0].train.columns != data[1.0, 0].train.columns
    assert "Tested on 2 of 24 actors only." in experiment.caution
    for options, message in (
        ({"alpha": (3.0,)}, "at most 2; got"),
        ({"seeds": 25}, "another of 24 actors; got seeds=25"),
    ):
        with pytest.raises(ValueError, match=message):
            IronyMatched(**options)


def test_it_trains_and_leaves_a_page(tmp_path, takes_root, searched):
    forms = ("vanilla", "confidence, annealed", "D&R", BEST, "stacked", f"{BEST}, prior reference", "voice alone")
    methods = IronyMatched(form=forms).methods
    tiny = {method: {"hidden": 8, "latent": 4, "epochs": 2} for method in methods}
    experiment = IronyMatched(root=str(takes_root), form=forms, alpha=(0.5,), seeds=2, overrides=tiny)
    folder = run(experiment, tmp_path / "out", device="cpu")
    summary = build(folder)
    assert {r["form"] for r in summary} >= {*forms, "emotion of the voice, without a model"}
    assert all(r["mean"] is not None for r in summary)
    assert {c["rival"] for c in json.loads((folder / "claims.json").read_text())} >= {"vanilla", "D&R", "stacked"}
    page = (folder / "README.md").read_text()
    assert "Not searched, and trained with the middle of the grid: stacked" in page
    assert (folder / "figure-irony-auc.svg").is_file()
