"""The step of an ordinary training loop, replayed as a CUDA graph."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from synib import keys
from synib.checks import check_kind, check_number
from synib.models import Dropout
from synib.objective import Objective, Parts
from synib.objective.wrappers import is_sharded, replicas
from synib.tokens import Modality
from synib.training.recorded import CudaGraphs, Record, Recorded
from synib.training.step import backward

KINDS = (bool, int, float, str, tuple)  # of values that a replay would not see
INNER = frozenset(vars(nn.Module())) - {"training"}  # attributes of every module, which hold no such values


class RecordedStep:
    """A training step that is recorded as a CUDA graph and replayed; see :func:`synib.recorded`.

    Attributes:
        reason: Why steps are not recorded; empty while they are, or may still be.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, optimizer: torch.optim.Optimizer, clip: float | None = None
    ) -> None:
        self.objective = check_kind("objective", objective, Objective, "synib.SynIB()")
        self.model = check_kind("model", model, nn.Module, "a synib.FusionModel")
        self.optimizer = check_kind("optimizer", optimizer, torch.optim.Optimizer, "torch.optim.Adam(...)")
        self.clip = None if clip is None else check_number("clip", clip, above=0)
        self.reason = ""
        self.steps = 0
        self._recorded: Recorded | None = None
        self._results: dict[Any, list[tuple[Tensor, Parts]]] = {}
        self._before: Any = None
        device = next((p.device for group in optimizer.param_groups for p in group["params"]), torch.device("cpu"))
        if device.type != "cuda":
            self.reason = f"CUDA graphs need a CUDA device; the parameters are on {device}"
        elif replicas(model) is not None or is_sharded(model):
            self.reason = "the model is trained by several processes"
        else:
            self.record(CudaGraphs(device))
            self.objective.to(device)
            _make_capturable(optimizer, device)

    def record(self, how: Record) -> None:
        """Record steps in this way."""
        self._recorded, self.reason = Recorded(how), ""

    def __call__(
        self,
        modalities: Mapping[str, Modality],
        target: Tensor,
        *,
        key: Tensor | None = None,
        examples: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> tuple[Tensor, Parts]:
        """One step on a batch: gradients, clipping and the optimizer's update.

        Args:
            modalities, target, examples, sample_weight: As in a call of the objective.
            key: Key of this step's random draws; by default drawn from torch's generator.

        Returns:
            The loss and its parts, detached.
        """
        key = keys.fresh() if key is None else key
        more = {name: x for name, x in (("examples", examples), ("sample_weight", sample_weight)) if x is not None}
        self.steps += 1
        # The first step checks values, loads libraries and creates the state of optimizer and noise.
        if self._recorded is None or self.steps == 1:
            return self._step(modalities, target, key, more)
        state = self._state()
        if state != self._before:  # another mode, learning rate or autocast, which a replay would not see
            self.forget()
        if self._recorded is None:
            return self._step(modalities, target, key, more)
        arguments = (dict(modalities), target, key.to(target.device, non_blocking=True), more)
        results = self._results.setdefault(tuple(x.shape for x in tree_leaves(arguments)), [])
        replayed = True

        def run(modalities: Any, target: Tensor, key: Tensor, more: Any) -> None:
            nonlocal replayed
            replayed = False
            loss, parts = self._step(modalities, target, key, more)
            if not results:
                results.append((loss.clone(), {name: part.clone() for name, part in parts.items()}))
            else:  # where a replay leaves them too
                results[0][0].copy_(loss)
                for name, part in parts.items():
                    results[0][1][name].copy_(part)

        self._recorded(run, *arguments)
        self._before = state if replayed else self._state()
        if not self._recorded.works:
            self._plain("its step depends on values or copies from the host, or memory is insufficient")
        elif self._before != state:
            self._plain("the model or the objective counts steps outside of tensors")
        loss, parts = results[0]
        return loss.clone(), {name: part.clone() for name, part in parts.items()}

    def forget(self) -> None:
        """Record steps again, because they will compute something else."""
        if self._recorded is not None:
            self._recorded.forget()
        self._results = {}

    def _plain(self, reason: str) -> None:
        self._recorded, self.reason, self._results = None, reason, {}

    def _step(self, modalities: Any, target: Tensor, key: Tensor, more: Mapping[str, Tensor]) -> tuple[Tensor, Parts]:
        self.optimizer.zero_grad()
        with self._in_place():
            result = self._gradients(modalities, target, key, more)
        if self.clip is not None:
            parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.clip)
        self.optimizer.step()
        return result

    def _gradients(
        self, modalities: Any, target: Tensor, key: Tensor, more: Mapping[str, Tensor]
    ) -> tuple[Tensor, Parts]:
        """Fill in the gradients; the loss and its parts."""
        with self._keyed(key):
            return backward(self.objective, self.model, modalities, target, key=key, **more)

    @contextlib.contextmanager
    def _in_place(self) -> Iterator[None]:
        """Context after which buffers that were replaced have their new values at their old addresses."""
        parts = [part for module in (self.model, self.objective) for part in module.modules()]
        before = [(part, name, b) for part in parts for name, b in part.named_buffers(recurse=False)]
        try:
            yield
        except BaseException:  # what a recording has computed until it failed is nowhere
            for part, name, old in before:
                setattr(part, name, old)
            raise
        replaced = [(part, name, old, getattr(part, name)) for part, name, old in before]
        new = [(part, name, old, b.clone()) for part, name, old, b in replaced if b is not old]
        for part, name, old, b in new:
            setattr(part, name, old.copy_(b))

    @contextlib.contextmanager
    def _keyed(self, key: Tensor) -> Iterator[None]:
        """Context in which dropout follows the key of the step."""
        layers = [part for part in self.model.modules() if isinstance(part, Dropout)]
        for i, layer in enumerate(layers):
            layer.key = keys.fold(key, "dropout", i)
        try:
            yield
        finally:
            for layer in layers:
                layer.forget_key()

    def _state(self) -> Any:
        """What determines a step besides tensors. Computed before every step, so it should be fast."""
        numbers: list[Any] = [
            {k: v for k, v in group.items() if isinstance(v, KINDS)} for group in self.optimizer.param_groups
        ]
        parts: list[Any] = [self.model, self.objective]
        for part in parts:  # which grows
            numbers.append({k: v for k, v in vars(part).items() if k not in INNER and isinstance(v, KINDS)})
            numbers.append([p is not None and p.requires_grad for p in part._parameters.values()])
            parts.extend(inner for inner in part._modules.values() if inner is not None)
        return numbers, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


