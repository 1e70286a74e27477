"""The paper's networks, with the shapes its appendix gives."""

from collections.abc import Mapping

from synib.kinds import check_whole, check_widths
from synib.models.fusion import ConcatFusion, FusionModel
from synib.models.mlp import mlp


def spurious_xor_model(widths: Mapping[str, int], dropout: float = 0.0, detach_heads: bool = False) -> FusionModel:
    """The Spurious-XOR network (App. "Spurious XOR"): encoders 64 → 16, linear heads, fusion 32 → 32 → 1.

    With more modalities the fusion head is wider at its input, and nothing else changes.
    """
    return FusionModel.mlp(
        widths, hidden=[16], classes=1, head_hidden=[], fusion_hidden=[32], dropout=dropout, detach_heads=detach_heads
    )


def pid_xor_model(
    widths: Mapping[str, int], width: int = 1024, dropout: float = 0.0, detach_heads: bool = False
) -> FusionModel:
    """The PID-XOR network (App. "PID-Controlled XOR"): encoders 32 → 1024 → 1024, heads 1024 → 1024 → 1, fusion
    2048 → 128 → 128 → 1.

    Args:
        widths: For each modality its width.
        width: Of the encoders' and heads' layers; less than 1024 is not the paper's network but trains on a laptop.
        dropout: After the first hidden layer of the encoders and of the fusion; the paper names no rate.
        detach_heads: Whether the heads' loss stops at the latents, as in the authors' script but not in the text.
    """
    check_widths("widths", widths, module=True)
    check_whole("width", width)
    return FusionModel(
        {name: mlp([n, width, width], dropout=[dropout, 0.0], last_activation=True) for name, n in widths.items()},
        ConcatFusion(dict.fromkeys(widths, width), [128, 128, 1], dropout=[dropout, 0.0]),
        {name: mlp([width, width, 1]) for name in widths},
        detach_heads,
    )
