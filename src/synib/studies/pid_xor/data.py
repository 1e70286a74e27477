"""PID-controlled XOR: each example's label comes from exactly one source, in chosen proportions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from synib.checks import is_number
from synib.data.dataset import Dataset, Split, check_sizes, generator, standardised

WIDTH = 32
BLOCKS = {"unique": range(0, 6), "redundant": range(6, 12), "synergy": range(12, 18), "noise": range(18, 32)}
SOURCES = ("U1", "U2", "R", "S")
LATENT, SCALE, PROJECTION_SPREAD = 4, 3.0, 0.5


def pid_xor(
    p_u1: float = 0.45,
    p_u2: float = 0.0,
    p_r: float = 0.45,
    p_s: float = 0.10,
    seed: int = 0,
    *,
    train: int = 1800,
    validation: int = 200,
    test: int = 4000,
    projection_seed: int = 0,
) -> Dataset:
    """The paper's PID-controlled XOR (App. "PID-Controlled XOR").

    Every coordinate starts as standard noise; the active source overwrites its block in one or both modalities with a
    sign-aligned latent through a fixed random projection; coordinates are standardised by the training statistics. The
    ``groups`` of the splits contain the examples of each source.

    Args:
        p_u1, p_u2, p_r, p_s: Probability of each source; they sum to 1.
        seed: Determines the examples.
        train, validation, test: Numbers of examples; training and validation are drawn together and split.
        projection_seed: Determines the projections, which are the same for every mixture and seed.

    Example:
        >>> from synib.studies.pid_xor.data import pid_xor
        >>> data = pid_xor(0.45, 0.0, 0.45, 0.10, seed=0)
        >>> {source: int(rows.sum()) for source, rows in data.test.groups.items()}
        {'U1': 1811, 'U2': 0, 'R': 1778, 'S': 411}
    """
    proportions = [p_u1, p_u2, p_r, p_s]
    if not all(is_number(p) and p >= 0 for p in proportions) or abs(sum(proportions) - 1.0) > 1e-6:
        hint = ": write pid_xor(*mixture)" if isinstance(p_u1, Sequence) and not isinstance(p_u1, str) else ""
        raise ValueError(f"A mixture (U1, U2, R, S) must be non-negative and sum to 1; got {proportions}{hint}.")
    mixture = torch.tensor(proportions, dtype=torch.float64)
    check_sizes(train=train, validation=validation, test=test)
    if train < 2:
        raise ValueError(f"Standardising coordinates needs at least 2 training examples; got train={train}.")
    projections = _projections(projection_seed)
    fitted = _draw(train + validation, mixture, projections, generator(seed, "pid-xor-fit"))
    tested = _draw(test, mixture, projections, generator(seed, "pid-xor-test"))
    splits = standardised(fitted.take(slice(0, train)), fitted.take(slice(train, None)), tested)
    return Dataset(*splits, blocks={"x1": BLOCKS, "x2": BLOCKS})


def _projections(seed: int) -> dict[tuple[str, int], Tensor]:
    g = generator(seed, "pid-xor-projections")
    pairs = [(block, m) for block in ("unique", "redundant", "synergy") for m in (0, 1)]
    return {pair: PROJECTION_SPREAD * torch.randn(WIDTH, LATENT, generator=g) for pair in pairs}


def _draw(n: int, mixture: Tensor, projections: dict[tuple[str, int], Tensor], g: torch.Generator) -> Split:
    x = [torch.randn(n, WIDTH, generator=g) for _ in range(2)]
    target = torch.randint(2, (n,), generator=g)
    source = torch.multinomial(mixture, n, replacement=True, generator=g)
    bit = torch.randint(2, (n,), generator=g)
    # One latent for each modality; a redundant example uses the first in both.
    latent = SCALE * torch.randn(2, n, LATENT, generator=g).abs()

    def write(block: str, m: int, bits: Tensor, z: Tensor, rows: Tensor) -> None:
        columns = slice(BLOCKS[block].start, BLOCKS[block].stop)
        aligned = (2.0 * bits - 1.0)[:, None] * z
        x[m][:, columns] = torch.where(rows[:, None], aligned @ projections[block, m][columns].T, x[m][:, columns])

    active = {name: source == i for i, name in enumerate(SOURCES)}
    for m in (0, 1):
        write("unique", m, target, latent[m], active[f"U{m + 1}"])
        write("redundant", m, target, latent[0], active["R"])
    write("synergy", 0, bit, latent[0], active["S"])
    write("synergy", 1, bit ^ target, latent[1], active["S"])
    return Split({"x1": x[0], "x2": x[1]}, target, active)
