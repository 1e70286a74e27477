"""The decomposition of evidence is exact, and consistent with EMAP, Shapley interactions and needs_both."""

import numpy as np
import pytest
import torch

import synib
from synib.explanation.rows import agreement
from synib.measure import emap, interaction, interaction_gain
from synib.models import FusionModel

BERNOULLI = synib.Bernoulli()


@pytest.fixture
def rows():
    torch.manual_seed(0)
    return {"a": torch.randn(40, 3), "b": torch.randn(40, 2)}


@pytest.fixture
def model():
    torch.manual_seed(1)
    return FusionModel.mlp({"a": 3, "b": 2}, hidden=[8], classes=3, fusion_hidden=[8])


def total(e):
    return e.baseline + sum(s.value for s in e.unique.values()) + e.shared.value + e.synergy.value


@pytest.mark.parametrize("draws", [2, 7, 40])
def test_the_parts_add_up_to_the_evidence_exactly(model, rows, draws):
    e = synib.explain(model, rows, draws=draws).rows
    assert np.allclose(total(e), e.evidence, atol=1e-12)
    assert np.allclose(
        e.baseline + sum(s.value for s in e.alone.values()) + e.interaction.value, e.evidence, atol=1e-12
    )
    logits = model(rows).detach().double().numpy()
    others = (logits.sum(1) - logits.max(1)) / 2
    assert np.allclose(e.evidence, logits.max(1) - others, atol=1e-5)
    assert (e.answer == logits.argmax(1)).all()


def test_with_all_rows_as_background_it_is_emap_row_by_row_and_in_the_mean(rows):
    torch.manual_seed(2)
    model = FusionModel.mlp({"a": 3, "b": 2}, hidden=[8], classes=1).double()
    target = torch.randint(2, (40,))
    found = emap(model, rows, target, BERNOULLI)
    e = synib.explain(model, rows, family=BERNOULLI, answer=target, draws=40).rows
    sign = 2.0 * target.numpy() - 1
    assert np.allclose(e.evidence - e.interaction.value, sign * found.projection[:, 0], atol=1e-10)
    assert e.gain.mean() == pytest.approx(found.log_loss_added.value, abs=1e-10)


@pytest.mark.parametrize("additive", [0.0, 1.0])
def test_the_mean_gain_is_the_interaction_gain_or_more_because_the_best_additive_model_may_be_better(additive):
    torch.manual_seed(0)
    x = {name: torch.randn(4000, 1) for name in "ab"}

    def model(x):
        return 1.5 * x["a"] * x["b"] + additive * (x["a"] - x["b"])

    target = torch.bernoulli(model(x).sigmoid(), generator=torch.Generator().manual_seed(0)).long()[:, 0]
    mean_gain = synib.explain(model, x, family=BERNOULLI, answer=target, draws=64).rows.gain.mean()
    unimodal = {"a": additive * x["a"][:, 0], "b": -additive * x["b"][:, 0]}
    found = interaction_gain(unimodal, model(x)[:, 0], target).log_loss
    if additive:
        assert mean_gain > found.high
    else:  # the additive part says nothing, and no additive model says more
        assert found.low < mean_gain < found.high


def test_it_is_the_shapley_interaction_of_the_same_draws(rows):
    torch.manual_seed(2)
    model = FusionModel.mlp({"a": 3, "b": 2}, hidden=[8], classes=1)
    e = synib.explain(model, rows, family=BERNOULLI, draws=8, seed=5).rows
    found = interaction(model, rows, family=BERNOULLI, draws=8, seed=5)
    assert np.allclose(np.abs(e.interaction.value), found.values[:, 0, 1] + found.values[:, 1, 0], atol=1e-9)


def test_an_additive_model_has_no_interaction_with_any_draws(rows):
    e = synib.explain(lambda x: x["a"][:, :1] + x["b"][:, :1], rows, family=BERNOULLI, draws=3).rows
    assert np.abs(e.interaction.value).max() < 1e-5
    assert np.abs(e.synergy.value).max() < 1e-5
    assert np.ptp(e.interaction.high - e.interaction.low) < 1e-5


def test_xor_is_all_synergy_and_one_view_is_all_unique():
    bits = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]).repeat(5, 1), torch.tensor([[1.0], [-1.0]]).repeat(10, 1)
    x = {"a": bits[0], "b": bits[1]}
    xor = synib.explain(lambda x: -3 * x["a"] * x["b"], x, family=BERNOULLI).rows
    assert np.allclose(xor.synergy.value, 3)
    assert np.allclose(xor.lead, 3)
    assert np.allclose(xor.needs_both, 1 / (1 + np.exp(-3)) - 0.5, atol=1e-6)
    one = synib.explain(lambda x: 2 * x["a"], x, family=BERNOULLI).rows
    assert np.allclose(one.unique["a"].value, 2)
    assert np.allclose(one.synergy.value, 0)
    assert np.allclose(one.lead, -2)
    assert np.allclose(one.needs_both, 0)


