import pytest
import torch

from synib import keys

GOLDEN, MIX_1, MIX_2, WORD = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, (1 << 64) - 1
DRAWS = {
    "uniform": lambda key: keys.uniform(key, (3, 5)),
    "normal": lambda key: keys.normal(key, (3, 5)),
    "permutation": lambda key: keys.permutation(key, 15),
    "split": lambda key: keys.split(key, 7),
    "fold": lambda key: keys.fold(key, "label", 3),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


def splitmix64(state, n):
    """SplitMix64 as its authors write it, with Python's whole numbers."""
    out = []
    for _ in range(n):
        state = (state + GOLDEN) & WORD
        z = state
        z = ((z ^ (z >> 30)) * MIX_1) & WORD
        z = ((z ^ (z >> 27)) * MIX_2) & WORD
        out.append(z ^ (z >> 31))
    return out


def unsigned(words):
    return [int(w) & WORD for w in words]


@pytest.mark.parametrize("state", [0, 1, 1234567, 2**63 - 1, -1, -(2**63)])
def test_bits_are_those_of_splitmix64(state):
    words = keys._bits(torch.tensor(state, dtype=torch.int64), 50)
    assert unsigned(words) == splitmix64(state & WORD, 50)


def test_bits_equal_the_published_sequence():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert unsigned(keys._bits(torch.tensor(1234567), 4)) == published
    assert unsigned(keys._bits(torch.tensor(0), 1)) == [0xE220A8397B1DCDAF]


@every_draw
def test_the_key_alone_decides_and_is_left_alone(draw):
    key = keys.key(5)
    first = draw(key)
    torch.rand(10)
    assert torch.equal(first, draw(key))
    assert torch.equal(key, keys.key(5))
    assert not torch.equal(first, draw(keys.key(6)))


@every_draw
def test_many_keys_at_once_equal_one_by_one(draw):
    many = torch.stack([keys.key(seed) for seed in range(4)])
    together = torch.func.vmap(draw)(many)
    assert torch.equal(together, torch.stack([draw(key) for key in many]))


def test_fresh_keys_follow_torchs_own_seed():
    torch.manual_seed(3)
    first, second = keys.fresh(), keys.fresh()
    torch.manual_seed(3)
    assert torch.equal(first, keys.fresh())
    assert not torch.equal(first, second)
    assert first.shape == ()
    assert first.dtype == torch.int64


def test_fold_differs_by_label_and_by_order(key):
    folded = [
        keys.fold(key, "a"),
        keys.fold(key, "b"),
        keys.fold(key, 1),
        keys.fold(key, 2),
        keys.fold(key, -1),
        keys.fold(key, 0),
        keys.key(1),
        keys.fold(key, "a", "b"),
        keys.fold(key, "b", "a"),
        keys.fold(key, 1, 2),
        keys.fold(key, 2, 1),
        key,
    ]
    assert len({int(k) for k in folded}) == len(folded)


@pytest.mark.parametrize("label", [0, "", torch.tensor(0)], ids=["zero", "empty", "tensor"])
def test_folding_nothing_into_the_first_seed_gives_no_other_seeds_key(label):
    folded = keys.fold(keys.key(0), label)
    assert folded not in [keys.key(seed) for seed in range(-3, 4)]
    many = torch.stack([keys.key(0), keys.key(5)])
    assert torch.func.vmap(lambda k: keys.fold(k, label))(many)[0] == folded


def test_folding_twice_equals_folding_two_labels(key):
    assert torch.equal(keys.fold(keys.fold(key, "a"), 2), keys.fold(key, "a", 2))


@pytest.mark.parametrize("seeds", [[3], [3, -8, 2**62]])
def test_a_tensor_of_labels_gives_the_key_of_each(seeds):
    parents = torch.stack([keys.key(seed) for seed in seeds])
    labels = [0, 1, 5, -1, 2**40, -(2**63)]
    folded = keys.fold(parents[:, None], torch.tensor(labels))
    assert folded.tolist() == [[int(keys.fold(parent, label)) for label in labels] for parent in parents]
    narrow = torch.tensor([5, -1], dtype=torch.int32)
    assert torch.equal(keys.fold(parents[:, None], narrow), keys.fold(parents[:, None], narrow.long()))


def test_neighbouring_seeds_and_labels_give_unrelated_draws():
    def correlation(a, b):
        return torch.corrcoef(torch.stack([keys.normal(a, (10_000,)), keys.normal(b, (10_000,))]))[0, 1].abs()

    assert correlation(keys.key(0), keys.key(1)) < 0.03
    assert correlation(keys.fold(keys.key(0), 0), keys.fold(keys.key(0), 1)) < 0.03


def test_split_keys_are_distinct(key):
    assert len(set(keys.split(key, 1000).tolist())) == 1000


def test_uniform_draws_lie_in_the_half_open_unit_interval_and_are_uniform(key):
    u = keys.uniform(key, (100_001,))
    assert u.dtype == torch.float32
    assert u.min() >= 0
    assert u.max() < 1
    for power in (1, 2, 3):
        assert u.pow(power).mean() == pytest.approx(1 / (power + 1), abs=0.005)
    histogram = torch.histc(u, 10, 0, 1) / len(u)
    assert (histogram - 0.1).abs().max() < 0.005


def test_normal_draws_have_the_moments_of_a_normal(key):
    z = keys.normal(key, (100_001,))
    assert z.dtype == torch.float32
    assert z.isfinite().all()
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert z.pow(power).mean() == pytest.approx(moment, abs=0.08)
    halves = torch.corrcoef(torch.stack([z[:50_000], z[50_001:]]))  # the cosine and the sine of one word
    assert halves[0, 1].abs() < 0.02


@pytest.mark.parametrize("draw", [keys.uniform, keys.normal])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3), (0, 4), (2, 1, 5)])
def test_draws_have_the_shape_asked_for(draw, shape, key):
    assert draw(key, shape).shape == shape


def test_a_permutation_holds_every_row_once_and_every_order_is_as_likely(key):
    for n in (0, 1, 7, 100):
        assert sorted(keys.permutation(key, n).tolist()) == list(range(n))
    orders = [tuple(keys.permutation(k, 3).tolist()) for k in keys.split(key, 1200)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert min(counts) > 150


def test_pinned_values_have_not_changed():
    key = keys.key(0)
    assert int(keys.key(1)) == -2152535657050944081
    assert int(keys.fold(key, "mask", 7)) == -5204007727388533571
    assert keys.permutation(key, 6).tolist() == [0, 3, 2, 4, 5, 1]
    assert keys.uniform(key, (3,)).tolist() == pytest.approx([0.8833108, 0.431528, 0.1164197])
    assert keys.normal(key, (3,)).tolist() == pytest.approx([0.370716, -0.209151, 0.332755], rel=1e-5)
