"""Attention fusion of the digits: tokens, forms with masks over them, the search's own ladder, and the claims."""

from collections import Counter

import pytest
import torch

from synib import Tokens
from synib.files import read_csv
from synib.studies import Attention, AttentionSearch
from synib.studies.attention.search import CORE, TASKS
from synib.studies.attention.tasks import SHAPES, as_tokens
from synib.studies.digits import experiment as digits
from synib.studies.digits.data import BANDS, FRAMES, SIDE
from synib.studies.fair.catalogue import neighbours
from synib.studies.fair.search import parsed
from synib.training import fleet

TINY = {"width": 4, "epochs": 1}


@pytest.fixture
def small_data(digits_root, monkeypatch):
    whole = digits.digits

    def few(*arguments, **options):
        return whole(*arguments, **{**options, "train": 96, "validation": 40, "test": 40})

    monkeypatch.setattr(digits, "digits", few)
    digits.digits_data.cache_clear()
    yield str(digits_root)
    digits.digits_data.cache_clear()


def test_a_frame_has_all_bands_of_a_moment_and_a_patch_is_a_square_of_the_image(small_data):
    vectors = digits.DigitsScarce(root=small_data).data(digits.DigitsScarce(root=small_data).cells()[0])
    data = as_tokens(vectors)
    assert data.validation.target is vectors.validation.target
    for name, (steps, width) in SHAPES.items():
        assert data.train.modalities[name].values.shape == (96, steps, width)
        assert not data.train.modalities[name].padding.any()
    sound = vectors.test.modalities["audio"].view(-1, BANDS, FRAMES)
    image = vectors.test.modalities["image"].view(-1, SIDE, SIDE)
    torch.testing.assert_close(data.test.modalities["audio"].values[:, 5], sound[:, :, 5])
    torch.testing.assert_close(data.test.modalities["image"].values[:, 6], image[:, 7:14, 14:21].flatten(1))


def test_every_form_begins_with_nine_candidates_and_dropout_has_a_finer_ladder():
    search = AttentionSearch(task=TASKS, form=("all",), seeds=1)
    assert set(Counter((c.factors["task"], c.factors["form"]) for c in search.cells()).values()) == {9}
    assert all(parsed(c.factors["candidate"]).items() <= c.settings.items() for c in search.cells())
    assert {"dropout": 0.2} in [
        {k: v for k, v in n.items() if k == "dropout"} for n in neighbours({"dropout": 0.0}, search.ladders)
    ]
    assert Attention().form == AttentionSearch().form == CORE


def test_masks_select_tokens_and_fills_are_swapped_or_hidden():
    forms = AttentionSearch(form=("all",))._forms("digits")
    for name, (method, settings) in forms.items():
        if name.startswith("recipe"):  # fixed on all tasks
            assert settings["noise"] == "shuffled"
            assert "over" not in settings
            continue
        assert settings.get("noise") == {"swapp": "shuffled", "hidde": "hidden"}.get(name.partition(", ")[2][:5])
        assert settings.get("over", "coordinates") == (
            "tokens" if method in ("masked-random", "synib-learned") or "random" in name else "coordinates"
        )
    assert forms["SynIB marginal, swapped, annealed"].settings["draws"] == 16


def test_every_form_is_trained_in_the_fleet_on_tokens(small_data):
    methods = AttentionSearch(form=("all",)).methods
    options = {"root": small_data, "form": ("all",), "seeds": 1, "overrides": dict.fromkeys(methods, TINY)}
    search = AttentionSearch(task=("digits-modulo-3",), **options)
    for cell in {c.factors["form"]: c for c in search.cells()}.values():
        data = search.data(cell)
        assert data.test is None
        assert isinstance(data.train.modalities["audio"], Tokens)
        trained = fleet.train(search, [cell], "cpu")
        assert not trained.failures, cell.factors
        assert {"total", "synergy", "log_loss"} <= trained.metrics[0].keys()


def test_claims_of_marginal_synib_over_vanilla_and_confidence_are_primary(monkeypatch):
    monkeypatch.setattr(Attention, "_chosen", {"digits": {}})
    experiment = Attention()
    rows = []
    for cell in experiment.cells():
        score = 0.6 + 0.1 * ("marginal" in cell.factors["form"]) + 0.01 * cell.seed * (cell.method == "vanilla")
        row = {"method": cell.method, **cell.factors, "seed": cell.seed, "total": 0.9, "synergy": score, "ece": 0.1}
        rows.append(row)
    claims = experiment.claims(experiment.summary(rows))
    primary = [(c["form"], c["rival"]) for c in claims if c["primary"]]
    marginal = "SynIB marginal, swapped, annealed"
    assert primary == [(marginal, "vanilla"), (marginal, "confidence, annealed")]
    assert {c["form"] for c in claims} == {marginal, "SynIB learned, swapped, annealed"}


def test_one_rule_chooses_by_validation_accuracy(small_data, tmp_path, monkeypatch):
    from synib.report import build
    from synib.studies import run

    def examine(self, cell, learner, data):
        total = 1 - cell.settings["dropout"] - abs(cell.settings["lr"] - 1e-3)
        return {"total": total, "synergy": 0.5, "ece": 0.0, "ece_calibrated": 0.0, "log_loss": 0.0}

    monkeypatch.setattr(AttentionSearch, "examine", examine)
    search = AttentionSearch(root=small_data, form=("confidence, annealed",), seeds=1, overrides={"confidence": TINY})
    folder = build(run(search, tmp_path / "out", device="cpu"))
    assert "gain" not in (tmp_path / "out" / "settings.json").read_text()
    tried = {row["candidate"] for row in read_csv(tmp_path / "out" / "results.csv")}
    assert "lr=0.001, dropout=0.2, weight=3" in tried
    assert folder is not None
