import numpy as np
import pytest
import torch

from synib.measure.detectors import Detectors, Labels, Number, OneOf, spectral
from synib.measure.detectors import compare as compare_module
from synib.measure.detectors import components as components_module
from synib.measure.detectors import features as features_module
from synib.measure.detectors.components import components
from synib.measure.detectors.ridge import PENALTIES, RidgeFolds


def drawn(evidence, seed=1):
    return (np.random.default_rng(seed).random(len(evidence)) < 1 / (1 + np.exp(-evidence))).astype(np.int64)


@pytest.mark.parametrize(
    ("kind", "detector"), [("product", "products-8"), ("gate", "products-8"), ("lookup", "table"), ("lookup", "kernel")]
)
def test_an_interaction_of_each_kind_is_found(rows, compared, errors, kind, detector):
    a, b, evidence, additive = rows(kind)
    assert errors(compared(a, b, drawn(evidence), additive))[detector] > 5


@pytest.mark.parametrize("kind", ["none", "additive", "copied"])
def test_without_an_interaction_no_detector_gains_more_than_chance(rows, compared, errors, kind):
    largest = []
    for seed in range(8):
        a, b, evidence, additive = rows(kind, n=300, seed=seed)
        largest.append(max(errors(compared(a, b, drawn(evidence, seed), additive, seed=seed)).values()))
    # Of the largest of three statistics, 5 % would exceed 2.1 if they were independent.
    assert sum(t > 2.1 for t in largest) <= 2
    assert max(largest) < 3.5


def test_a_product_of_two_directions_among_many_numbers_is_found_among_all_components(rows, compared, errors):
    a, b, evidence, additive = rows("product", n=1500, width=160, strength=8.0)
    found = errors(compared(a, b, drawn(evidence), additive))
    assert found["products-160"] > 5
    assert found["products-16"] < 3


def test_several_classes(rows, compared, errors):
    a, b, evidence, _ = rows("product")
    additive = np.random.default_rng(0).normal(size=(2, len(evidence), 3)) * 0.05
    target = np.where(drawn(evidence) == 1, 2, np.random.default_rng(1).integers(2, size=len(evidence)))
    compared = compared(a, b, target, additive)
    assert errors(compared)["products-8"] > 5
    assert torch.allclose(compared.additive.softmax(1).mean(0), torch.tensor([0.25, 0.25, 0.5]).double(), atol=0.04)


def test_more_classes_than_residuals_are_projected_to(rows, compared, errors):
    a, b, evidence, _ = rows("product", n=3000, strength=4.0)
    target = 6 * drawn(evidence) + np.random.default_rng(1).integers(6, size=len(evidence))
    additive = np.zeros((2, len(evidence), 12))
    assert errors(compared(a, b, target, additive + 1e-3))["products-8"] > 5


def test_several_labels_and_numbers(rows, compared, errors):
    a, b, evidence, additive = rows("product")
    labels = np.stack([drawn(evidence), drawn(-evidence, 2), drawn(0 * evidence, 3)], 1)
    three = np.repeat(additive[..., None], 3, -1)
    assert errors(compared(a, b, labels, three, "labels"))["products-8"] > 5
    number = evidence + np.random.default_rng(0).normal(size=len(evidence))
    assert errors(compared(a, b, number, additive, "number"))["products-8"] > 5


def test_log_losses_are_those_of_the_predictions(rows, compared):
    a, b, evidence, additive = rows("product")
    target = drawn(evidence)
    found = compared(a, b, target, additive)
    kernel, products = found.detectors["kernel"], found.detectors["products-8"]
    for eta, loss in (
        (found.additive, found.loss),
        (kernel.extended, kernel.loss),
        (products.without, products.without_loss),
        (products.extended, products.loss),
    ):
        p = torch.sigmoid(eta[:, 0]).numpy()
        assert np.allclose(loss.numpy(), -np.log(np.where(target == 1, p, 1 - p)))


