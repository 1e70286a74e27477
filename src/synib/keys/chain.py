"""The draws as chains of tensor operations: what ``torch.compile`` fuses, and what runs where nothing faster is available.

Keys have any shape, a draw adds a last dimension. Every other implementation gives the same bits.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, odd; written as the signed integer torch understands
INVERSE = pow(0x9E3779B97F4A7C15, -1, 1 << 64) - (1 << 64)  # GOLDEN * INVERSE = 1 modulo 2^64
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
UNIT = 2.0**-24  # float32 holds 24 bits exactly
ANGLE = 2.0 * math.pi * UNIT


def bits(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """``n`` words of 64 bits for each key."""
    # A key on the host costs nothing to fold, and enters a kernel on the device as a number, without a wait.
    counter = torch.arange(1, n + 1, dtype=torch.int64, device=device if device is not None else key.device)
    key = key[..., None] if key.ndim else key
    # That is counter * GOLDEN + key, written so that no compiler takes the counter for a 32-bit index.
    return mix((counter + key * INVERSE) * GOLDEN)


def uniform(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """Uniform draws on [0, 1), two from each word: the upper 24 bits of all words, then the lower ones."""
    high, low = _halves(bits(key, (n + 1) // 2, device))
    return torch.cat([high, low[..., : n - high.shape[-1]]], -1).mul_(UNIT)


def bernoulli(key: Tensor, p: float, n: int, device: torch.device | None = None) -> Tensor:
    """True where the uniform draw is below ``p``."""
    return uniform(key, n, device) < p


def normal(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """Standard normal draws (Box-Muller, two from each word): all cosines, then all sines."""
    high, low = _halves(bits(key, (n + 1) // 2, device))
    return box_muller(high.add_(0.5).mul_(UNIT), low.mul_(ANGLE), n)


def box_muller(u: Tensor, angle: Tensor, n: int) -> Tensor:
    """``n`` normal draws from uniform draws on (0, 1) and angles, which are changed in place."""
    radius = u.log_().mul_(-2.0).sqrt_()
    cosine = radius * angle.cos()
    return torch.cat([cosine, radius.mul_(angle.sin_())[..., : n - cosine.shape[-1]]], -1)


def permutation(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """A random permutation of ``range(n)`` for each key."""
    return bits(key, n, device).argsort()  # words of one key are distinct, so there is one order


def fold(key: Tensor, labels: Sequence[int | Tensor]) -> Tensor:
    """A new key for each sequence of labels, which are spread over 64 bits; see :func:`spread`."""
    for label in labels:
        if isinstance(label, Tensor):
            key = _nonzero(key ^ label.to(torch.int64) * MIX_1)
        elif not label:
            key = _nonzero(key)
        else:
            key = key ^ label
        key = mix(key + GOLDEN)
    return key


def spread(number: int) -> int:
    """An integer times an odd constant, modulo 2^64, as the signed integer torch understands."""
    word = number * MIX_1 % (1 << 64)
    return word - (word >> 63 << 64)


def mix(z: Tensor) -> Tensor:
    """The mixing function of SplitMix64."""
    # torch's >> copies the sign bit down; the masks make it the logical shift that SplitMix64 asks for.
    z = (z >> 30).bitwise_and_((1 << 34) - 1).bitwise_xor_(z).mul_(MIX_1)
    z = (z >> 27).bitwise_and_((1 << 37) - 1).bitwise_xor_(z).mul_(MIX_2)
    return (z >> 31).bitwise_and_((1 << 33) - 1).bitwise_xor_(z)


def _halves(words: Tensor) -> tuple[Tensor, Tensor]:
    high, low = (words >> 40).bitwise_and_(0xFFFFFF), words & 0xFFFFFF
    return high.to(torch.float32), low.to(torch.float32)


def _nonzero(key: Tensor) -> Tensor:
    # The mixing function maps 0 to 0, and key(0) is 0: without this, folding 0 into it would give key(1).
    return torch.where(key == 0, MIX_2, key)
