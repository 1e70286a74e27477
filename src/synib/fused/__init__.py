"""Operations that torch runs as several kernels, as one Triton kernel each, with the same bits.

Training many small models at once on a GPU is limited by its memory: every kernel reads and writes all activations, or all
parameters. The fleet uses these operations on CUDA where Triton is installed and gave torch's bits on this card.
"""

import torch

from synib.fused import activation, adam
from synib.fused.activation import applies, relu_dropout, transposed
from synib.fused.adam import Adam, keep_finite

__all__ = ["Adam", "applies", "keep_finite", "prepare", "relu_dropout", "transposed"]


def prepare(device: torch.device) -> None:
    """Compile and check all kernels for a device, before they are needed inside a transform or a recording."""
    for kernel in (activation, adam):
        kernel.prepare(device)
