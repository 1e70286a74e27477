"""Random numbers as a pure function of a key, independent of all other draws.

A key is a 0-dimensional ``int64`` tensor. The same key gives the same numbers on every device, alone or under
``torch.func.vmap``, eager or compiled: many models can train at once, and each sees exactly the masks and noise that it
would see alone. Torch's own generators cannot do that: their numbers depend on how many were drawn before.

The bits are those of SplitMix64 (Steele, Lea & Flood 2014): a counter times an odd constant, plus the key, through a
64-bit mixing function.
"""

import math
import zlib
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from synib.checks import check_whole, shown

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, odd; written as the signed integer torch understands
_INVERSE = pow(0x9E3779B97F4A7C15, -1, 1 << 64) - (1 << 64)  # _GOLDEN * _INVERSE = 1 modulo 2^64
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)
_UNIT = 2.0**-24  # float32 holds 24 bits exactly


def key(seed: int, device: torch.device | str | None = None) -> Tensor:
    """The key of an integer seed."""
    return _mix(torch.tensor(check_whole("seed", seed, None), dtype=torch.int64, device=device) * _GOLDEN)


def check_key(key: Tensor) -> Tensor:
    """Return the key if it is valid."""
    if isinstance(key, Tensor) and key.dtype == torch.int64 and key.ndim == 0:
        return key
    raise ValueError(f"key must be a 0-dimensional int64 tensor, such as synib.keys.key(7); got {shown(key)}.")


def fresh(device: torch.device | str | None = None) -> Tensor:
    """A key drawn from torch's global generator, so that ``torch.manual_seed`` determines it.

    Processes of one ``torch.distributed`` group usually use the same seed; each process gets a different key.
    """
    drawn = torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64, device=device)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return fold(drawn, "rank", dist.get_rank())
    return drawn


def fold(key: Tensor, *labels: int | str | Tensor) -> Tensor:
    """A new key for each sequence of labels (a step number, a modality's name, ...) under the same parent.

    A tensor of integers gives one key for each of them.
    """
    for label in labels:
        if isinstance(label, Tensor):
            key = _nonzero(key ^ label.to(torch.int64) * _MIX_1)
        elif not label:
            key = _nonzero(key)
        elif isinstance(label, str):
            key = key ^ (_SPREAD.get(label) or _spread(label))
        else:
            spread = label * _MIX_1 % (1 << 64)
            key = key ^ (spread - (spread >> 63 << 64))
        key = _mix(key + _GOLDEN)
    return key


def split(key: Tensor, n: int) -> Tensor:
    """``n`` new keys, ``(n,)``."""
    return _bits(fold(key, "split"), n)


def uniform(key: Tensor, shape: Sequence[int], device: torch.device | None = None) -> Tensor:
    """Uniform draws on [0, 1), ``float32``, on ``device`` (by default the key's device)."""
    n = math.prod(shape)
    bits = _bits(key, (n + 1) // 2, device)
    high, low = (bits >> 40).bitwise_and_(0xFFFFFF), bits & 0xFFFFFF
    return torch.cat([high.to(torch.float32), low.to(torch.float32)])[:n].mul_(_UNIT).reshape(tuple(shape))


def normal(key: Tensor, shape: Sequence[int], device: torch.device | None = None) -> Tensor:
    """Standard normal draws, ``float32`` (Box-Muller, two draws from each 64-bit word)."""
    n = math.prod(shape)
    bits = _bits(key, (n + 1) // 2, device)
    high, low = (bits >> 40).bitwise_and_(0xFFFFFF).to(torch.float32), (bits & 0xFFFFFF).to(torch.float32)
    radius = high.add_(0.5).mul_(_UNIT).log_().mul_(-2.0).sqrt_()
    angle = low.mul_(2.0 * math.pi * _UNIT)
    return torch.cat([radius * angle.cos(), radius.mul_(angle.sin_())])[:n].reshape(tuple(shape))


def permutation(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """A random permutation of ``range(n)``."""
    return _bits(key, n, device).argsort()


def _bits(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    # A key on the host costs nothing to fold, and enters a kernel on the device as a number, without a wait.
    counter = torch.arange(1, n + 1, dtype=torch.int64, device=device if device is not None else key.device)
    # That is counter * _GOLDEN + key, written so that no compiler takes the counter for a 32-bit index.
    return _mix((counter + key * _INVERSE) * _GOLDEN)


def _mix(z: Tensor) -> Tensor:
    # torch's >> copies the sign bit down; the masks make it the logical shift that SplitMix64 asks for.
    z = (z >> 30).bitwise_and_((1 << 34) - 1).bitwise_xor_(z).mul_(_MIX_1)
    z = (z >> 27).bitwise_and_((1 << 37) - 1).bitwise_xor_(z).mul_(_MIX_2)
    return (z >> 31).bitwise_and_((1 << 33) - 1).bitwise_xor_(z)


def _nonzero(key: Tensor) -> Tensor:
    # The mixing function maps 0 to 0, and key(0) is 0: without this, folding 0 into it would give key(1).
    return torch.where(key == 0, _MIX_2, key)


def _spread(label: str) -> int:
    number = zlib.crc32(label.encode()) * _MIX_1 % (1 << 64)  # stable, unlike hash()
    spread = number - (number >> 63 << 64)  # as the signed integer torch understands
    _SPREAD[label] = spread
    return spread


_SPREAD: dict[str, int] = {}

# Dynamo cannot look into zlib. This mark is all that torch.compiler.assume_constant_result sets, but calling that imports the
# whole compiler, and `import synib` would take twice as long as `import torch`.
_spread._dynamo_marked_constant = True  # type: ignore[attr-defined]
