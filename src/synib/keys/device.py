"""The draws on CUDA by Triton kernels, where those give the bits of the tensor operations; otherwise by tensor operations."""

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from synib.keys import chain

BLOCK = 1024
LARGEST = 1 << 30  # numbers of one key, which are counted with 32 bits
SORTED = 2048  # a longer permutation is sorted
RANKED = 64  # words that one program compares with all others

Usable = dict[int | None, tuple[bool, bool]]
_usable: Usable = {}


def bits(key: Tensor, n: int, device: torch.device) -> Tensor:
    """``n`` words of 64 bits for each key."""
    if not usable(device) or not 0 < n < LARGEST:
        return chain.bits(key, n, device)
    out = torch.empty(*key.shape, n, dtype=torch.int64, device=device)
    return _draw("bits", key, out, n, n)


def uniform(key: Tensor, n: int, device: torch.device) -> Tensor:
    """Uniform draws on [0, 1)."""
    if not usable(device) or not 0 < n < LARGEST:
        return chain.uniform(key, n, device)
    out = torch.empty(*key.shape, n, device=device)
    return _draw("uniform", key, out, n, (n + 1) // 2)


def bernoulli(key: Tensor, p: float, n: int, device: torch.device) -> Tensor:
    """True where the uniform draw is below ``p``."""
    if not usable(device) or not 0 < n < LARGEST:
        return chain.bernoulli(key, p, n, device)
    out = torch.empty(*key.shape, n, dtype=torch.bool, device=device)
    _draw("bernoulli", key, out.view(torch.uint8), n, (n + 1) // 2, p=p)
    return out


def normal(key: Tensor, n: int, device: torch.device) -> Tensor:
    """Standard normal draws; logarithm and cosine are torch's own where those of Triton have other digits."""
    if not usable(device) or not 0 < n < LARGEST:
        return chain.normal(key, n, device)
    half = (n + 1) // 2
    if _usable[device.index][1]:
        return _draw("normal", key, torch.empty(*key.shape, n, device=device), n, half)
    u, angle = (torch.empty(*key.shape, half, device=device) for _ in range(2))
    _draw("polar", key, u, half, half, angles=angle)
    return chain.box_muller(u, angle, n)


def permutation(key: Tensor, n: int, device: torch.device) -> Tensor:
    """A random permutation of ``range(n)`` for each key."""
    if not usable(device) or not 0 < n <= SORTED:
        return bits(key, n, device).argsort()
    from synib.keys import kernels

    out = torch.empty(*key.shape, n, dtype=torch.int64, device=device)
    blocks = -(-n // RANKED)
    start, stride, host = _start(key, device)
    with torch.cuda.device_of(out):
        kernels.permutation[(key.numel() * blocks,)](start, stride, out, n, HOST=host, BLOCKS=blocks, BLOCK=RANKED)
    return out


def fold(key: Tensor, labels: Sequence[int]) -> Tensor:
    """A new key for each sequence of labels."""
    if not usable(key.device) or not key.numel():
        return chain.fold(key, labels)
    from synib.keys import kernels

    for first in range(0, len(labels), 4):
        some = labels[first : first + 4]
        flat = key.reshape(-1)
        out = torch.empty_like(key, memory_format=torch.contiguous_format)
        four = [*some, *[0] * (4 - len(some))]
        with torch.cuda.device_of(out):
            kernels.fold[(-(-flat.numel() // 128),)](
                flat, flat.stride(0), out, flat.numel(), *four, LABELS=len(some), BLOCK=128
            )
        key = out
    return key


def usable(device: torch.device) -> bool:
    """Whether the kernels can be used on a device: they have been compiled there and gave the right bits."""
    known = _usable.get(device.index)
    if known is not None:
        return known[0]
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return False  # comparing would wait for the device; it is decided by a draw outside of the recording
    if importlib.util.find_spec("triton") is None:
        _usable[device.index] = (False, False)
        return False
    try:
        _usable[device.index] = (True, True)
        _check(device)
        _usable[device.index] = (True, _same_functions(device))
    except Exception as e:  # an unsupported card, or a compiler that is missing
        _usable[device.index] = (False, False)
        warnings.warn(f"Random draws on {device} use plain tensor operations, since Triton failed: {e!r}", stacklevel=2)
    return _usable[device.index][0]


def _check(device: torch.device) -> None:
    """Raise ``RuntimeError`` if integers or uniform numbers differ from those of the tensor operations."""
    key, n, labels = torch.tensor([0, 1, -1, 1 << 62], device=device), 1001, [0, -5, 1 << 40, 0, 7]
    pairs = {
        "bits": (bits(key, n, device), chain.bits(key, n, device)),
        "uniform": (uniform(key, n, device), chain.uniform(key, n, device)),
        "bernoulli": (bernoulli(key, 0.3, n, device), chain.bernoulli(key, 0.3, n, device)),
        "permutation": (permutation(key, n, device), chain.permutation(key, n, device)),
        "fold": (fold(key, labels), chain.fold(key, labels)),
    }
    wrong = [name for name, (drawn, expected) in pairs.items() if not torch.equal(drawn, expected)]
    if wrong:
        raise RuntimeError(f"its kernels give other numbers for {', '.join(wrong)}")


def _same_functions(device: torch.device, some: int = 1 << 20) -> bool:
    """Compares radius, cosine and sine with torch's for every one of the 2^24 numbers that they can get."""
    from synib.keys import kernels

    same = torch.ones((), dtype=torch.bool, device=device)
    for start in range(0, 1 << 24, some):
        radius, cosine, sine = torch.empty(3, some, device=device)
        with torch.cuda.device_of(radius):
            kernels.polar[(some // BLOCK,)](start, radius, cosine, sine, BLOCK=BLOCK)
        number = torch.arange(start, start + some, device=device).to(torch.float32)
        angle = number * chain.ANGLE
        expected = number.add_(0.5).mul_(chain.UNIT).log_().mul_(-2.0).sqrt_()
        same &= (radius == expected).all() & (cosine == angle.cos()).all() & (sine == angle.sin()).all()
    return bool(same)


def _draw(
    kind: str, key: Tensor, out: Tensor, n: int, words: int, p: float = 0.0, angles: Tensor | None = None
) -> Tensor:
    from synib.keys import kernels

    blocks = -(-words // BLOCK)
    start, stride, host = _start(key, out.device)
    if key.numel():
        with torch.cuda.device_of(out):
            kernels.draw[(key.numel() * blocks,)](
                start, stride, out, out if angles is None else angles, n, words, blocks, p,
                HOST=host, KIND=kind, BLOCK=BLOCK,
            )  # fmt: skip
    return out


def _start(key: Tensor, device: torch.device) -> tuple[Any, int, bool]:
    """The keys as a pointer with a stride; or one on the host as a number, which needs no copy to the device."""
    if key.device.type != device.type:
        if not key.ndim:
            return int(key), 0, True
        key = key.to(device)
    flat = key.reshape(-1)
    return flat, flat.stride(0), False