def test_the_targets_of_held_out_rows_do_not_change_their_predictions(rows, compared):
    a, b, evidence, additive = rows("product", n=300)
    target = drawn(evidence)
    before = compared(a, b, target, additive)
    from synib.measure.stats import assign

    held_out = assign(len(target), 5, 0) == 2
    after = compared(a, b, np.where(held_out, 1 - target, target), additive)
    for name, extension in before.detectors.items():
        again = after.detectors[name]
        assert torch.allclose(extension.extended[held_out], again.extended[held_out], atol=1e-6), name
        assert torch.allclose(extension.without[held_out], again.without[held_out], atol=1e-6), name
    assert not torch.allclose(before.additive[~held_out], after.additive[~held_out], atol=1e-3)


def test_leading_pair_is_that_of_the_singular_value_decomposition():
    matrices = torch.randn(3, 2, 7, 5, generator=torch.Generator().manual_seed(0)).double()
    matrices[..., 0, :] *= 4
    left, right = spectral.leading_pair(matrices)
    u, _, v = torch.linalg.svd(matrices)
    assert ((left * u[..., 0]).sum(-1).abs() > 0.999).all()
    assert ((right * v[..., 0, :]).sum(-1).abs() > 0.999).all()


def test_components_are_white_and_zero_where_a_modality_is_missing():
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)) @ torch.diag(
        torch.tensor([5.0, 1, 1, 1, 1, 0.0])
    )
    present = torch.arange(200) % 4 > 0
    found = components(x, present)
    white = found.white[present].double()
    assert found.white.shape == (200, 5)  # a constant column has no component
    assert (found.white[~present] == 0).all()
    assert torch.allclose(white.mT @ white / present.sum(), torch.eye(5).double(), atol=0.1)
    wide = components(
        torch.randn(20, 300, generator=torch.Generator().manual_seed(0)), torch.ones(20, dtype=torch.bool)
    )
    assert wide.white.shape == (20, 10)


def test_ridge_training_scores_leave_the_row_itself_out():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=generator)
    r = torch.randn(60, 1, generator=generator)
    part = torch.arange(60) % 3
    scores = RidgeFolds(x, part, 3).scores(r, 0)
    train = part != 0
    errors = {}
    for penalty in PENALTIES:
        left_out = []
        for i in torch.nonzero(train)[:, 0]:
            others = train.clone()
            others[i] = False
            gram = x[others].mT @ x[others] + penalty * torch.eye(4)
            left_out.append((x[i] @ torch.linalg.solve(gram, x[others].mT @ r[others])).item())
        left_out = torch.tensor(left_out)
        errors[penalty] = ((r[train, 0] - left_out).square().mean().item(), left_out)
    best = min(errors.values(), key=lambda item: item[0])[1]
    assert torch.allclose(scores[train, 0].float(), best, atol=1e-4)


def test_a_square_that_two_modalities_share_is_no_product_of_them(rows, compared, errors):
    """Also where both hold it among many numbers, so that each alone finds it less well than both."""
    a, b, evidence, additive = rows("copied", n=3000, width=128)
    target = evidence + np.random.default_rng(0).normal(size=3000)
    found = errors(compared(a, b, target, additive, "number"))
    assert max(found.values()) < 3


def test_directions_that_leave_out_two_parts_are_those_of_all_other_rows():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(120, 5, generator=generator), torch.randn(120, 4, generator=generator)
    r, part = torch.randn(120, 2, generator=generator), torch.arange(120) % 4
    pair = spectral.Pair(a, b)
    found = spectral.Directions(pair, spectral.moments(a, b, r, part, 4), part, 4)
    for test in range(4):
        product, _ = found.scores(test)
        for own in range(4):
            kept = (part != test) & (part != own)
            moments = torch.einsum("nc,ni,nj->cij", r[kept], a[kept, :4], b[kept])
            left, right = spectral.leading_pair(moments)
            rows = part == own
            expected = (a[rows, :4] @ left.mT).double() * (b[rows] @ right.mT).double()
            assert torch.allclose(product[rows], expected, atol=1e-4)


