"""Random numbers as a pure function of a key, independent of all other draws.

A key is a 0-dimensional ``int64`` tensor. The same key gives the same numbers on every device, alone or under
``torch.func.vmap``, eager or compiled: many models can train at once, and each sees exactly the masks and noise that it
would see alone. Torch's own generators cannot do that: their numbers depend on how many were drawn before.

The bits are those of SplitMix64 (Steele, Lea & Flood 2014): a counter times an odd constant, plus the key, through a
64-bit mixing function. A draw is one operation: a Triton kernel on CUDA (:mod:`synib.keys.kernels`), and on a CPU a pass
over blocks that fit into its cache (:mod:`synib.keys.host`).
"""

import math
import zlib
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from synib.checks import check_whole, shown
from synib.keys import chain, ops
from synib.keys.chain import GOLDEN, spread
from synib.keys.host import mix


def key(seed: int, device: torch.device | str | None = None) -> Tensor:
    """The key of an integer seed."""
    word = mix(check_whole("seed", seed, None) * GOLDEN % (1 << 64))
    return torch.tensor(word - (word >> 63 << 64), dtype=torch.int64, device=device)


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
    numbers = [label if isinstance(label, Tensor) else _number(label) for label in labels]
    if not numbers:
        return key
    return (chain if any(isinstance(number, Tensor) for number in numbers) else ops).fold(key, numbers)


def split(key: Tensor, n: int) -> Tensor:
    """``n`` new keys, ``(n,)``."""
    return _bits(fold(key, "split"), n)


def uniform(key: Tensor, shape: Sequence[int], device: torch.device | None = None) -> Tensor:
    """Uniform draws on [0, 1), ``float32``, on ``device`` (by default the key's device)."""
    return ops.uniform(key, math.prod(shape), device).reshape(tuple(shape))


def bernoulli(key: Tensor, p: float, shape: Sequence[int], device: torch.device | None = None) -> Tensor:
    """Booleans that are true with probability ``p``: where :func:`uniform` is below it."""
    return ops.bernoulli(key, p, math.prod(shape), device).reshape(tuple(shape))


def normal(key: Tensor, shape: Sequence[int], device: torch.device | None = None) -> Tensor:
    """Standard normal draws, ``float32`` (Box-Muller, two draws from each 64-bit word)."""
    return ops.normal(key, math.prod(shape), device).reshape(tuple(shape))


def permutation(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    """A random permutation of ``range(n)``."""
    return ops.permutation(key, n, device)


def _bits(key: Tensor, n: int, device: torch.device | None = None) -> Tensor:
    return ops.bits(key, n, device)


def _number(label: int | str) -> int:
    """The label as an integer spread over 64 bits; 0 for 0 and for the empty string."""
    if not label:
        return 0
    if not isinstance(label, str):
        return spread(label)
    if torch.compiler.is_compiling():
        return _spread(label)
    number = _SPREAD.get(label)
    if number is None:
        number = _SPREAD[label] = _spread(label)
    return number


def _spread(label: str) -> int:
    return spread(zlib.crc32(label.encode()))  # stable, unlike hash()


_SPREAD: dict[str, int] = {}

# Dynamo cannot look into zlib. This mark is all that torch.compiler.assume_constant_result sets, but calling that imports the
# whole compiler, and `import synib` would take twice as long as `import torch`.
_spread._dynamo_marked_constant = True  # type: ignore[attr-defined]
