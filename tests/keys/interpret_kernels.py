"""Runs every kernel in Triton's interpreter, on the CPU, and compares; started by test_draws.py."""

import contextlib

import torch

from synib.keys import chain, device

CPU = torch.device("cpu")
KEYS = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 7046029254386353131])


def main() -> None:
    torch.cuda.device_of = lambda tensor: contextlib.nullcontext()
    device._usable[None] = (True, False)
    for key in (KEYS, KEYS[0], KEYS[2], KEYS[5], KEYS.view(2, 3).t(), torch.stack([KEYS, KEYS], 1)[:, 0]):
        for n in (1, 2, 3, 64, 1001, 2047, 2048):
            for name in ("bits", "uniform", "normal"):
                assert torch.equal(getattr(device, name)(key, n, CPU), getattr(chain, name)(key, n, CPU)), (name, n)
            for p in (0.0, 2.0**-24, 0.3, 1.0):
                assert torch.equal(device.bernoulli(key, p, n, CPU), chain.bernoulli(key, p, n, CPU)), (p, n)
        for n in (1, 64, 129):
            assert torch.equal(device.permutation(key, n, CPU), chain.permutation(key, n, CPU)), n
        for labels in ([5], [0], [-5, 0, 1 << 40, 0, 7], [-(1 << 63)] * 4):
            assert torch.equal(device.fold(key, labels), chain.fold(key, labels)), labels


if __name__ == "__main__":
    main()
