"""The exact decomposition of Bertschinger, Rauh, Olbrich, Jost and Ay (BROJA) for discrete variables."""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib.measure.arrays import Array, as_numbers
from synib.measure.pid.decomposition import PID, decompose

TOLERANCE = 1e-5  # nats between the solver's solution and its proven bound, a tenth of the required accuracy
# Settings of Clarabel, tried in order: the defaults, then more careful ones.
ATTEMPTS: tuple[dict[str, Any], ...] = (
    {},
    {"max_iter": 1000, "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10},
    {"max_iter": 1000, "max_step_fraction": 0.9, "iterative_refinement_max_iter": 50},
)


def broja(p: ArrayLike | Tensor, base: float = 2.0, *, normalise: bool = False) -> PID:
    r"""Redundant, unique and synergistic information of two discrete sources about a target.

    Among all joint distributions with the same :math:`p(x_1, y)` and :math:`p(x_2, y)`, the one with the least
    :math:`I_q(X_1, X_2; Y)` has no synergy; the components follow from it:

    .. math:: S = I_p(X_1, X_2; Y) - I_q, \quad U_1 = I_q - I(X_2; Y), \quad U_2 = I_q - I(X_1; Y), \quad
        R = I(X_1; Y) + I(X_2; Y) - I_q

    (Bertschinger et al., "Quantifying unique information", Entropy 2014). The convex problem, exponential cones under
    linear constraints, is solved by Clarabel, and the solution is verified by a dual bound.

    Two noisy copies of the same bit have synergy in this definition: together they are more informative than either.
    That is pooling, not interaction.

    Args:
        p: ``p[x1, x2, y]``, probabilities that sum to 1.
        base: Base of the logarithm: 2 for bits, ``math.e`` for nats.
        normalise: Whether to divide counts or other weights by their sum.

    Example:
        >>> import numpy as np
        >>> xor = np.zeros((2, 2, 2))
        >>> xor[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] = 0.25
        >>> print(broja(xor))
        redundant 0.0000, unique1 0.0000, unique2 0.0000, synergy 1.0000 (total 1.0000 bits)
    """
    if isinstance(base, bool) or not isinstance(base, Real) or not 1 < base < np.inf:
        raise ValueError(f"base must be the base of a logarithm, a number above 1; got {base!r}.")
    joint = as_numbers(p, "p")
    if joint.ndim != 3:
        raise ValueError(
            f"BROJA decomposes two sources, p[x1, x2, y]; got an array of {joint.ndim} dimensions (for more "
            "sources, combine some into one)."
        )
    if not np.isfinite(joint).all() or (joint < 0).any():
        raise ValueError("p contains negative or infinite values or NaN; probabilities must be numbers from 0 to 1.")
    if joint.sum() == 0:
        raise ValueError("p sums to 0, so there is nothing to decompose.")
    if not normalise and abs(joint.sum() - 1) > 1e-6:
        raise ValueError(f"p sums to {joint.sum():.6g}, not to 1: use normalise=True if these are counts.")
    if (joint.sum((0, 1)) > 0).sum() == 1:
        raise ValueError("Only one value of y has a positive probability, so there is no information to decompose.")
    solution = solve(joint / joint.sum())
    unit = {2.0: "bits", float(np.e): "nats"}.get(float(base), f"logarithm to base {base:g}")
    parts = decompose(solution.both, solution.first, solution.second, solution.aligned)
    return PID(**{name: max(0.0, float(value / np.log(base))) for name, value in parts.items()}, unit=unit)


@dataclass(frozen=True)
class Solution:
    """The information of a joint distribution in nats, and the contribution of each cell.

    Args:
        both, first, second, aligned: I(X1,X2;Y), I(X1;Y), I(X2;Y) and the least I_q(X1,X2;Y).
        cells: Arrays like p, one for each of these; the mean over p is the information, and deviations from it are the
            derivatives with respect to p.
        bound: The lower bound on ``aligned`` proved by the dual.
    """

    both: float
    first: float
    second: float
    aligned: float
    cells: tuple[Array, ...]
    bound: float


def solve(p: Array) -> Solution:
    """Solve BROJA's problem for a valid joint distribution.

    A solution that the solver reports as inaccurate is accepted if the dual bound agrees; otherwise other solver
    settings are tried.
    """
    cp = _cvxpy()
    p1, p2 = p.sum(1), p.sum(0)
    # q is 0 wherever a marginal is 0; everywhere else a positive q is feasible (independence given y).
    a, b, y = np.nonzero((p1[:, None] > 0) & (p2 > 0))
    n = len(a)
    q = cp.Variable(n)
    rows1, rows2, pairs = (_membership(np.ravel_multi_index(at, s), np.prod(s), n)
                           for at, s in (((a, y), p1.shape), ((b, y), p2.shape), ((a, b), p.shape[:2])))  # fmt: skip
    seen1, seen2 = p1.ravel() > 0, p2.ravel() > 0
    constraints = [rows1[seen1] @ q == p1.ravel()[seen1], rows2[seen2] @ q == p2.ravel()[seen2]]
    minus_entropy = cp.sum(cp.rel_entr(q, pairs.T @ (pairs @ q)))  # sum of q log(q / q(x1, x2)) = -H_q(Y | X1, X2)
    problem = cp.Problem(cp.Minimize(minus_entropy), constraints)
    aligned, m1, m2 = np.zeros_like(p), np.zeros(p1.size), np.zeros(p2.size)
    failures = []
    for settings in ATTEMPTS:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the accuracy is checked below
                problem.solve(solver=cp.CLARABEL, warm_start=False, **settings)
        except cp.SolverError as e:
            failures.append(f"The solver failed on this distribution of shape {p.shape}: {e}")
            continue
        if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            failures.append(
                f"The solver returned status {problem.status!r} for this distribution of shape {p.shape}, not optimal."
            )
            continue
        aligned[a, b, y] = np.maximum(q.value, 0.0)
        m1[seen1], m2[seen2] = -constraints[0].dual_value, -constraints[1].dual_value
        solution, error = _solution(p, aligned / aligned.sum(), m1.reshape(p1.shape)[:, None] + m2.reshape(p2.shape))
        if error <= TOLERANCE:
            return solution
        failures.append(
            f"The solution is off by {error:.1e} nats for this distribution of shape {p.shape}, more than "
            f"{TOLERANCE:.0e}."
        )
    raise RuntimeError(failures[0])


def _solution(p: Array, q: Array, multipliers: Array) -> tuple[Solution, float]:
    """The information values from the solver's distribution and multipliers, and a bound on their error."""
    p1, p2, py = p.sum(1), p.sum(0), p.sum((0, 1))
    value = _information(q)
    # Lagrange multipliers: -H_q(Y | X1, X2) >= E_p[m1(x1, y) + m2(x2, y)] if exp(m1 + m2) sums to at most 1 over y.
    multipliers = np.where((p1[:, None] > 0) & (p2 > 0), multipliers, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        multipliers = multipliers - np.maximum(np.log(np.exp(multipliers).sum(2)), 0.0).max()
        cells = (*_cells(p), np.where(p > 0, multipliers - np.log(py), 0.0))
    total, first, second, bound = (float((p * c).sum()) for c in cells)
    low, high = max(first, second), min(total, first + second)
    # A q with other marginals than p could be below the minimum.
    moved = max(np.abs(q.sum(1) - p1).sum(), np.abs(q.sum(0) - p2).sum())
    error = float(np.max([value - bound, low - value, value - high, moved]))  # NaN if any is NaN, and then not accepted
    value = float(np.clip(value, low, high))  # all components are at least 0, and their sums stay exact
    cells = (*cells[:3], np.where(p > 0, cells[3] + value - bound, 0.0))
    return Solution(total, first, second, value, cells, bound), error


def _cells(p: Array) -> tuple[Array, ...]:
    """The log-ratio log p(y | observed sources) / p(y) for each cell, for both sources and for each alone."""
    p1, p2, py = p.sum(1), p.sum(0), p.sum((0, 1))
    seen = p, np.broadcast_to(p1[:, None], p.shape), np.broadcast_to(p2, p.shape)
    of = p.sum(2)[..., None], p1.sum(1)[:, None, None], p2.sum(1)[None, :, None]
    return tuple(np.where(p > 0, np.log(s / (o * py)), 0.0) for s, o in zip(seen, of, strict=True))


def _information(p: Array) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((p * _cells(p)[0]).sum())


def _membership(index: Array, size: Any, n: int) -> Any:
    from scipy import sparse

    return sparse.csr_array((np.ones(n), (index, np.arange(n))), shape=(int(size), n))


def _cvxpy() -> Any:
    try:
        import clarabel  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
        import cvxpy
    except ImportError as e:
        raise ImportError("BROJA needs cvxpy and clarabel: pip install 'synib[audit]'") from e
    return cvxpy
