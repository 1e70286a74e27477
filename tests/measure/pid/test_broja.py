"""BROJA: closed forms, a proof of optimality for every answer, and dit."""

import sys
import warnings

import numpy as np
import pytest
import torch

from synib.measure.pid import PID, broja
from synib.measure.pid.broja import solve
from synib.measure.pid.decomposition import COMPONENTS


def gate(f, outputs=4):
    p = np.zeros((2, 2, outputs))
    for a, b in np.ndindex(2, 2):
        p[a, b, f(a, b)] += 0.25
    return p


def values(pid):
    return [getattr(pid, name) for name in COMPONENTS]


def random(shape, seed, zeros=0.0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape) * (rng.random(shape) >= zeros)
    return p / p.sum()


def information(p):
    """I(rows; columns) of a table."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nansum(p * np.log2(p / (p.sum(1, keepdims=True) * p.sum(0))))


COPY = np.zeros((2, 2, 2))
COPY[0, 0, 0] = COPY[1, 1, 1] = 0.5


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (gate(lambda a, b: a ^ b), [0, 0, 0, 1]),
        (gate(lambda a, b: a & b), [0.311278, 0, 0, 0.5]),
        (gate(lambda a, b: a | b), [0.311278, 0, 0, 0.5]),
        (gate(lambda a, b: a), [0, 1, 0, 0]),
        (gate(lambda a, b: b), [0, 0, 1, 0]),
        (gate(lambda a, b: 2 * a + b), [0, 1, 1, 0]),
        (COPY, [1, 0, 0, 0]),
        (np.full((3, 4, 2), 1 / 24), [0, 0, 0, 0]),
        (np.full((1, 1, 2), 0.5), [0, 0, 0, 0]),
    ],
    ids=["xor", "and", "or", "x1", "x2", "both", "copy", "noise", "constants"],
)
def test_gates_have_their_known_decomposition(p, expected):
    np.testing.assert_allclose(values(broja(p)), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 2, 2), (4, 4, 3), (3, 5, 2), (1, 4, 3)])
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_components_are_not_negative_and_add_up_to_the_informations(shape, zeros):
    for seed in range(4):
        p = random(shape, seed, zeros)
        if (p.sum((0, 1)) > 0).sum() == 1:
            continue
        found = broja(p)
        assert min(values(found)) >= 0
        assert found.information1 == pytest.approx(information(p.sum(1)), abs=1e-9)
        assert found.information2 == pytest.approx(information(p.sum(0)), abs=1e-9)
        assert found.total == pytest.approx(information(p.reshape(-1, shape[2])), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_distribution_with_these_marginals_tells_less(seed):
    """The answer meets a lower bound that holds for all of them, and a random walk among them never goes below it."""
    p = random((3, 4, 3), seed, zeros=0.2 * (seed % 2))
    found = solve(p)
    assert found.aligned == pytest.approx(found.bound, abs=1e-6)
    rng = np.random.default_rng(seed)
    q = p.copy()
    for _ in range(300):
        (a, c), (b, d), y = rng.choice(3, 2, replace=False), rng.choice(4, 2, replace=False), rng.integers(3)
        most = min(q[a, b, y], q[c, d, y])
        step = rng.random() * most
        q[[a, c, a, c], [b, d, d, b], y] += np.array([-1, -1, 1, 1]) * step  # keeps both marginals with y
        assert information(q.reshape(-1, 3)) * np.log(2) >= found.aligned - 1e-9


def test_a_cells_share_has_the_information_as_its_mean_and_says_how_it_changes():
    p, other = random((3, 3, 2), 1), random((3, 3, 2), 2)
    found, step = solve(p), 1e-3
    ahead, behind = (solve(p + s * (other - p)) for s in (step, -step))
    for name, cells in zip(("both", "first", "second", "aligned"), found.cells, strict=True):
        assert (p * cells).sum() == pytest.approx(getattr(found, name), abs=1e-12)
        slope = (getattr(ahead, name) - getattr(behind, name)) / (2 * step)
        assert ((other - p) * cells).sum() == pytest.approx(slope, abs=2e-4)


def test_exchanging_the_sources_exchanges_the_unique_parts_and_names_of_values_do_not_matter():
    p = random((4, 3, 3), 0)
    found = broja(p)
    swapped = broja(p.transpose(1, 0, 2))
    np.testing.assert_allclose(values(swapped), np.array(values(found))[[0, 2, 1, 3]], atol=1e-6)
    np.testing.assert_allclose(values(broja(p[::-1, [2, 0, 1]][..., [1, 2, 0]])), values(found), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_dits_default_solver_never_finds_less(seed):
    """It stops short of the optimum at times (0.16 bits have been seen), so that it bounds ours from one side only."""
    p = random((2, 2, 2), seed)
    ours, theirs = values(broja(p)), by_dit(p)
    assert theirs[1] > ours[1] - 1e-3
    assert theirs[2] > ours[2] - 1e-3
    assert sum(theirs) == pytest.approx(sum(ours), abs=1e-6)


def by_dit(p, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dit = pytest.importorskip("dit")
        cells = list(np.ndindex(p.shape))
        joint = dit.Distribution([tuple(map(str, cell)) for cell in cells], [p[cell] for cell in cells])
        found = dit.pid.PID_BROJA(joint, [[0], [1]], [2], **settings)
    return [found[at] for at in (((0,), (1,)), ((0,),), ((1,),), ((0, 1),))]


def test_units_and_inputs():
    p = gate(lambda a, b: a & b, 2)
    bits = broja(p)
    nats = broja(torch.tensor(p, dtype=torch.float32), base=np.e)
    assert (bits.unit, nats.unit, broja(p, 10).unit) == ("bits", "nats", "logarithm to base 10")
    np.testing.assert_allclose(values(nats), np.log(2) * np.array(values(bits)), atol=1e-6)
    assert broja((4 * p).astype(int).tolist(), normalise=True) == bits
    assert str(PID(0.25, 0.0, 0.5, 1.0)) == (
        "redundant 0.2500, unique1 0.0000, unique2 0.5000, synergy 1.0000 (total 1.7500 bits)"
    )


@pytest.mark.parametrize(
    ("p", "settings", "sentence"),
    [
        (np.full((2, 2), 0.25), {}, r"two sources, p\[x1, x2, y\]; got an array of 2 dimensions"),
        (np.full((2, 2, 2, 2), 1 / 16), {}, r"two sources.*got an array of 4 dimensions.*combine some"),
        (-COPY, {}, "negative or infinite values or NaN"),
        (COPY * np.nan, {}, "negative or infinite values or NaN"),
        (COPY * 2, {}, "p sums to 2, not to 1: use normalise=True"),
        (COPY * 0, {"normalise": True}, "p sums to 0"),
        (COPY, {"base": 1.0}, "base must be the base of a logarithm, a number above 1; got 1.0"),
        (COPY, {"base": "2"}, "base must be the base of a logarithm, a number above 1; got '2'"),
        (COPY, {"base": np.inf}, "a number above 1; got inf"),
        (COPY, {"base": True}, "a number above 1; got True"),
        (COPY[..., :1], {"normalise": True}, "Only one value of y has a positive probability"),
        (COPY * [1, 0], {"normalise": True}, "Only one value of y has a positive probability"),
        ({"p": COPY}, {}, "p must be an array of numbers; got a dict"),
    ],
)
def test_mistakes_get_a_sentence(p, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        broja(p, **settings)


SPARSE = np.random.default_rng(110).dirichlet(np.full(500, 0.01)).reshape(10, 10, 5)


def test_an_answer_that_the_solver_doubts_is_taken_if_the_bound_agrees(monkeypatch):
    """Clarabel calls its answer to this table inaccurate; a q with other marginals would not do, however small."""
    import cvxpy

    real, statuses = cvxpy.Problem.solve, []

    def watched(self, **settings):
        real(self, **settings)
        statuses.append(self.status)

    monkeypatch.setattr(cvxpy.Problem, "solve", watched)
    found = solve(SPARSE)
    assert found.aligned == pytest.approx(found.bound, abs=1e-6)
    assert max(found.first, found.second) <= found.aligned <= found.both
    assert statuses in (["optimal_inaccurate"], ["optimal"])  # versions of the solver differ


def test_a_solver_is_asked_again_with_other_settings(monkeypatch):
    import cvxpy

    p, asked, real = random((3, 3, 2), 0), [], cvxpy.Problem.solve
    expected = broja(p)

    def moody(self, **settings):
        asked.append(settings)
        if len(asked) == 1:
            raise cvxpy.SolverError("no luck")
        real(self, **settings)
        if len(asked) == 2:
            (q,) = self.variables()
            q.value = q.value * np.linspace(0.99, 1.01, len(q.value))  # no longer the marginals

    monkeypatch.setattr(cvxpy.Problem, "solve", moody)
    np.testing.assert_allclose(values(broja(p)), values(expected), atol=1e-6)
    assert len(asked) == 3
    assert asked[0] != asked[1] != asked[2] != asked[0]


def test_a_solver_that_fails_or_answers_wrongly_is_not_believed(monkeypatch):
    import cvxpy

    p = random((3, 3, 2), 0)
    real = cvxpy.Problem.solve
    with monkeypatch.context() as patch:
        patch.setattr(cvxpy.Problem, "status", property(lambda self: "user_limit"))
        with pytest.raises(
            RuntimeError, match=r"returned status 'user_limit' for this distribution of shape \(3, 3, 2\)"
        ):
            broja(p)
    with monkeypatch.context() as patch:

        def broken(self, **settings):
            raise cvxpy.SolverError("no luck")

        patch.setattr(cvxpy.Problem, "solve", broken)
        with pytest.raises(RuntimeError, match=r"failed on this distribution.*no luck"):
            broja(p)

    def inexact(self, **settings):
        real(self, **settings)
        (q,) = self.variables()
        a, b, y = np.nonzero(p > 0)
        q.value = 0.9 * q.value + 0.1 * p[a, b, y]  # has the marginals and a plausible size, but is not the least

    monkeypatch.setattr(cvxpy.Problem, "solve", inexact)
    with pytest.raises(RuntimeError, match=r"solution is off by .* nats"):
        broja(p)


def test_without_cvxpy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"BROJA needs cvxpy and clarabel: pip install 'synib\[audit\]'"):
        broja(COPY)
