"""Whether a callback or a module of Lightning looks at gradients, which a replayed step does not show."""

from typing import Any

HOOKS = (
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "optimizer_step",
    "optimizer_zero_grad",
    "configure_gradient_clipping",
    "backward",
)


def watches_gradients(what: Any) -> bool:
    """Whether a callback or a module defines a hook that Lightning calls between gradients and update."""
    own = [
        kind for kind in type(what).__mro__ if kind.__module__.split(".")[0] not in ("lightning", "pytorch_lightning")
    ]
    return any(hook in vars(kind) for kind in own for hook in HOOKS)