def test_what_both_say_is_shared_whether_it_is_counted_once_or_twice():
    alone = torch.tensor([[2.0, 2.0, 2.0, -1.0], [2.0, 1.0, -1.0, -2.0]])
    twice, overlap = agreement(alone, torch.zeros(4))
    assert twice.tolist() == [[2.0, 1.0, 0.0, -1.0], [2.0, 1.0, 0.0, -1.0]]
    assert overlap.tolist() == [0.0, 0.0, 0.0, 0.0]
    _, overlap = agreement(alone, torch.tensor([-2.0, -5.0, -1.0, 3.0]))  # at most what was counted twice
    assert overlap.tolist() == [-2.0, -1.0, 0.0, 1.0]


def test_of_three_modalities_the_interactions_are_told_apart():
    torch.manual_seed(0)
    x = {name: torch.randn(30, 1) for name in "abc"}
    e = synib.explain(lambda x: x["a"] * x["b"] + x["c"], x, family=BERNOULLI, draws=10).rows
    assert np.abs(e.interactions["a", "c"].value).max() < 1e-5
    assert np.abs(e.interactions["a", "b", "c"].value).max() < 1e-5
    assert np.allclose(sum(s.value for s in e.interactions.values()), e.interaction.value, atol=1e-10)
    assert np.allclose(total(e), e.evidence, atol=1e-12)


def test_the_interval_covers_what_all_draws_say():
    torch.manual_seed(0)
    x = {"a": torch.randn(200, 1), "b": torch.randn(200, 1)}
    few = {name: v[:3] for name, v in x.items()}

    def model(x):
        return x["a"] * x["b"]

    exact = synib.explain(model, few, background=x, family=BERNOULLI, draws=200).rows
    inside = []
    for seed in range(60):  # rows share their draws, so that draws are repeated, and not rows
        found = synib.explain(model, few, background=x, family=BERNOULLI, draws=24, seed=seed).rows.interaction
        inside.append((found.low <= exact.interaction.value) & (exact.interaction.value <= found.high))
    assert 0.85 < np.mean(inside) <= 1


def test_numbers_and_labels_can_be_explained_too(rows):
    e = synib.explain(lambda x: torch.cat([x["a"][:, :1] * x["b"][:, :1], x["a"][:, :1]], 1), rows,
                      family=synib.Gaussian(1)).rows  # fmt: skip
    assert e.kind == "number"
    assert np.allclose(total(e), e.evidence)
    assert np.isnan(e.probability).all()
    labels = synib.explain(lambda x: x["a"], rows, family=synib.MultiLabel()).rows
    assert (labels.evidence >= 0).all()
    assert np.allclose(total(labels), labels.evidence)


def test_a_background_of_other_rows_stands_for_what_is_absent(model, rows):
    few = {name: x[:2] for name, x in rows.items()}
    e = synib.explain(model, few, background=rows).rows
    assert len(e) == 2
    assert np.allclose(total(e), e.evidence, atol=1e-12)
    with pytest.raises(ValueError, match="modalities of the rows, a, b; got a, c"):
        synib.explain(lambda x: x["a"], few, background={"a": rows["a"], "c": rows["b"]})
    with pytest.raises(ValueError, match="at least 2 are needed; got 1"):
        synib.explain(model, {name: x[:1] for name, x in rows.items()})


def test_a_mistake_is_one_sentence(model, rows):
    with pytest.raises(ValueError, match="integer from 0 to 2, one for each of 40 rows"):
        synib.explain(model, rows, answer=[3] * 40)
    with pytest.raises(ValueError, match="parts must be True, or a dict of modality"):
        synib.explain(model, rows, parts={"c": "coordinates"})
    with pytest.raises(ValueError, match="ids must have one entry for each of 40 rows; got 2"):
        synib.explain(model, rows, ids=["x", "y"])
    with pytest.raises(ValueError, match="row numbers from 0 to 39; got 40"):
        synib.explain(model, rows, parts=True, of=[40])


def test_the_model_keeps_its_mode_and_gets_no_gradient(model, rows):
    model.train()
    synib.explain(model, rows, parts=True, of=[0], draws=4, part_draws=2)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
