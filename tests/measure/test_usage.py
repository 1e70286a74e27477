"""How much a model uses each modality."""

import math

import pytest
import torch
from torch import nn

from synib import (
    Bernoulli,
    Categorical,
    Fixed,
    FusionModel,
    Gaussian,
    HideTokens,
    LearnedMask,
    MatchedNoise,
    Noise,
    OracleMask,
    Prior,
    RandomMask,
    ShuffledNoise,
    StandardNoise,
    SynIB,
    Tokens,
    Uniform,
    Unimodal,
    keys,
)
from synib.measure.usage import usage

# The truth: X1 a fair coin, X2 rarely 1, P(Y = 1 | x1, x2) in eighths; all cells of the table, each as often as it is probable.
OF_8 = {(0, 0): 1, (0, 1): 6, (1, 0): 5, (1, 1): 7}
TIMES = {0: 3, 1: 1}
TABLE = [
    (x1, x2, y) for (x1, x2), k in OF_8.items() for _ in range(TIMES[x2]) for y in [1] * k + [0] * (8 - k)
]  # fmt: skip
X1, X2, Y = torch.tensor(TABLE).T
X = {"x1": X1[:, None].float(), "x2": X2[:, None].float()}


def entropy(p):
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def truth():
    """MIPD of either modality where the corruption tells nothing: I(X_i; Y | the other), by hand."""
    given_both = sum(entropy(k / 8) * TIMES[x2] / 8 for (_, x2), k in OF_8.items())
    given_x2 = sum(entropy((OF_8[0, x2] + OF_8[1, x2]) / 16) * TIMES[x2] / 4 for x2 in (0, 1))
    given_x1 = sum(entropy(_p_given_x1(x1)) / 2 for x1 in (0, 1))
    return {"x1": given_x2 - given_both, "x2": given_x1 - given_both}


def _p_given_x1(x1):
    return sum(OF_8[x1, x2] / 8 * TIMES[x2] / 4 for x2 in (0, 1))


def posterior(m):
    """The true posterior as one logit; where a modality says 2 (it is gone), the posterior given the other."""
    table = torch.tensor(
        [
            [1 / 8, 6 / 8, _p_given_x1(0)],
            [5 / 8, 7 / 8, _p_given_x1(1)],
            [6 / 16, 13 / 16, 0.5],
        ],
        dtype=torch.float64,
    )
    return torch.logit(table[m["x1"][:, 0].long(), m["x2"][:, 0].long()])[:, None]


class Gone(Noise):
    """Says that the modality is gone."""

    def forward(self, x, key, modality="", draws=1):
        return torch.full((draws * len(x), 1), 2.0)


class EveryValue(Noise):
    """Exactly the distribution of the modality: as many draws as it has values, each in turn."""

    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x, key, modality="", draws=1):
        assert draws == len(self.order)
        return torch.tensor(self.order).float().repeat_interleave(len(x))[:, None]


REFERENCES = [Uniform(), Fixed(0.2), Prior(Y, Bernoulli())]


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: type(r).__name__)
def test_of_the_true_posterior_the_surrogate_is_mipd_whatever_the_reference(reference):
    found = usage(posterior, X, Y, Bernoulli(), RandomMask(1.0), Gone(), reference)
    for name, mipd in truth().items():
        assert found[name].mipd.value == pytest.approx(mipd, abs=1e-6)
        assert found[name].mipd.low < mipd < found[name].mipd.high


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: type(r).__name__)
def test_averaging_over_the_modalitys_own_distribution_gives_mipd_without_any_retraining(reference):
    one = usage(posterior, X, Y, Bernoulli(), RandomMask(1.0), EveryValue([0, 1]), reference, draws=2)
    assert one["x1"].mipd.value == pytest.approx(truth()["x1"], abs=1e-6)
    other = usage(posterior, X, Y, Bernoulli(), RandomMask(1.0), EveryValue([0, 1, 0, 0]), reference, draws=4)
    assert other["x2"].mipd.value == pytest.approx(truth()["x2"], abs=1e-6)


