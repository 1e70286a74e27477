"""What a searching mask evaluates: the unimodal loss of a model, and its gradient."""

from collections.abc import Callable

from torch import Tensor

from synib.masks import Probe
from synib.masks.slope import LayerSlope
from synib.objective.model import MultimodalModel
from synib.tokens import Modality, with_values


def unimodal_probe(
    model: MultimodalModel,
    name: str,
    x: Modality,
    fill: Callable[[Tensor], Tensor],
    nll: Callable[[Tensor], Tensor],
    examples: Tensor | None = None,
) -> Probe:
    """The :class:`Probe` of a modality of a model; its modules must be in evaluation mode.

    Args:
        model: The model; without a unimodal head there is no loss.
        name: The modality.
        x: Its batch.
        fill: Key → one draw of the replacing noise.
        nll: Unimodal prediction → negative log-likelihood of each example's target.
        examples: Indices of the rows in the training data, if known.
    """
    if not model.has_head(name):
        return Probe(name, fill, None, examples)

    def loss(v: Tensor) -> Tensor:
        return nll(model.head(name, model.encode(name, with_values(x, v)), through=True))

    layers = model.unimodal_layers(name) if isinstance(x, Tensor) and x.ndim == 2 else None
    return Probe(name, fill, loss, examples, None if layers is None else LayerSlope(layers, nll))
