"""Models inside the wrappers of other libraries: DistributedDataParallel, FSDP, ``torch.compile``, PEFT.

The objective reaches the encoders, heads and fusion of the wrapped model, and the wrapper keeps its function (averaging
gradients over processes, gathering parameters, compiled code).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from synib.checks import warn_once
from synib.objective.checks import check_model
from synib.objective.model import BlackBoxModel, MultimodalModel
from synib.tokens import Modality

T = TypeVar("T")
_compiled: "WeakKeyDictionary[nn.Module, CompiledModel]" = WeakKeyDictionary()


def unwrap(model: Any) -> Any:
    """The :class:`MultimodalModel` inside a wrapper; anything else is returned unchanged."""
    if isinstance(model, MultimodalModel):
        return model
    wrapped = _inside(model)
    if wrapped is not None:
        inner = unwrap(wrapped)
        if isinstance(inner, MultimodalModel) and hasattr(model, "dynamo_ctx"):
            if model not in _compiled:
                _compiled[model] = CompiledModel(inner, model.dynamo_ctx)
            return _compiled[model]
        return inner if isinstance(inner, MultimodalModel) else model
    if isinstance(model, nn.Module):
        _warn_of_hidden_heads(model)
    return model


def as_multimodal(predict: Any, unimodal: Any = None, modalities: Any = ()) -> MultimodalModel:
    """The model inside its wrappers, or a plain function wrapped as a model; see :meth:`Objective.forward`."""
    model = unwrap(predict)
    check_model(model, unimodal, modalities)
    return model if isinstance(model, MultimodalModel) else BlackBoxModel(model, unimodal)


def _inside(model: Any) -> Any:
    """The module inside a wrapper, or ``None`` if it is not a known wrapper."""
    if not isinstance(model, nn.Module):
        return None
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return model.module
    if hasattr(type(model), "get_base_model"):  # PEFT
        return model.get_base_model()  # type: ignore[operator]
    children = dict(model.named_children())
    # The only child of what torch.compile returns, and of FullyShardedDataParallel.
    return next((children[name] for name in ("_orig_mod", "_fsdp_wrapped_module") if list(children) == [name]), None)


def _warn_of_hidden_heads(model: nn.Module) -> None:
    hidden = [m for m in model.modules() if isinstance(m, MultimodalModel) and any(map(m.has_head, m.names or ()))]
    if hidden:
        warn_once(
            model,
            f"{type(model).__name__} contains a {type(hidden[0]).__name__} with unimodal heads, but it is not "
            "a wrapper known to synib: it is used as a plain function and the heads are not trained. Pass the "
            "inner model to train them.",
            stacklevel=4,
        )


def replicas(model: Any) -> Any:
    """The process group that trains replicas of a wrapped model, or ``None``."""
    while model is not None and not isinstance(model, MultimodalModel):
        if isinstance(model, nn.Module) and getattr(model, "process_group", None) is not None:
            return model.process_group
        model = _inside(model)
    return None


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP (version 1 or 2) shards parameters of the model."""
    return any(hasattr(m, "set_requires_gradient_sync") or hasattr(m, "_fsdp_wrapped_module") for m in model.modules())


def as_forward(wrapper: Any, compute: Callable[[], T], differentiates: bool = False) -> T:
    """Run ``compute()`` as one forward pass of the wrapper, so that its hooks see every use of the model.

    DistributedDataParallel averages the gradients of what ran inside its forward pass; FSDP gathers parameters for it.

    Args:
        wrapper: The wrapped model.
        compute: The computation.
        differentiates: Whether ``compute`` runs backward passes itself, as the search of a learned mask does.
    """
    if not isinstance(wrapper, nn.Module):
        return compute()
    if "dynamo_ctx" in vars(wrapper):  # what torch.compile returns has all attributes of what is inside
        return as_forward(_inside(wrapper), compute, differentiates)
    sharded = hasattr(wrapper, "set_requires_gradient_sync")  # FSDP2 adds that to the model's own class
    wrapped = None if isinstance(wrapper, MultimodalModel) else _inside(wrapper)
    if not sharded and (wrapped is None or not hasattr(wrapper, "process_group")):
        return compute() if wrapped is None else as_forward(wrapped, compute, differentiates)
    if sharded:
        _register_parts(wrapper)
    inner = wrapper if wrapped is None else wrapped
    before = vars(inner).get("forward")

    def restore() -> None:
        if before is None:
            vars(inner).pop("forward", None)
        else:
            vars(inner)["forward"] = before

    def forward(*_: Any, **__: Any) -> T:
        restore()
        return as_forward(inner, compute, differentiates) if inner is not wrapper else compute()

    vars(inner)["forward"] = forward
    # FSDP2 takes the end of any backward pass for the end of the step, and would free parameters that are still in use.
    keep: Any = wrapper if sharded and differentiates else None
    if keep is not None:
        keep.set_reshard_after_backward(False, recurse=False)
    try:
        return wrapper(None)  # type: ignore[no-any-return]
    finally:
        restore()
        if keep is not None:
            keep.set_reshard_after_backward(True, recurse=False)


def _register_parts(model: nn.Module) -> None:
    """Register the methods of the fusion with FSDP2, so that it gathers parameters for them as it does for ``forward``."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    for part in model.modules():
        if hasattr(part, "set_requires_gradient_sync") and part is not model:
            for method in ("project", "combine"):
                if hasattr(part, method) and method not in vars(part):
                    register_fsdp_forward_method(part, method)


class CompiledModel(MultimodalModel):
    """The parts of a model passed to ``torch.compile``, each compiled by the same backend.

    Args:
        model: The model.
        compiler: The compile context of ``torch.compile``.
    """

    def __init__(self, model: MultimodalModel, compiler: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.model, self.compiler = model, compiler
        self.names = model.names
        self._encode, self._project = compiler(model.encode), compiler(model.project)
        self._combine, self._head = compiler(model.combine), compiler(model.head)

    def encode(self, name: str, x: Modality) -> Any:
        return (self.model.encode if _transformed() else self._encode)(name, x)

    def project(self, name: str, latent: Any) -> Any:
        return self._project(name, latent)

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        return self._combine(projected)  # type: ignore[no-any-return]

    def has_head(self, name: str) -> bool:
        return self.model.has_head(name)

    def head(self, name: str, latent: Any, through: bool = False) -> Tensor:
        return (self.model.head if _transformed() else self._head)(name, latent, through)

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        return self.model.unimodal_modules(name)

    def mixes_rows(self, encoder: str | None = None) -> bool:
        return self.model.mixes_rows(encoder)

    def on_latents(self) -> MultimodalModel:
        return self.model.on_latents()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of the wrapped model."""
        return self.model.named_parameters()  # type: ignore[attr-defined, no-any-return]


def _transformed() -> bool:
    """Whether a torch.func transform is active, as in the search of a learned mask, which cannot call compiled code."""
    return torch._C._functorch.peek_interpreter_stack() is not None