def test_c_r_is_the_cross_entropy_of_the_targets_given():
    found = usage(posterior, X, Y, Bernoulli(), noise=Gone(), reference=Fixed(0.2))
    ones = Y.double().mean().item()
    assert found.reference == pytest.approx(-ones * math.log(0.2) - (1 - ones) * math.log(0.8), rel=1e-6)
    assert usage(posterior, X, Y, Bernoulli(), noise=Gone()).reference == pytest.approx(math.log(2))


def test_falls_of_accuracy_and_confidence_are_those_of_the_corrupted_prediction():
    found = usage(posterior, X, Y, Bernoulli(), noise=Gone())
    p = torch.sigmoid(posterior(X))[:, 0]
    without = torch.sigmoid(posterior(X | {"x1": torch.full_like(X["x1"], 2)}))[:, 0]
    right = [((q > 0.5) == Y).double().mean().item() for q in (p, without)]
    sure = [torch.maximum(q, 1 - q).mean().item() for q in (p, without)]
    assert found.accuracy.value == pytest.approx(right[0])
    assert found.confidence.value == pytest.approx(sure[0])
    assert found["x1"].accuracy_drop.value == pytest.approx(right[0] - right[1])
    assert found["x1"].confidence_drop.value == pytest.approx(sure[0] - sure[1])


def test_single_draws_are_judged_one_by_one_for_accuracy_and_together_for_the_kl():
    """An XOR model answers a swapped pair with confidence, and is wrong half the time."""
    x = {k: torch.tensor([-1.0, 1.0])[torch.randint(2, (400,))][:, None] for k in ("a", "b")}
    y = (x["a"] * x["b"] > 0).long()
    model = lambda m: 6 * m["a"] * m["b"]  # noqa: E731
    one, many = (usage(model, x, y, Bernoulli(), draws=d) for d in (1, 64))
    for found in (one, many):
        assert found["a"].accuracy_drop.value == pytest.approx(0.5, abs=0.08)
        assert found["a"].confidence_drop.value == pytest.approx(0, abs=1e-9)
    assert one["a"].mipd.value == pytest.approx(0, abs=0.02)  # what the docstring warns of
    assert many["a"].mipd.value == pytest.approx(math.log(2), abs=0.05)


def test_a_modality_that_is_not_read_is_not_used():
    x = {"a": torch.randn(100, 1), "b": torch.randn(100, 1)}
    y = (x["a"] > 0).long()
    found = usage(lambda m: 5 * m["a"], x, y, Bernoulli())
    assert found["b"].accuracy_drop.value == 0.0
    assert found["b"].confidence_drop.value == pytest.approx(0.0, abs=1e-12)
    assert found["a"].accuracy_drop.low > 0.2


# The library's own objects


NAMES = ("a", "b", "c")


def case(n=2, classes=3, heads=True, examples=48):
    names = NAMES[:n]
    x = {k: torch.randn(examples, 4) for k in names}
    model = FusionModel.mlp(
        dict.fromkeys(names, 4), [8], classes, head_hidden=[] if heads else None, fusion_hidden=[8], dropout=0.2
    )
    return model, x, torch.randint(classes, (examples,))


def seen(x):
    noise = MatchedNoise()
    for name, values in x.items():
        noise.observe(values, name)
    return noise


OBJECTS = {
    "swap": lambda x: (RandomMask(1.0), ShuffledNoise()),
    "random": lambda x: (RandomMask(0.4), StandardNoise()),
    "shuffled": lambda x: (RandomMask(0.4), ShuffledNoise()),
    "matched": lambda x: (RandomMask(1.0), seen(x)),
    "oracle": lambda x: (OracleMask(dict.fromkeys(x, range(2))), StandardNoise()),
    "learned": lambda x: (LearnedMask(steps=3), StandardNoise()),
}


