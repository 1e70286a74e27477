"""Just Train Twice: who is trained when, and what counts how much."""

import pytest
import torch

from synib import Categorical, FusionModel
from synib.methods import JTT, Vanilla
from synib.studies.spurious_xor.data import parity
from synib.training.loop import fit


@pytest.fixture
def model():
    return FusionModel.mlp({"a": 5, "b": 4}, hidden=[8], classes=3, head_hidden=[])


def test_errors_of_the_first_model_count_so_many_times(model):
    x, y = {"a": torch.randn(30, 5), "b": torch.randn(30, 4)}, torch.arange(30) % 3
    method = JTT(identify=2, weight=4.0, family=Categorical())
    method.attach(model)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))  # the model has moved on, the first one has not
    method.begin(2)
    wrong = method.first(x).argmax(1) != y
    assert 0 < wrong.sum() < 30
    loss, parts = method(model, x, y)
    expected, _ = Vanilla()(model, x, y, sample_weight=1 + 3 * wrong.float())
    torch.testing.assert_close(loss, expected)
    assert float(parts["identified"]) == pytest.approx(float(wrong.float().mean()))


def test_the_first_model_is_trained_first_and_the_model_then_from_the_initial_weights():
    data = parity(2, 1.0, train=40, validation=16, test=16)

    def trained(method, epochs):
        torch.manual_seed(0)
        model = FusionModel.mlp(data.widths, hidden=[8], classes=2, head_hidden=[])
        begin = [p.detach().clone() for p in model.parameters()]
        fit(method, model, data, lr=1e-2, epochs=epochs, batch_size=16)
        return begin, list(model.parameters())

    # While the first model learns, by plain fusion, the model itself stays as it was.
    jtt = JTT(identify=2)
    begin, after = trained(jtt, epochs=2)
    assert all(torch.equal(p, q) for p, q in zip(begin, after, strict=True))
    of_fusion = trained(Vanilla(), epochs=2)[1]
    torch.testing.assert_close(list(jtt.first.parameters()), of_fusion)
    # Then it is the first model that stays.
    jtt = JTT(identify=2)
    begin, after = trained(jtt, epochs=3)
    torch.testing.assert_close(list(jtt.first.parameters()), of_fusion)
    assert not any(torch.equal(p, q) for p, q in zip(begin, after, strict=True))


def test_a_loop_that_forgets_to_attach_is_told(model):
    with pytest.raises(ValueError, match=r"JTT has no identification model yet: call attach\(model\)"):
        JTT()(model, {"a": torch.randn(3, 5), "b": torch.randn(3, 4)}, torch.arange(3))