def recorded(
    objective: Objective, model: nn.Module, optimizer: torch.optim.Optimizer, *, clip: float | None = None
) -> RecordedStep:
    """A training step as one function, which a GPU replays as a CUDA graph.

    A small model leaves a GPU idle while the host launches kernels. The step that this returns runs normally at first,
    is recorded, and is replayed from then on, with each new batch copied to where the recording reads it. Every step
    has new masks, noise and dropout. Results are those of the ordinary loop, which also runs where a step cannot be
    recorded: on a CPU, under DDP or FSDP, and with code that copies to the host; ``step.reason`` says why. Dropout of
    :mod:`synib.models` follows the key of the step, so it must not be inside of gradient checkpointing.

    Args:
        objective: The objective.
        model: The model, on its device.
        optimizer: The optimizer. If it can be captured (Adam, AdamW, ...), its learning rate becomes a tensor, which
            schedulers change in place; with others, a step is recorded again when the learning rate changes.
        clip: Largest norm of the gradient; no clipping by default.

    Example:
        >>> import torch, synib
        >>> model = synib.FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3)
        >>> step = synib.recorded(synib.SynIB(), model, torch.optim.Adam(model.parameters()), clip=1.0)
        >>> batch = {"image": torch.randn(32, 8), "text": torch.randn(32, 4)}
        >>> loss, parts = step(batch, torch.randint(3, (32,)))
        >>> step.reason
        'CUDA graphs need a CUDA device; the parameters are on cpu'
    """
    return RecordedStep(objective, model, optimizer, clip)


def fill_in(loss: Tensor, parameters: Iterable[Tensor]) -> None:
    """``loss.backward()`` for these parameters: a parameter that the loss does not depend on gets no gradient."""
    parameters = list(parameters)
    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
        # Of a sum, autograd gives both terms one tensor; what clipping changes in place must be each parameter's own.
        p.grad = None if gradient is None else gradient.clone()


def _make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Let the learning rate be a tensor, and keep the optimizer's step count on the device."""
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32).to(device)
    for state in optimizer.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].to(device)