@pytest.mark.parametrize("reference", [Uniform(), Unimodal()], ids=["uniform", "unimodal"])
@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("which", OBJECTS)
def test_the_kl_is_that_of_the_objective_with_the_same_key(which, draws, reference):
    model, x, y = case(3)
    mask, noise = OBJECTS[which](x)
    found = usage(model, x, y, None, mask, noise, reference, draws, seed=5)
    objective = SynIB(mask, noise, reference, Categorical(), draws=draws).eval()
    _, parts = objective(model.eval(), x, y, key=keys.key(5))
    heads = {k: p.detach() for k, p in model.unimodal(x).items()}
    for name in x:
        r = reference(parts["task"].new_zeros(48, 3), Categorical(), {k: p for k, p in heads.items() if k != name})
        c_r = Categorical().nll(r.expand(48, 3), y).mean()
        expected = c_r - parts[f"penalty/{name}"] - parts["task"]
        assert found[name].mipd.value == pytest.approx(expected.item(), abs=1e-5)


def test_tokens_can_be_hidden():
    class Pool(nn.Module):
        def forward(self, x):
            return (x.values * ~x.padding[..., None]).sum(1)

    x = {"text": Tokens(torch.randn(30, 5, 4), torch.zeros(30, 5, dtype=torch.bool)), "image": torch.randn(30, 4)}
    fusion = FusionModel.mlp({"text": 4, "image": 4}, [4], classes=2).fusion
    model = FusionModel({"text": Pool(), "image": nn.Identity()}, fusion)
    y = torch.arange(30) % 2
    hidden = OnlyText(RandomMask(1.0, over="tokens"))
    found = usage(model, x, y, mask=hidden, noise=HideText(), draws=1)
    blind = model.eval()({"text": Tokens(x["text"].values * 0, x["text"].padding), "image": x["image"]})
    sure = [torch.softmax(p, 1).amax(1).mean().item() for p in (model(x), blind)]
    assert found["text"].confidence_drop.value == pytest.approx(sure[0] - sure[1], abs=1e-6)
    assert found["image"].confidence_drop.value == 0


class OnlyText(RandomMask):
    def __init__(self, mask):
        super().__init__(mask.p, mask.over)
        self.whole = False


class HideText(HideTokens):
    def corrupt(self, x, mask, key, modality="", draws=1):
        return super().corrupt(x, mask, key, modality, draws) if modality == "text" else x


def test_a_gaussian_has_an_mipd_and_no_accuracy():
    x = {"a": torch.randn(200, 1), "b": torch.randn(200, 1)}
    y = x["a"] + 0.5 * torch.randn(200, 1)
    found = usage(lambda m: torch.cat([m["a"], torch.full_like(m["a"], math.log(0.25))], 1), x, y, Gaussian(), draws=1)
    assert found.accuracy is found.confidence is found["a"].accuracy_drop is found["a"].confidence_drop is None
    shuffled = x["a"][ShuffledNoise().rows(keys.fold(keys.key(0), "a", "", "noise"), 200)]
    kl = 0.5 * (shuffled**2 + 0.25 - math.log(0.25) - 1).mean()
    c_r = 0.5 * (y**2 + math.log(2 * math.pi)).mean()
    loss = 0.5 * ((y - x["a"]) ** 2 / 0.25 + math.log(0.25) + math.log(2 * math.pi)).mean()
    assert found["a"].mipd.value == pytest.approx((c_r - kl - loss).item(), abs=1e-5)
    assert "accuracy" not in str(found)


# How it is called


def test_the_seed_decides_and_the_mask_is_left_as_it_was():
    model, x, y = case()
    mask = RandomMask(0.5)
    one, same, other = (usage(model, x, y, mask=mask, noise=StandardNoise(), seed=s) for s in (0, 0, 1))
    assert one == same
    assert one["a"].mipd.value != other["a"].mipd.value
    assert mask.training