def test_components_of_rows_that_are_read_when_they_are_asked_for_are_those_of_the_tensor(monkeypatch):
    x = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
    present, asked = torch.arange(100) % 4 > 0, []

    class Reads:
        shape = x.shape

        def __getitem__(self, rows):
            asked.append(len(rows))
            return x[rows]

    whole = components(x, present)
    assert all(torch.equal(*both) for both in zip(whole, components(Reads(), present), strict=True))
    monkeypatch.setattr(components_module, "BLOCK", 16)
    asked.clear()
    for one, other in zip(whole, components(Reads(), present), strict=True):
        assert torch.allclose(one.abs(), other.abs(), atol=1e-5)  # summed up in another order
    assert max(asked) <= 16


def test_nystrom_features_of_blocks_are_those_of_the_whole_kernel(monkeypatch):
    x = torch.randn(90, 3, generator=torch.Generator().manual_seed(0))
    kernel = features_module.gaussian_kernel(x, x[:20])
    values, vectors = torch.linalg.eigh(kernel[:20].double())
    kept = values > 1e-4 * values.max()
    expected = kernel.double() @ (vectors[:, kept] / values[kept].sqrt())
    expected -= expected.mean(0)
    expected *= (20 / expected.square().sum(1).mean()).sqrt()
    for block in (features_module.BLOCK, 32):
        monkeypatch.setattr(features_module, "BLOCK", block)
        found = features_module.nystrom(kernel.__getitem__, 90, kernel[:20])
        assert torch.allclose(found.double(), expected, atol=1e-5)


def test_detectors_that_are_released_keep_their_names(rows):
    a, b, _, _ = rows("product", n=200)
    part = torch.arange(200) % 5
    everyone = torch.ones(200, dtype=torch.bool)
    detectors = Detectors({"a": torch.from_numpy(a), "b": torch.from_numpy(b)}, {"a": everyone, "b": everyone}, part)
    names = list(detectors.names)
    detectors.release()
    assert detectors.names == names
    assert not detectors.components


@pytest.mark.parametrize("together", [1 << 30, 1])
@pytest.mark.parametrize("kind", ["two", "three", "twelve", "labels", "number"])
def test_targets_that_are_compared_together_have_the_gains_that_each_has_alone(monkeypatch, kind, together):
    monkeypatch.setattr(compare_module, "TOGETHER", together)
    rng, n = np.random.default_rng(0), 240
    modalities = {name: torch.from_numpy(rng.normal(size=(n, 20))).float() for name in "abc"}
    present = {name: torch.from_numpy(rng.random(n) > 0.1) for name in modalities}
    detectors = Detectors(modalities, present, torch.from_numpy(rng.integers(4, size=n)))
    make = {
        "two": lambda: OneOf(torch.from_numpy(rng.integers(2, size=n)), 2),
        "three": lambda: OneOf(torch.from_numpy(rng.integers(3, size=n)), 3),
        "twelve": lambda: OneOf(torch.from_numpy(rng.integers(12, size=n)), 12),
        "labels": lambda: Labels(torch.from_numpy(rng.integers(2, size=(n, 2)))),
        "number": lambda: Number(torch.from_numpy(rng.normal(size=n))),
    }[kind]
    responses = [make() for _ in range(3)]
    base = torch.from_numpy(0.3 * rng.normal(size=(4, n, responses[0].columns)))
    several = detectors.compare_each(responses, base, base[-1])
    for response, mine in zip(responses, several, strict=True):
        alone = detectors.compare(response, base, base[-1])
        near = {"rtol": 1e-2, "atol": 5e-3}  # directions are iterated in single precision
        torch.testing.assert_close((mine.additive, mine.loss), (alone.additive, alone.loss), **near)
        assert list(mine.detectors) == list(alone.detectors)
        for name, extension in alone.detectors.items():
            ours = mine.detectors[name]
            torch.testing.assert_close((ours.without, ours.extended), (extension.without, extension.extended), **near)
            torch.testing.assert_close((ours.without_loss, ours.loss), (extension.without_loss, extension.loss), **near)
