"""What a searching mask evaluates: the unimodal loss of a model, and its gradient."""

from collections.abc import Callable

from torch import Tensor

from synib.masks import Probe
from synib.masks.slope import LayerSlope
from synib.objective.families import Family
from synib.objective.model import MultimodalModel
from synib.tokens import Modality, with_values


def unimodal_probe(
    model: MultimodalModel,
    name: str,
    x: Modality,
    fill: Callable[[Tensor], Tensor],
    family: Family,
    target: Tensor,
    examples: Tensor | None = None,
    check_values: bool = False,
) -> Probe:
    """The :class:`Probe` of a modality of a model; its modules must be in evaluation mode.

    Args:
        model: The model; without a unimodal head there is no loss.
        name: The modality.
        x: Its batch.
        fill: Key → one draw of the replacing noise.
        family: The predictive distribution.
        target: The targets.
        examples: Indices of the rows in the training data, if known.
        check_values: Whether to check the values of the target as well as its shape.
    """
    if not model.has_head(name):
        return Probe(name, fill, None, examples)

    def checked(prediction: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal check_values
        family.check_target(prediction, target, values=check_values)  # a searching mask meets the target first
        check_values = False
        return prediction, target

    def loss(v: Tensor) -> Tensor:
        return family.nll(*checked(model.head(name, model.encode(name, with_values(x, v)), through=True)))

    layers = model.unimodal_layers(name) if isinstance(x, Tensor) and x.ndim == 2 else None
    if layers is None:
        return Probe(name, fill, loss, examples)
    slope = LayerSlope(layers, lambda prediction: family.nll_gradient(*checked(prediction)))
    return Probe(name, fill, loss, examples, slope)
